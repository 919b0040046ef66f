/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process among processes: tasks, kill, lease, its own end. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/msg.h"
#include "common/self.h"
#include "common/str.h"
#include "mpi_launcher/agent.h"
#include "tests/agent_rig.h"
#include "tests/private_munged.h"

static struct rig rig;

/* A task as slurmstepd makes it: our child, leader of its group, with a child of its own in it
 * that holds the write end of alive.
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

/* A task that ended after since_ms. When it took us too long to tell its status, the agent did
 * not wait for that.
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

static void an_exit_is_told_at_once_and_the_end_of_the_step(void **state)
{
    int stepd, alive[2];
    int64_t began;
    pid_t pid;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    began = dlr_now_ms();
    end_task(pid, alive[0]);
    dlr_rig_send(stepd, DLR_LOCAL_EXIT, 0, 0, 0, SIGKILL, 0);
    expect_exit_since(began, 0, SIGKILL);
    print_message("told after %lld ms\n", (long long)(dlr_now_ms() - began));
    assert_true(dlr_rig_silent(&rig, "clean", 100)); /* the step is still here */
    close(stepd);
    expect_clean(0, 0);
    dlr_rig_stop(&rig);
}

static void kill_takes_tasks_and_their_children(void **state)
{
    int stepd, alive[2][2];
    int64_t began;
    pid_t pid[2];

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0,1]", "null");
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

static void a_task_that_comes_late_is_killed_too(void **state)
{
    int stepd, alive[2];
    pid_t pid;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0]", "null");
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    expect_clean(0, 0);
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_clean(0, 1);
    assert_true(all_gone(alive[0], RIG_WAIT_MS));
    waitpid(pid, NULL, 0);
    close(stepd);
    expect_exit(0, -1); /* nobody told its status */
    dlr_rig_stop(&rig);
}

static void expect_lapsed(int killed)
{
    json_t *msg = dlr_rig_expect(&rig, "lapsed");

    assert_int_equal(dlr_rig_int(msg, "round"), 0);
    assert_int_equal(dlr_rig_int(msg, "killed"), killed);
    assert_true(dlr_rig_int(msg, "silent_ms") > 0);
    json_decref(msg);
}

static void workers_end_with_the_lease(void **state)
{
    int stepd, alive[2];
    int64_t last, gone;
    pid_t pid;

    dlr_rig_start_leased(&rig);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    assert_true(
        dlr_rig_silent(&rig, "exit", RIG_DEAD_MS * 5 / 4)); /* leased, it lives */
    last = (int64_t)(rig.beat.sent_ns / 1000000); /* the last beat that was answered */
    rig.leasing = false;
    assert_true(all_gone(alive[0], RIG_WAIT_MS));
    gone = dlr_now_ms();
    waitpid(pid, NULL, 0);
    close(stepd);
    print_message("gone %lld ms after the last leased beat\n",
                  (long long)(gone - last));
    assert_true(gone - last >= RIG_DEAD_MS);
    expect_lapsed(1);
    expect_clean(0, 1);
    expect_exit(0, -1);
    rig.leasing = true;
    dlr_rig_stop(&rig);
}

/* As slurmstepd does it: SIGTSTP, SIGSTOP, a while later SIGCONT. Returns before the SIGCONT. */
static void suspend_agent(void)
{
    siginfo_t info;

    uint32_t seq;

    kill(rig.pid, SIGTSTP);
    json_decref(dlr_rig_expect(&rig, "suspend"));
    for (seq = rig.beat.seq; rig.beat.seq == seq;) /* the next one is answered */
        assert_true(dlr_rig_silent(&rig, "awake", RIG_EVERY_MS));
    dlr_rig_sync(&rig); /* and the answer is there */
    kill(rig.pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)rig.pid, &info, WSTOPPED), 0);
}

