/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* An agent is killed, and the next one goes on with its round: slurmstepd, a task and a
 * worker notice nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "common/local/message.h"
#include "tests/support/worker_rig.h"
#include "watch/map.h"
#include "watch/write.h"

#define SHORT_MS                                                                       \
    3000 /* a lease: a round is begun within it, also on a loaded machine */

static struct rig rig;

static struct {
    int stepd;
    pid_t pid; /* of the task */
    struct worker w;
} node;

/* Round 0 has rank 4 here: a task, which is our child as it would be slurmstepd's, and
 * its worker.
 */
static void begin_round_of(unsigned lease_ms)
{
    dlr_rig_start_kept(&rig, lease_ms);
    dlr_rig_round(&rig, 0, "[4]", "null");
    dlr_rig_sync(&rig);
    node.stepd = dlr_rig_connect(&rig);
    dlr_rig_send(node.stepd, DLR_LOCAL_STEPD, 0, -1, 0, 0, 0);
    node.pid = fork();
    if (node.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        close_range(3, ~0U, 0);
        for (;;)
            pause();
    }
    setpgid(node.pid, node.pid);
    dlr_rig_send(node.stepd, DLR_LOCAL_TASK, 0, 4, 0, (uint64_t)node.pid, 0);
    dlr_rig_await(&rig, "task");
    assert_true(rig_hello(&rig, &node.w, 0, 4));
    rig_worker_slots(&node.w);
    do
        dlr_rig_sync(&rig);
    while (atomic_load(&node.w.page->lease_ns) == 0);
}

static void begin_round(void)
{
    begin_round_of(RIG_LEASE_MS);
}

