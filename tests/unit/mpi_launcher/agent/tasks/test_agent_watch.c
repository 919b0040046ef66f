/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor stand-ins */
/* The watch pages of a node: who gets one, and what a look finds. */
#include "mpi_launcher/agent/tasks/watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/support/agent_tasks_rig.h"
#include "watch/map.h"
#include "watch/write.h"

static struct asked {
    struct dlr_local_msg m;
    struct dlr_watch_map map;
    unsigned nfds;
} asked;

/* The node has ranks 4 and 5. */
static int start(void **state)
{
    static int32_t ranks[] = {4, 5};
    static struct dlr_agent_node node;

    if (setup(state) < 0)
        return -1;
    dlr_format(rig.self.node, sizeof(rig.self.node), "n1");
    node = (struct dlr_agent_node){.name = rig.self.node, .ranks = ranks, .nranks = 2};
    rig.round.nodes = &node;
    rig.round.nnodes = 1;
    asked = (struct asked){0};
    return 0;
}

static int stop(void **state)
{
    dlr_watch_map_close(&asked.map);
    return teardown(state);
}

/* Closes the map of the last answer; the message's type. */
static unsigned take_answer(int fd)
{
    int fds[DLR_LOCAL_FDS];

    dlr_watch_map_close(&asked.map);
    assert_int_equal(dlr_local_recv(fd, &asked.m, fds, &asked.nfds), 1);
    if (asked.nfds)
        assert_int_equal(
            dlr_watch_map_open(&asked.map, fds[0], asked.nfds > 1 ? fds[1] : -1, NULL),
            0);
    for (unsigned i = 0; i < asked.nfds; i++)
        close(fds[i]);
    return asked.m.type;
}

/* Process pid asks for the page of rank. */
static unsigned ask(pid_t pid, int32_t rank, uint64_t component)
{
    struct dlr_local_msg m;
    int ends[2];
    unsigned type;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    dlr_local_init(&m, DLR_LOCAL_WATCH);
    m.round = rig.round.round;
    m.rank = rank;
    m.arg[0] = component;
    dlr_agent_watch_open(rig.tasks->watch,
                         &(struct dlr_agent_conn){.fd = ends[0], .pid = pid}, &m);
    type = take_answer(ends[1]);
    close(ends[0]);
    close(ends[1]);
    return type;
}