static void a_suspended_job_keeps_its_workers(void **state)
{
    int stepd, alive[2];
    pid_t pid;

    dlr_rig_start_leased(&rig);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    rig.holding = true;
    suspend_agent();
    assert_true(dlr_rig_silent(&rig, "lapsed", RIG_DEAD_MS * 5 / 4));
    rig.holding = false;
    kill(rig.pid, SIGCONT);
    json_decref(dlr_rig_expect(&rig, "awake"));
    assert_true(dlr_rig_silent(&rig, "lapsed", RIG_DEAD_MS * 5 / 4));
    rig.leasing = false; /* and then it lives by the lease again */
    expect_lapsed(1);
    assert_true(all_gone(alive[0], RIG_WAIT_MS));
    waitpid(pid, NULL, 0);
    close(stepd);
    rig.leasing = true;
    dlr_rig_stop(&rig);
}

static void a_node_stopped_without_a_hold_is_a_frozen_one(void **state)
{
    int stepd, alive[2];
    pid_t pid;

    dlr_rig_start_leased(&rig);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    suspend_agent(); /* the supervisor does not agree */
    rig.leasing = false;
    assert_true(dlr_rig_silent(&rig, "lapsed", RIG_DEAD_MS * 5 / 4));
    kill(rig.pid, SIGCONT);
    expect_lapsed(1);
    rig.leasing = true;
    assert_true(all_gone(alive[0], RIG_WAIT_MS));
    waitpid(pid, NULL, 0);
    close(stepd);
    dlr_rig_stop(&rig);
}

/* With proctrack/cgroup Slurm tells the task alone, which is the agent's parent. */
static void a_suspension_told_to_the_parent_reaches_the_agent(void **state)
{
    dlr_rig_start_kept(&rig);
    kill(rig.pid, SIGTSTP);
    json_decref(dlr_rig_expect(&rig, "suspend"));
    kill(rig.pid, SIGCONT);
    json_decref(dlr_rig_expect(&rig, "awake"));
    dlr_rig_stop(&rig);
}

static void a_step_that_leaves_its_tasks_behind_is_finished_off(void **state)
{
    int stepd, alive[2];
    pid_t pid;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    pid = start_task(alive);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, (uint64_t)pid, 0);
    expect_task(0, pid);
    close(stepd); /* slurmstepd was killed */
    assert_true(all_gone(alive[0], RIG_WAIT_MS));
    waitpid(pid, NULL, 0);
    expect_clean(0, 1);
    expect_exit(0, -1);
    dlr_rig_stop(&rig);
}

static void pids_of_others_are_refused(void **state)
{
    int stepd;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0]", "null");
    stepd = begin_step();
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 0, 0, 1, 0);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, 1, 0, (uint64_t)getpid(), 0);
    dlr_rig_send(stepd, DLR_LOCAL_TASK, 0, -5, 0, (uint64_t)getpid(), 0);
    assert_true(dlr_rig_silent(&rig, "task", 200));
    close(stepd);
    dlr_rig_stop(&rig);
}

static void stderr_comes_through_as_text(void **state)
{
    struct dlr_local_msg m;
    json_t *msg;
    int fd;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0]", "null");
    fd = dlr_rig_connect(&rig);
    dlr_local_init(&m, DLR_LOCAL_STDERR);
    m.rank = 3;
    dlr_local_text(&m, "bad \xff\xfe\x01 thing\n\tat line 5\n");
    assert_int_equal(dlr_local_send(fd, &m, NULL, 0), 0);
    msg = dlr_rig_expect(&rig, "stderr");
    assert_int_equal(dlr_rig_int(msg, "rank"), 3);
    assert_string_equal(dlr_rig_str(msg, "text"), "bad ??? thing\n\tat line 5\n");
    json_decref(msg);
    close(fd);
    dlr_rig_stop(&rig);
}

static void what_happened_is_told_again_to_a_new_supervisor(void **state)
{
    int stepd, alive[2];
    int64_t began;
    pid_t pid;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[0,1]", "null");
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
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i, s:i", "gen", 1, "beat_ms", 60,
                "dead_ms", RIG_LEASE_MS, "end_ms", 2000);
    expect_task(0, pid);
    expect_exit_since(began, 0, 256);
    expect_clean(0, 0);
    dlr_rig_stop(&rig);
}