static pid_t agent_pid(void)
{
    char path[64];
    int pid = 0;
    FILE *file;

    dlr_format(path, sizeof(path), "/proc/%d/task/%d/children", (int)rig.pid,
               (int)rig.pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

/* It is stopped, and waits for something to happen. */
static bool is_waiting(pid_t pid)
{
    unsigned long long fds, n, timeout;
    char path[64], state = ' ';
    FILE *file;
    int number = -1;

    dlr_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (state != 'T') {
        file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
    dlr_format(path, sizeof(path), "/proc/%d/syscall", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return true; /* it is not for us to see */
    if (fscanf(file, "%d %llx %llx %llx", &number, &fds, &n, &timeout) != 4)
        number = -1;
    fclose(file);
    return (number == SYS_poll && timeout != 0) || number == SYS_restart_syscall;
}

/* Not in the middle of something: for that the test of kept.c is. */
static void kill_agent(void)
{
    pid_t pid = agent_pid();

    kill(pid, SIGSTOP);
    while (!is_waiting(pid)) {
        kill(pid, SIGCONT);
        usleep(1000);
        kill(pid, SIGSTOP);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
}

/* What the next one says of the round. The caller's. */
static json_t *next_agent(void)
{
    json_t *hello = dlr_rig_expect(&rig, "hello");

    while (dlr_streq(dlr_rig_str(hello, "key"), rig.peer_key)) {
        json_decref(hello);
        hello = dlr_rig_expect(&rig, "hello");
    }
    dlr_format(rig.peer_key, sizeof(rig.peer_key), "%s", dlr_rig_str(hello, "key"));
    json_decref(hello);
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", (int)rig.dead_ms,
                "end_ms", 2000);
    return dlr_rig_expect(&rig, "round_state");
}

static void expect_round(json_t *told, int round)
{
    assert_int_equal(dlr_rig_int(told, "round"), round);
    if (round >= 0)
        assert_in_range(dlr_rig_int(told, "back_ms"), 0, RIG_WAIT_MS);
    else
        assert_null(json_object_get(told, "back_ms"));
    json_decref(told);
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static void end_task(void)
{
    kill(node.pid, SIGKILL);
    waitpid(node.pid, NULL, 0);
    dlr_rig_send(node.stepd, DLR_LOCAL_EXIT, 0, 4, 0, SIGKILL, 0);
}

static void end_round(void)
{
    rig_bye(&node.w);
    close(node.stepd);
    dlr_rig_stop(&rig);
}

static void save(uint64_t step)
{
    json_t *msg;

    dlr_rig_say(&rig, "save_at", "s:i, s:I", "round", 0, "step", (json_int_t)step);
    dlr_rig_sync(&rig);
    assert_true(dlr_page_ordered(node.w.page, step));
    atomic_store(&node.w.page->begun_step, step);
    rig_worker_save(&node.w, step);
    msg = dlr_rig_expect(&rig, "sealed");
    assert_int_equal(dlr_rig_int(msg, "step"), step);
    json_decref(msg);
}

/* The watch page of rank 4, which this process asks for. */
static void ask_watch_page(struct dlr_watch_map *ret)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS], fd = dlr_rig_connect(&rig);
    unsigned n = 0;

    dlr_rig_send(fd, DLR_LOCAL_WATCH, 0, 4, 0, 1, 0); /* with a ring */
    assert_true(dlr_rig_recv(fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_WATCHED);
    assert_int_equal(n, 2);
    assert_int_equal(dlr_watch_map_open(ret, fds[0], fds[1], NULL), 0);
    close(fds[0]);
    close(fds[1]);
    close(fd);
}

static void its_watch_pages_too(void **state)
{
    struct dlr_watch_map before, after;

    begin_round();
    ask_watch_page(&before);
    dlr_rig_sync(&rig);
    dlr_watch_put_step(before.page, 7, 1000);
    kill_agent();
    expect_round(next_agent(), 0);
    ask_watch_page(&after);
    assert_int_equal(after.page->step, 7);
    dlr_watch_put_step(before.page, 8, 2000);
    assert_int_equal(after.page->step, 8);
    dlr_watch_map_close(&before);
    dlr_watch_map_close(&after);
    end_task();
    end_round();
}

static void its_tasks_pages_and_slots_are_the_next_ones(void **state)
{
    uint64_t lease_ns;
    json_t *msg;

    begin_round();
    save(10);
    dlr_rig_say(&rig, "commit", "s:i, s:i", "round", 0, "step", 10);
    dlr_rig_sync(&rig);
    rig.leasing = false;
    dlr_rig_sync(&rig);
    lease_ns = atomic_load(&node.w.page->lease_ns);
    kill_agent();
    msg = next_agent();
    assert_int_equal(dlr_rig_int(json_object_get(msg, "committed"), "step"), 10);
    expect_round(msg, 0);
    msg = dlr_rig_expect(&rig, "task");
    assert_int_equal(dlr_rig_int(msg, "pid"), node.pid);
    json_decref(msg);
    assert_true(is_open(node.w.fd) && is_open(node.stepd));
    assert_int_equal(atomic_load(&node.w.page->lease_ns), lease_ns);
    rig.leasing = true;
    save(11);
    dlr_rig_say(&rig, "commit", "s:i, s:i", "round", 0, "step", 11);
    dlr_rig_sync(&rig);
    save(12); /* into the slot of step 10 */
    end_task();
    msg = dlr_rig_expect(&rig, "exit");
    assert_int_equal(dlr_rig_int(msg, "status"), SIGKILL);
    json_decref(msg);
    end_round();
}

static void a_task_that_ended_meanwhile_is_told(void **state)
{
    json_t *msg;

    begin_round();
    kill(rig.pid, SIGSTOP); /* no other one is started before it is done */
    kill_agent();
    end_task();
    kill(rig.pid, SIGCONT);
    expect_round(next_agent(), 0);
    msg = dlr_rig_expect(&rig, "exit");
    assert_int_equal(dlr_rig_int(msg, "rank"), 4);
    assert_int_equal(dlr_rig_int(msg, "status"), SIGKILL);
    json_decref(msg);
    end_round();
}

static void the_third_one_goes_on_like_the_second(void **state)
{
    begin_round();
    for (int i = 0; i < 2; i++) {
        kill_agent();
        expect_round(next_agent(), 0);
        dlr_rig_sync(&rig);
    }
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    dlr_rig_await(&rig, "clean");
    waitpid(node.pid, NULL, 0);
    end_round();
}

/* Who has the round's tasks killed counts on that. */
static void a_round_that_was_being_ended_is_not_gone_on_with(void **state)
{
    char c;

    begin_round();
    dlr_rig_say(&rig, "kill", "s:i", "round", 0);
    dlr_rig_await(&rig, "clean");
    waitpid(node.pid, NULL, 0);
    dlr_rig_sync(&rig);
    kill_agent();
    expect_round(next_agent(), -1);
    assert_int_equal(recv(node.w.fd, &c, 1, 0), 0);
    end_round();
}

/* Whoever kills it must be the next agent: nobody else has a clock here. */
static void a_lease_that_ended_meanwhile_kills_its_tasks(void **state)
{
    int status = 0;

    begin_round_of(SHORT_MS);
    kill(rig.pid, SIGSTOP); /* no other one is started before it is done */
    kill_agent();
    usleep((useconds_t)(SHORT_MS + 100) * 1000);
    assert_int_equal(kill(node.pid, 0), 0);
    kill(rig.pid, SIGCONT);
    json_decref(next_agent()); /* whether it was done with it, or is still at it */
    assert_int_equal(waitpid(node.pid, &status, 0), node.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    end_round();
}

/* Its lease has no end: nobody knows when the job goes on. */
static void a_suspended_one_is_not_gone_on_with(void **state)
{
    begin_round();
    rig.holding = true; /* as the supervisor does then */
    do
        dlr_rig_sync(&rig);
    while (atomic_load(&node.w.page->lease_ns) != DLR_PAGE_HELD);
    kill_agent();
    expect_round(next_agent(), -1);
    kill(node.pid, SIGKILL);
    waitpid(node.pid, NULL, 0);
    end_round();
}

RIG_MAIN(RIG_TEST(its_tasks_pages_and_slots_are_the_next_ones),
         RIG_TEST(its_watch_pages_too), RIG_TEST(a_task_that_ended_meanwhile_is_told),
         RIG_TEST(the_third_one_goes_on_like_the_second),
         RIG_TEST(a_round_that_was_being_ended_is_not_gone_on_with),
         RIG_TEST(a_lease_that_ended_meanwhile_kills_its_tasks),
         RIG_TEST(a_suspended_one_is_not_gone_on_with))
