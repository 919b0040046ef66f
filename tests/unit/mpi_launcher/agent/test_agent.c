/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent as a process among processes: tasks, kill, lease, its own end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "tests/support/agent_rig.h"

static struct rig rig;

/* A task as slurmstepd makes it: our child, leader of its group, with a child of its
 * own in it that holds the write end of alive.
 */
static pid_t start_task(int alive[2])
{
    pid_t pid;

    assert_int_equal(pipe(alive), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        signal(SIGTERM, SIG_IGN);
        if (fork() == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_range(3, (unsigned)alive[1] - 1, 0); /* no step's connection among them */
        close_range((unsigned)alive[1] + 1, ~0U, 0);
        for (;;)
            pause();
    }
    setpgid(pid, pid);
    close(alive[1]);
    return pid;
}

/* True when every holder of the pipe is gone. */
static bool all_gone(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool gone = poll(&p, 1, ms) == 1;

    close(fd);
    return gone;
}

static void expect_task(int rank, pid_t pid)
{
    json_t *msg = dlr_rig_expect(&rig, "task");

    assert_int_equal(dlr_rig_int(msg, "round"), 0);
    assert_int_equal(dlr_rig_int(msg, "rank"), rank);
    assert_int_equal(dlr_rig_int(msg, "pid"), pid);
    json_decref(msg);
}

/* A task that ended after since_ms. When it took us too long to tell its status, the
 * agent did not wait for that.
 */
static void expect_exit_since(int64_t since_ms, int rank, int status)
{
    json_t *msg = dlr_rig_expect(&rig, "exit");

    assert_int_equal(dlr_rig_int(msg, "rank"), rank);
    if (dlr_rig_int(msg, "status") != -1 || dlr_now_ms() - since_ms < DLR_AGENT_EXIT_MS)
        assert_int_equal(dlr_rig_int(msg, "status"), status);
    json_decref(msg);
}

static void expect_exit(int rank, int status)
{
    expect_exit_since(dlr_now_ms(), rank, status);
}

/* Ends a task with its child: of the two, only the task is ours to wait for. */
static void end_task(pid_t pid, int alive)
{
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(all_gone(alive, RIG_WAIT_MS));
}

static void expect_clean(int round, int killed)
{
    json_t *msg = dlr_rig_expect(&rig, "clean");

    assert_int_equal(dlr_rig_int(msg, "round"), round);
    assert_int_equal(dlr_rig_int(msg, "killed"), killed);
    json_decref(msg);
}

static int begin_step(void)
{
    int stepd = dlr_rig_connect(&rig);

    dlr_rig_send(stepd, DLR_LOCAL_STEPD, 0, -1, 0, 0, 0);
    return stepd;
}

/* A step of this node with one task. */
struct step {
    int stepd, alive; /* alive ends when the task and its child have */
    pid_t pid;
};

static void add_task(struct step *t)
{
    int alive[2];

    t->stepd = begin_step();
    t->pid = start_task(alive);
    t->alive = alive[0];
    dlr_rig_send(t->stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)t->pid, 0);
}

static void one_task(struct step *t)
{
    dlr_rig_round(&rig, 0, "[0]", "null");
    dlr_rig_sync(&rig); /* the task comes by another socket, and not before the round */
    add_task(t);
    expect_task(0, t->pid);
}

/* The same, with leases that run out while the test waits for it. */
static void leased_task(struct step *t)
{
    dlr_rig_start_leased(&rig);
    one_task(t);
}

/* The agent has killed it. */
static void gone_with_its_step(const struct step *t)
{
    assert_true(all_gone(t->alive, RIG_WAIT_MS));
    waitpid(t->pid, NULL, 0);
    close(t->stepd);
}

static void an_exit_is_told_at_once_and_the_end_of_the_step(void **state)
{
    struct step t;
    int64_t began;

    dlr_rig_start(&rig, NULL);
    one_task(&t);
    began = dlr_now_ms();
    end_task(t.pid, t.alive);
    dlr_rig_send(t.stepd, DLR_LOCAL_EXIT, 0, 0, 0, SIGKILL, 0);
    expect_exit_since(began, 0, SIGKILL);
    print_message("told after %lld ms\n", (long long)(dlr_now_ms() - began));
    assert_true(dlr_rig_silent(&rig, "clean", 100)); /* the step is still here */
    close(t.stepd);
    expect_clean(0, 0);
    dlr_rig_stop(&rig);
}