static void a_report_is_made_by_a_child(void **state)
{
    json_t *msg;

    dlr_rig_start(&rig, NULL);
    dlr_rig_say(&rig, "report", "s:i", "id", 77);
    msg = dlr_rig_expect(&rig, "report");
    assert_int_equal(dlr_rig_int(msg, "id"), 77);
    assert_string_equal(dlr_rig_str(json_object_get(msg, "report"), "node"), "n1");
    json_decref(msg);
    dlr_rig_stop(&rig);
}

static void only_sigterm_and_bye_end_it(void **state)
{
    static const int harmless[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                                   SIGALRM, SIGPIPE, SIGTSTP, SIGCONT, SIGXCPU};

    dlr_rig_start(&rig, NULL);
    for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
        kill(rig.pid, harmless[i]);
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "bye", "");
    assert_int_equal(dlr_rig_wait_end(&rig), 0);
    dlr_rig_stop(&rig);
}

static void an_agent_waits_for_the_one_before_it(void **state)
{
    dlr_rig_start(&rig, NULL);
    dlr_rig_replace(&rig);
    assert_int_equal(access(rig.socket, F_OK), 0); /* not taken away with the old one */
    dlr_rig_round(&rig, 0, "[0]", "null");
    dlr_rig_sync(&rig);
    dlr_rig_stop(&rig);
}

static void orders_reach_the_data_process_and_their_end_comes_back(void **state)
{
    static const struct {
        const char *order, *key, *text, *line;
    } rows[] = {
        {"send", "data", "cafe", "send 9 0/7 cafe\n"},
        {"load", "path", "/x/y", "load 9 0/7 /x/y\n"},
        {"persist", "path", "/x/z", "save 9 0/7 /x/z\n"},
    };
    json_t *msg;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[4]", "null");
    assert_true(dlr_rig_noted(&rig, "drop 4294967295/18446744073709551615\n"));
    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 0, "rank", 9, "bytes",
                65536);
    json_decref(dlr_rig_expect(&rig, "ready"));
    assert_true(dlr_rig_noted(&rig, "reserve 9 65536\n"));
    for (int i = 0; i < 3; i++) {
        dlr_rig_say(&rig, rows[i].order, "s:i, s:i, s:i, s:i, s:i, s:s", "id", 100 + i,
                    "round", 0, "rank", 9, "vround", 0, "step", 7, rows[i].key,
                    rows[i].text);
        msg = dlr_rig_expect(&rig, "done");
        assert_int_equal(dlr_rig_int(msg, "id"), 100 + i);
        assert_int_equal(dlr_rig_int(msg, "rc"), 0);
        json_decref(msg);
        assert_true(dlr_rig_noted(&rig, rows[i].line));
    }
    dlr_rig_say(&rig, "send", "s:i, s:i, s:i, s:i, s:i, s:s", "id", 200, "round", 5,
                "rank", 9, "vround", 0, "step", 7, "data", "cafe");
    msg = dlr_rig_expect(&rig, "done");
    assert_int_equal(dlr_rig_int(msg, "rc"), ESTALE);
    json_decref(msg);
    dlr_rig_stop(&rig);
}

/* The pid in the address that the next hello with (or without) one has; 0 without. */
static pid_t next_data_process(bool with)
{
    for (;;) {
        json_t *msg = dlr_rig_expect(&rig, "hello");
        const char *address = dlr_rig_str(msg, "data");
        const char *text = dlr_after(address, "c0ffee");
        pid_t pid = text ? (pid_t)strtol(text, NULL, 10) : 0;

        if (!text)
            assert_string_equal(address, "");
        json_decref(msg);
        if ((pid != 0) == with)
            return pid;
    }
}

static void a_data_process_that_dies_is_started_again(void **state)
{
    pid_t pid;

    dlr_rig_start(&rig, NULL);
    dlr_rig_round(&rig, 0, "[4]", "null");
    assert_true(dlr_rig_noted(&rig, "config 0"));
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "who", "");
    pid = next_data_process(true);
    kill(pid, SIGKILL);
    next_data_process(false);
    assert_int_not_equal(next_data_process(true), pid);
    assert_true(dlr_rig_noted(&rig, "config 0 c.17.run"));
    dlr_rig_stop(&rig);
}