static pid_t make_process(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    assert_true(pid > 0);
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void look(struct dlr_look ret[4], unsigned n)
{
    struct dlr_look *looks;
    unsigned found;

    assert_int_equal(dlr_agent_tasks_look(rig.tasks, &looks, &found), 0);
    assert_int_equal(found, n);
    memcpy(ret, looks, n * sizeof(*looks));
    free(looks);
}

static void components_of_a_rank_share_its_page(void **state)
{
    uint64_t first, last;
    struct dlr_look is[4];

    assert_int_equal(ask(getpid(), 4, 0), DLR_LOCAL_WATCHED);
    assert_true(asked.m.round == 2 && asked.m.rank == 4 && asked.nfds == 1);
    dlr_watch_put_step(asked.map.page, 7, 1000);
    assert_int_equal(ask(getpid(), 4, 1), DLR_LOCAL_WATCHED);
    assert_int_equal(asked.nfds, 2);
    assert_int_equal(asked.map.records, DLR_RING_RECORDS);
    assert_true(asked.map.page->step == 7);
    dlr_watch_put_flag(asked.map.page, DLR_WATCH_SEEN_CALLS, true);
    look(is, 2);
    assert_true(is[0].rank == 4 && is[0].step == 7 && is[0].pid == getpid());
    assert_int_equal(is[0].data, DLR_LOOK_CALLS_TOO);
    assert_int_equal(is[0].state, DLR_LOOK_ALIVE);
    assert_true(is[1].rank == 5 && is[1].step == UINT64_MAX && is[1].pid == 0);
    assert_int_equal(is[1].data, DLR_LOOK_NONE);
    dlr_agent_tasks_steps(rig.tasks, &first, &last);
    assert_true(first == 7 && last == 7);
}

static void a_rank_that_the_round_does_not_have_here_is_looked_at_too(void **state)
{
    struct dlr_look is[4];

    assert_int_equal(ask(getpid(), 11, 0), DLR_LOCAL_WATCHED);
    dlr_watch_put_step(asked.map.page, 3, 1000);
    look(is, 3);
    assert_true(is[2].rank == 11 && is[2].step == 3);
}

static void steps_of_a_checkpoint_count(void **state)
{
    struct dlr_look is[4];

    rig.saves = 4;
    rig.step = UINT64_MAX;
    rig.restoring = true;
    look(is, 2);
    assert_true(is[0].step == UINT64_MAX && is[0].data == DLR_LOOK_STEPS);
    assert_string_equal(is[0].phase, "restore");
    rig.restoring = false;
    rig.step = 9;
    assert_int_equal(ask(getpid(), 4, 0), DLR_LOCAL_WATCHED);
    dlr_watch_put_step(asked.map.page, 8, 1000); /* at 2000 the checkpoint's */
    look(is, 2);
    assert_true(is[0].step == 9 && is[0].step_ns == 2000 && is[0].moved_ns == 2000);
    assert_string_equal(is[0].phase, "");
    dlr_watch_put_step(asked.map.page, 10, 3000);
    look(is, 2);
    assert_true(is[0].step == 10 && is[0].moved_ns == 3000);
}

static void who_is_stopped_is_seen(void **state)
{
    const pid_t pid = make_process();
    struct dlr_look is[4];

    assert_int_equal(ask(pid, 5, 0), DLR_LOCAL_WATCHED);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    look(is, 2);
    assert_true(is[1].pid == pid && is[1].state == DLR_LOOK_STOPPED);
    end_process(pid);
}

static void the_next_process_of_a_rank_gets_a_fresh_page(void **state)
{
    const pid_t pid = make_process();

    assert_int_equal(ask(pid, 5, 0), DLR_LOCAL_WATCHED);
    dlr_watch_put_step(asked.map.page, 7, 1000);
    end_process(pid);
    assert_int_equal(ask(getpid(), 5, 0), DLR_LOCAL_WATCHED);
    assert_true(asked.map.page->step == DLR_WATCH_NEVER);
}

static void who_asks_for_what_cannot_be_is_refused(void **state)
{
    static const struct {
        int32_t rank;
        uint64_t component;
        int error;
        const char *why;
    } rows[] = {
        {-1, 0, EINVAL, "there is no such rank or component"},
        {4, 2, EINVAL, "there is no such rank or component"},
        {5, 0, EEXIST, "this process has the watch page of another rank"},
    };

    assert_int_equal(ask(getpid(), 4, 0), DLR_LOCAL_WATCHED);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(ask(getpid(), rows[i].rank, rows[i].component),
                         DLR_LOCAL_REFUSED);
        assert_string_equal(asked.m.text, rows[i].why);
        assert_int_equal(asked.m.arg[1], rows[i].error);
    }
}

static void there_is_an_end_to_pages_and_rings(void **state)
{
    unsigned rings = 0;

    for (int i = 0; i < DLR_AGENT_WATCH_PAGES; i++) { /* pids that are none: no process
                                                          has two */
        assert_int_equal(ask(-1, i, i < 80), DLR_LOCAL_WATCHED);
        rings += asked.nfds == 2;
    }
    assert_int_equal(rings, DLR_AGENT_WATCH_RINGS);
    assert_int_equal(ask(-1, 600, 0), DLR_LOCAL_REFUSED);
    assert_string_equal(asked.m.text, "no room for the watch page");
}

static void pages_go_with_the_round(void **state)
{
    struct dlr_look is[4];
    uint64_t first, last;

    assert_int_equal(ask(getpid(), 4, 1), DLR_LOCAL_WATCHED);
    dlr_watch_put_step(asked.map.page, 7, 1000);
    rig.round.round = 3;
    dlr_agent_tasks_round(rig.tasks);
    look(is, 2);
    assert_true(is[0].round == 3 && is[0].step == UINT64_MAX);
    dlr_agent_tasks_steps(rig.tasks, &first, &last);
    assert_true(first == UINT64_MAX && last == UINT64_MAX);
    dlr_watch_put_step(asked.map.page, 8, 1000); /* its writer does not notice */
    assert_int_equal(ask(getpid(), 5, 0), DLR_LOCAL_WATCHED);
}

static int hear(zloop_t *loop, int timer, void *arg)
{
    struct pollfd ready = {.fd = rig.fd, .events = POLLIN};

    if (poll(&ready, 1, 0) == 1)
        dlr_agent_end(rig.base);
    return 0;
}