static void kill_takes_tasks_and_their_children(void **state)
{
    int stepd, alive[2][2];
    int64_t began;
    pid_t pid[2];

    dlr_rig_begin(&rig, NULL, 0, "[0,1]", "null");
    stepd = begin_step();
    for (int i = 0; i < 2; i++) {
        pid[i] = start_task(alive[i]);
        dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, i, 0, (uint64_t)pid[i], 0);
        expect_task(i, pid[i]);
    }
    began = dlr_now_ms();
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    expect_clean(0, 2); /* before slurmstepd has noticed */
    for (int i = 0; i < 2; i++) {
        assert_true(all_gone(alive[i][0], RIG_WAIT_MS));
        waitpid(pid[i], NULL, 0);
        dlr_rig_send(stepd, DLR_LOCAL_EXIT, 0, i, 0, SIGKILL, 0);
        expect_exit_since(began, i, SIGKILL);
    }
    close(stepd);
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    expect_clean(0, 2); /* asked again, told again */
    dlr_rig_stop(&rig);
}

/* As the supervisor starts srun: with the round's marks, and what is taken out for
 * tasks.
 */
static pid_t start_srun(void)
{
    int exec[2];
    pid_t pid;

    assert_int_equal(pipe2(exec, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        execle("/bin/sleep", "sleep", "600", NULL,
               (char *[]){"DLROVER_RUN=run", "SLURM_JOB_ID=17", "DLROVER_ROUND=0",
                          "DLROVER_ROUND_NODES=n1", NULL});
        _exit(127);
    }
    close(exec[1]);
    assert_true(all_gone(exec[0], RIG_WAIT_MS)); /* it has the marks now */
    return pid;
}

static void a_kill_can_spare_the_srun_that_has_output_to_write(void **state)
{
    pid_t srun;
    int status;

    dlr_rig_start(&rig, NULL);
    srun = start_srun();
    dlr_rig_round(&rig, 0, "[0]", "null");
    dlr_rig_say(&rig, "kill", "s:i, s:b", "round", 0, "flush", 1);
    expect_clean(0, 0);
    assert_int_equal(waitpid(srun, NULL, WNOHANG), 0);
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    assert_int_equal(waitpid(srun, &status, 0), srun);
    assert_true(WIFSIGNALED(status));
    expect_clean(0, 0);
    dlr_rig_stop(&rig);
}

static void a_task_that_comes_late_is_killed_too(void **state)
{
    struct step t;

    dlr_rig_begin(&rig, NULL, 0, "[0]", "null");
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    expect_clean(0, 0);
    add_task(&t);
    expect_clean(0, 1);
    gone_with_its_step(&t);
    expect_exit(0, -1); /* nobody told its status */
    dlr_rig_stop(&rig);
}

static void expect_lapsed(int killed)
{
    json_t *msg = dlr_rig_expect(&rig, "lease_expired");

    assert_int_equal(dlr_rig_int(msg, "round"), 0);
    assert_int_equal(dlr_rig_int(msg, "killed"), killed);
    assert_true(dlr_rig_int(msg, "silent_ms") > 0);
    json_decref(msg);
}

static void end_with_the_lease(const struct step *t)
{
    expect_lapsed(1);
    rig.leasing = true;
    gone_with_its_step(t);
    dlr_rig_stop(&rig);
}

static void workers_end_with_the_lease(void **state)
{
    struct step t;
    int64_t last, gone;

    leased_task(&t);
    assert_true(
        dlr_rig_silent(&rig, "exit", RIG_DEAD_MS * 5 / 4)); /* leased, it lives */
    last = (int64_t)(rig.beat.sent_ns / 1000000); /* the last beat that was answered */
    rig.leasing = false;
    assert_true(all_gone(t.alive, RIG_WAIT_MS));
    gone = dlr_now_ms();
    waitpid(t.pid, NULL, 0);
    close(t.stepd);
    print_message("gone %lld ms after the last leased beat\n",
                  (long long)(gone - last));
    assert_true(gone - last >= RIG_DEAD_MS);
    expect_lapsed(1);
    expect_clean(0, 1);
    expect_exit(0, -1);
    rig.leasing = true;
    dlr_rig_stop(&rig);
}

static void await_lease(void)
{
    for (uint32_t seq = rig.beat.seq; rig.beat.seq == seq;) /* the next is answered */
        assert_true(dlr_rig_silent(&rig, "awake", RIG_EVERY_MS));
    dlr_rig_sync(&rig); /* and the answer is there */
}

/* As slurmstepd does it: SIGTSTP, SIGSTOP, a while later SIGCONT. Returns before the
 * SIGCONT.
 */
static void suspend_agent(void)
{
    siginfo_t info;

    kill(rig.pid, SIGTSTP);
    dlr_rig_await(&rig, "suspend");
    await_lease();
    kill(rig.pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)rig.pid, &info, WSTOPPED), 0);
}