static void malformed_messages_do_nothing(void **state)
{
    static const char *const rows[] = {
        "",
        "{",
        "[]",
        "{\"v\":1,\"t\":\"round\"}",
        "{\"v\":1,\"t\":\"round\",\"round\":1,\"token\":\"zz\",\"nodes\":[],"
        "\"partners\":{}}",
        "{\"v\":1,\"t\":\"round\",\"round\":1,\"token\":\"" RIG_TOKEN
        "\",\"nodes\":[7],"
        "\"partners\":{},\"restore\":null}",
        "{\"v\":1,\"t\":\"round\",\"round\":1,\"token\":\"" RIG_TOKEN "\",\"nodes\":[],"
        "\"partners\":{\"n1\":7},\"restore\":null}",
        "{\"v\":1,\"t\":\"round\",\"round\":-1}",
        "{\"v\":1,\"t\":\"kill\"}",
        "{\"v\":1,\"t\":\"save_at\",\"round\":5,\"step\":1}",
        "{\"v\":1,\"t\":\"peers\",\"batch\":7}",
        "{\"v\":1,\"t\":\"peers\",\"batch\":\"n2\",\"peers\":[{\"node\":1}]}",
        "{\"v\":1,\"t\":\"welcome\",\"gen\":1,\"beat_ms\":0,\"dead_ms\":1,\"end_ms\":"
        "1}",
        "{\"v\":1,\"t\":\"welcome\",\"gen\":9,\"beat_ms\":1,\"dead_ms\":1,\"end_ms\":"
        "1}",
        "{\"v\":1,\"t\":\"send\",\"id\":1}",
        "{\"v\":2,\"t\":\"bye\"}",
        "DLRB",
    };

    dlr_rig_start(&rig, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        dlr_server_send(rig.server, &rig.agent, rows[i], strlen(rows[i]));
    dlr_rig_sync(&rig);
    dlr_rig_stop(&rig);
}

static void by_hand_it_says_what_it_is(void **state)
{
    char path[4200], here[4096], cmd[4400], line[512] = "";
    FILE *out;

    dlr_self_sibling("..", here, sizeof(here));
    dlr_format(path, sizeof(path), "%s/dlrover-agent", here);
    dlr_format(cmd, sizeof(cmd), "%s 2>&1", path);
    out = popen(cmd, "r");
    assert_non_null(fgets(line, sizeof(line), out));
    assert_int_equal(WEXITSTATUS(pclose(out)), 2);
    assert_string_equal(line,
                        "dlr: DLROVER_CRED is not set: this program is started by "
                        "dlrover's supervisor, not by hand; see --help\n");
}

static int clear(void **state)
{
    dlr_rig_abandon(&rig);
    return 0;
}

static int start(void **state)
{
    dlr_test_munged_start();
    return 0;
}

static int stop(void **state)
{
    dlr_test_munged_stop();
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, clear)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(an_exit_is_told_at_once_and_the_end_of_the_step),
        TEST(kill_takes_tasks_and_their_children),
        TEST(a_task_that_comes_late_is_killed_too),
        TEST(workers_end_with_the_lease),
        TEST(a_suspended_job_keeps_its_workers),
        TEST(a_node_stopped_without_a_hold_is_a_frozen_one),
        TEST(a_suspension_told_to_the_parent_reaches_the_agent),
        TEST(a_step_that_leaves_its_tasks_behind_is_finished_off),
        TEST(pids_of_others_are_refused),
        TEST(stderr_comes_through_as_text),
        TEST(what_happened_is_told_again_to_a_new_supervisor),
        TEST(a_report_is_made_by_a_child),
        TEST(only_sigterm_and_bye_end_it),
        TEST(an_agent_waits_for_the_one_before_it),
        TEST(orders_reach_the_data_process_and_their_end_comes_back),
        TEST(a_data_process_that_dies_is_started_again),
        TEST(malformed_messages_do_nothing),
        TEST(by_hand_it_says_what_it_is),
    };

    dlr_rig_role(argc, argv);
    return cmocka_run_group_tests(tests, start, stop);
}