static void say_watch(uint32_t round)
{
    struct dlr_local_msg m;
    int timer = -1;

    assert_int_equal(dlr_local_connect(rig.socket, 0, &rig.fd, NULL), 0);
    dlr_local_init(&m, DLR_LOCAL_WATCH);
    m.round = round;
    m.rank = 4;
    assert_int_equal(dlr_local_send(rig.fd, &m, NULL, 0), 0);
    dlr_agent_timer_every(rig.base, &timer, 5, hear, NULL);
    run_until("nothing");
}

static void the_socket_answers(void **state)
{
    say_watch(2);
    assert_int_equal(take_answer(rig.fd), DLR_LOCAL_WATCHED);
    assert_int_equal(asked.map.page->rank, 4);
    assert_int_equal(asked.map.page->pid, getpid());
}

static void of_another_round_there_is_no_page(void **state)
{
    int fds[DLR_LOCAL_FDS];

    say_watch(1);
    assert_int_equal(dlr_local_recv(rig.fd, &asked.m, fds, &asked.nfds), 0);
}

/* --- their stacks ----------------------------------------------------------------- */

static int ask_stacks(unsigned round, const char *ranks)
{
    json_t *msg = json_pack("{s:i,s:i,s:s}", "round", round, "id", 7, "ranks", ranks);
    const int rc = dlr_agent_tasks_take_stacks(rig.tasks, msg);

    json_decref(msg);
    return rc;
}

static void use_reader(const char *path)
{
    dlr_format(rig.self.conf.stacks_program, DLR_OPT_TEXT, "%s", path);
    dlr_format(rig.self.run.job, sizeof(rig.self.run.job), "7");
    dlr_format(rig.self.run.run, sizeof(rig.self.run.run), "train");
    rig.awaited = "stacks";
}

/* /bin/echo says what it was asked. On a machine that is full it may be too late. */
static void stacks_are_read_by_a_program_and_told(void **state)
{
    use_reader("/bin/echo");
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(ask_stacks(2, "4-5"), 0);
        assert_true(agent_loop_ends(rig.base));
        if (strcmp(rig.said, "stacks ;") != 0)
            break;
        stop(state);
        assert_int_equal(start(state), 0);
        use_reader("/bin/echo");
    }
    assert_string_equal(rig.said,
                        "stacks --seconds 1 --job 7 --run train --ranks 4-5\n;");
}

/* Whether it can be run is not waited for: a file server may take its time. */
static void a_reader_that_does_not_start_is_told_as_well(void **state)
{
    use_reader("/nowhere/reader");
    assert_int_equal(ask_stacks(2, "4"), 0);
    assert_string_equal(rig.said, "");
    assert_true(agent_loop_ends(rig.base));
    assert_string_equal(rig.said, "stacks ;");
}

static void a_reader_that_does_not_end_is_told_as_well(void **state)
{
    char path[] = "/tmp/dlr-test-reader.XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_true(write(fd, "#!/bin/sh\nexec sleep 60\n", 24) == 24);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    use_reader(path);
    assert_int_equal(ask_stacks(2, "4"), 0);
    assert_int_equal(ask_stacks(2, "5"), 0); /* the first is not waited for */
    assert_true(agent_loop_ends(rig.base));
    assert_string_equal(rig.said, "stacks ;");
    assert_int_equal(ask_stacks(2, "4"), 0); /* our end is its end */
    unlink(path);
}

static void a_bad_question_for_stacks_is_refused(void **state)
{
    use_reader("/bin/echo");
    assert_int_equal(ask_stacks(1, "4"), -EBADMSG);
    assert_int_equal(ask_stacks(2, ""), -EBADMSG);
    assert_int_equal(ask_stacks(2, "4 --job 8"), -EBADMSG);
    assert_int_equal(dlr_agent_tasks_take_stacks(rig.tasks, NULL), -EBADMSG);
    assert_string_equal(rig.said, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        T(components_of_a_rank_share_its_page),
        T(a_rank_that_the_round_does_not_have_here_is_looked_at_too),
        T(steps_of_a_checkpoint_count),
        T(who_is_stopped_is_seen),
        T(the_next_process_of_a_rank_gets_a_fresh_page),
        T(who_asks_for_what_cannot_be_is_refused),
        T(there_is_an_end_to_pages_and_rings),
        T(pages_go_with_the_round),
        T(the_socket_answers),
        T(of_another_round_there_is_no_page),
        T(stacks_are_read_by_a_program_and_told),
        T(a_reader_that_does_not_start_is_told_as_well),
        T(a_reader_that_does_not_end_is_told_as_well),
        T(a_bad_question_for_stacks_is_refused),
    };

    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_watch", tests, NULL, NULL);
}