static void a_suspended_job_keeps_its_workers(void **state)
{
    struct step t;

    leased_task(&t);
    rig.holding = true;
    suspend_agent();
    assert_true(dlr_rig_silent(&rig, "lease_expired", RIG_DEAD_MS * 5 / 4));
    rig.holding = false;
    kill(rig.pid, SIGCONT);
    dlr_rig_await(&rig, "awake");
    assert_true(dlr_rig_silent(&rig, "lease_expired", RIG_DEAD_MS * 5 / 4));
    rig.leasing = false; /* and then it lives by the lease again */
    end_with_the_lease(&t);
}

static void a_node_stopped_without_a_hold_is_a_frozen_one(void **state)
{
    struct step t;

    leased_task(&t);
    suspend_agent(); /* the supervisor does not agree */
    rig.leasing = false;
    assert_true(dlr_rig_silent(&rig, "lease_expired", RIG_DEAD_MS * 5 / 4));
    kill(rig.pid, SIGCONT);
    end_with_the_lease(&t);
}

/* With proctrack/cgroup Slurm tells the task alone, which is the agent's parent. */
static void a_suspension_told_to_the_parent_reaches_the_agent(void **state)
{
    dlr_rig_start_kept(&rig, RIG_LEASE_MS);
    kill(rig.pid, SIGTSTP);
    dlr_rig_await(&rig, "suspend");
    kill(rig.pid, SIGCONT);
    dlr_rig_await(&rig, "awake");
    dlr_rig_stop(&rig);
}

/* Slurm's, to all steps of the job: the task has it, too. The supervisor goes with the
 * script, and the agent kills nothing, asks nobody and ends after its task.
 */
static void sigterm_leaves_the_tasks_to_slurm(void **state)
{
    struct step t;

    leased_task(&t);
    await_lease();
    kill(rig.pid, SIGTERM);
    dlr_rig_await(&rig, "term");
    rig.leasing = false;
    assert_true(dlr_rig_silent(&rig, "lease_expired", RIG_DEAD_MS * 5 / 4));
    assert_int_equal(kill(t.pid, 0), 0);
    end_task(t.pid, t.alive);
    close(t.stepd);
    assert_int_equal(dlr_rig_wait_end(&rig), 0);
    rig.leasing = true;
    dlr_rig_stop(&rig);
}

/* The same, and the supervisor lives: it goes on as before. */
static void sigterm_alone_ends_no_agent(void **state)
{
    struct step t;
    json_t *msg;

    dlr_rig_start_kept(&rig, RIG_LEASE_MS);
    one_task(&t);
    kill(rig.pid, SIGTERM);
    dlr_rig_await(&rig, "term");
    dlr_rig_sync(&rig);
    assert_int_equal(kill(t.pid, 0), 0);
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    expect_clean(0, 1);
    gone_with_its_step(&t);
    dlr_rig_round(&rig, 1, "[0]", "null");
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", RIG_DEAD_MS,
                "end_ms", 2000);
    msg = dlr_rig_expect(&rig, "term"); /* its tasks got it, those of round 1 did not */
    assert_int_equal(dlr_rig_int(msg, "round"), 0);
    json_decref(msg);
    dlr_rig_stop(&rig);
}

/* --signal=USR1@60, scancel -s: what it means the supervisor finds out. */
static void another_signal_to_the_steps_is_told_and_ends_nothing(void **state)
{
    static const int sigs[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGQUIT, SIGALRM};
    struct step t;

    dlr_rig_start_kept(&rig, RIG_LEASE_MS);
    one_task(&t);
    for (unsigned i = 0; i < sizeof(sigs) / sizeof(*sigs); i++) {
        json_t *msg;

        kill(rig.pid, sigs[i]);
        msg = dlr_rig_expect(&rig, "warned");
        assert_int_equal(dlr_rig_int(msg, "signal"), sigs[i]);
        assert_int_equal(dlr_rig_int(msg, "round"), 0);
        json_decref(msg);
    }
    dlr_rig_sync(&rig);
    assert_int_equal(kill(t.pid, 0), 0);
    end_task(t.pid, t.alive);
    close(t.stepd);
    dlr_rig_stop(&rig);
}

static void a_step_that_leaves_its_tasks_behind_is_finished_off(void **state)
{
    struct step t;

    dlr_rig_start(&rig, NULL);
    one_task(&t);
    close(t.stepd); /* slurmstepd was killed */
    dlr_rig_await(&rig, "orphaned");
    assert_true(all_gone(t.alive, RIG_WAIT_MS));
    waitpid(t.pid, NULL, 0);
    expect_clean(0, 1);
    expect_exit(0, -1);
    dlr_rig_stop(&rig);
}

static void pids_of_others_are_refused(void **state)
{
    int stepd;

    dlr_rig_begin(&rig, NULL, 0, "[0]", "null");
    stepd = begin_step();
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, 1, 0);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 1, 0, (uint64_t)getpid(), 0);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, -5, 0, (uint64_t)getpid(), 0);
    assert_true(dlr_rig_silent(&rig, "task", 200));
    close(stepd);
    dlr_rig_stop(&rig);
}

/* The socket is in a directory of its user's alone; should that ever be open, its peer
 * is asked for all the same.
 */
static void another_user_is_not_heard_on_the_agents_socket(void **state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct pollfd pfd = {.events = POLLIN};
    char byte, job_dir[sizeof(rig.memory)];
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip(); /* only root can be two users */
    dlr_rig_start(&rig, NULL);
    dlr_format(job_dir, sizeof(job_dir), "%s", rig.memory);
    *strrchr(job_dir, '/') = '\0';
    assert_int_equal(chmod(rig.dir, 0755) | chmod(job_dir, 0755), 0);
    assert_int_equal(chmod(rig.memory, 0755) | chmod(rig.socket, 0666), 0);
    dlr_format(to.sun_path, sizeof(to.sun_path), "%s", rig.socket);
    pid = fork();
    if (pid == 0) {
        pfd.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setuid(12345) < 0 ||
            connect(pfd.fd, (struct sockaddr *)&to, sizeof(to)) < 0)
            _exit(2);
        _exit(poll(&pfd, 1, RIG_WAIT_MS) != 1 ||
              recv(pfd.fd, &byte, 1, MSG_DONTWAIT) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0); /* hung up */
    dlr_rig_stop(&rig);
}

static void what_happened_is_told_again_to_a_new_supervisor(void **state)
{
    int stepd, alive[2];
    int64_t began;
    pid_t pid;

    dlr_rig_begin(&rig, NULL, 0, "[0,1]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    began = dlr_now_ms();
    end_task(pid, alive[0]);
    dlr_rig_send(stepd, DLR_LOCAL_EXIT, 0, 0, 0, 256, 0);
    expect_exit_since(began, 0, 256);
    close(stepd);
    expect_clean(0, 0);
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", RIG_LEASE_MS,
                "end_ms", 2000);
    expect_task(0, pid);
    expect_exit_since(began, 0, 256);
    expect_clean(0, 0);
    dlr_rig_stop(&rig);
}

RIG_MAIN(RIG_TEST(an_exit_is_told_at_once_and_the_end_of_the_step),
         RIG_TEST(kill_takes_tasks_and_their_children),
         RIG_TEST(a_kill_can_spare_the_srun_that_has_output_to_write),
         RIG_TEST(a_task_that_comes_late_is_killed_too),
         RIG_TEST(workers_end_with_the_lease),
         RIG_TEST(a_suspended_job_keeps_its_workers),
         RIG_TEST(a_node_stopped_without_a_hold_is_a_frozen_one),
         RIG_TEST(a_suspension_told_to_the_parent_reaches_the_agent),
         RIG_TEST(sigterm_leaves_the_tasks_to_slurm),
         RIG_TEST(sigterm_alone_ends_no_agent),
         RIG_TEST(another_signal_to_the_steps_is_told_and_ends_nothing),
         RIG_TEST(a_step_that_leaves_its_tasks_behind_is_finished_off),
         RIG_TEST(pids_of_others_are_refused),
         RIG_TEST(another_user_is_not_heard_on_the_agents_socket),
         RIG_TEST(what_happened_is_told_again_to_a_new_supervisor))
