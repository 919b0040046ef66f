/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor,dlr_agent_peers_addr,dlr_agent_answer,dlr_agent_start_supervisor,dlr_agent_peers_send,dlr_agent_peers_send_all,dlr_agent_done,connect stand-ins */
/* What an agent does without a supervisor, alone: no lease, no tasks, no snapshots,
 * peers that are packets.
 */
#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/process/process_id.h"
#include "tests/support/agent_loop.h"

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_succession *su;
    struct dlr_agent_self self;
    struct dlr_agent_round round;
    int64_t silent; /* for so many milliseconds no lease has come */
    int64_t held_ns;
    unsigned reports, kills;
    char followed[64]; /* where the supervisor is said to be */
    unsigned started;  /* supervisors, of which none listens when mute */
    bool mute;
    int n3_timer;
    int64_t dead_ms;
    unsigned dead;  /* nodes that a supervisor is told of, when not only n1 */
    unsigned n4_in; /* n4 votes as well, after so many of n3's votes */
    unsigned connects;
    int full[2];      /* a pipe that takes no more */
    char heard[1024]; /* what others were told, and who: "node:type;" */
} rig;

/* --- instead of the others -------------------------------------------------------- */

static void note(const char *to, json_t *msg)
{
    size_t at = strlen(rig.heard);

    snprintf(rig.heard + at, sizeof(rig.heard) - at, "%s:%s;", to,
             json_string_value(json_object_get(msg, "t")));
    json_decref(msg);
}

void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg);
void __wrap_dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    note("supervisor", msg);
}

void __wrap_dlr_agent_peers_send(struct dlr_agent_base *base, const char *node,
                                 json_t *msg);
void __wrap_dlr_agent_peers_send(struct dlr_agent_base *base, const char *node,
                                 json_t *msg)
{
    note(node, msg);
}

void __wrap_dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but,
                                     json_t *msg);
void __wrap_dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but,
                                     json_t *msg)
{
    assert_string_equal(but, "n2");
    note("all", msg);
}

void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why);
void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why)
{
    assert_int_equal(to->id, 7);
    note("asker", dlr_msg_new(rc == -EBUSY ? "busy" : "done"));
}

void __wrap_dlr_agent_answer(struct dlr_agent_base *base,
                             const struct dlr_agent_origin *to, json_t *msg);
void __wrap_dlr_agent_answer(struct dlr_agent_base *base,
                             const struct dlr_agent_origin *to, json_t *msg)
{
    json_decref(msg); /* a vote */
}

/* The supervisor's host: it refuses, or nothing comes from it before the pipe is read. */
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    rig.connects++;
    if (rig.full[1] > 0)
        assert_int_equal(dup2(rig.full[1], fd), fd);
    errno = rig.full[1] > 0 ? EINPROGRESS : ECONNREFUSED;
    return -1;
}

const char *__wrap_dlr_agent_peers_addr(const struct dlr_agent_base *base);
const char *__wrap_dlr_agent_peers_addr(const struct dlr_agent_base *base)
{
    return "10.0.0.2:7000";
}

/* A process that has left where it listens, or one that ends. */
int __wrap_dlr_agent_start_supervisor(const struct dlr_agent_succession *su,
                                      const json_t *start, int state_fd, pid_t *ret_pid,
                                      int *ret_pidfd, struct dlr_err *err);
int __wrap_dlr_agent_start_supervisor(const struct dlr_agent_succession *su,
                                      const json_t *start, int state_fd, pid_t *ret_pid,
                                      int *ret_pidfd, struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *state = NULL;
    const json_t *said;

    rig.started++;
    assert_int_equal(dlr_takeover_state_load(state_fd, &state, err), 0);
    said = json_object_get(state, "succession");
    assert_int_equal(json_integer_value(json_object_get(said, "nth")), 1);
    assert_string_equal(json_string_value(json_object_get(said, "from")), "n1");
    assert_int_equal(json_array_size(json_object_get(said, "dead")),
                     rig.dead ? rig.dead : 1);
    if (!rig.mute)
        json_object_set_new(state, "address", json_string("other:4711"));
    assert_int_equal(dlr_takeover_state_save(state_fd, state, err), 0);
    *ret_pid = fork();
    if (*ret_pid == 0 && rig.mute)
        _exit(1);
    if (*ret_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* of this test */
        close_range(STDOUT_FILENO, ~0U, 0);
        for (;;)
            pause();
    }
    *ret_pidfd = (int)syscall(SYS_pidfd_open, *ret_pid, 0);
    return *ret_pidfd < 0 ? -errno : 0;
}

unsigned dlr_agent_tasks_left(const struct dlr_agent_tasks *tasks)
{
    return 0;
}

void dlr_agent_tasks_kill_with_srun(struct dlr_agent_tasks *tasks)
{
    rig.kills++;
}

bool dlr_agent_save_has_commit(const struct dlr_agent_snapshots *s)
{
    return false;
}

/* --- what it asks ----------------------------------------------------------------- */

static int64_t dead_ms(void *arg)
{
    assert_ptr_equal(arg, &rig);
    return rig.dead_ms;
}

static int64_t silent_ms(void *arg)
{
    return rig.silent;
}

static bool suspended(void *arg)
{
    return false;
}

static void hold(void *arg, int64_t until_ns)
{
    rig.held_ns = until_ns;
}

static void report(void *arg, const struct dlr_agent_origin *from)
{
    rig.reports++;
}

static int stop(zloop_t *loop, int timer, void *arg)
{
    dlr_agent_end(rig.base);
    return 0;
}

/* What it says after it is heard in the same turn of the loop. */
static bool follow(void *arg, const char *address)
{
    int timer = -1;

    dlr_format(rig.followed, sizeof(rig.followed), "%s", address);
    rig.silent = 0;
    dlr_agent_timer(rig.base, &timer, 10, stop, NULL);
    return true;
}

static const struct dlr_agent_succession_ops ops = {
    .follow = follow,
    .dead_ms = dead_ms,
    .unheard_ms = silent_ms,
    .silent_ms = silent_ms,
    .suspended = suspended,
    .hold = hold,
    .report = report,
};

/* ---------------------------------------------------------------------------------- */

/* This node is n2; the supervisor is on n1. */
static int setup(void **state)
{
    DLR_AUTO_JSON json_t *peers =
        json_loads("{\"whole\":true,\"batch\":\"n1\",\"peers\":[[\"n1\",\"a1\",\"k1\"],"
                   "[\"n2\",\"a2\",\"k2\"],[\"n3\",\"a3\",\"k3\"]]}",
                   0, NULL);

    rig = (struct rig){.dead_ms = 100};
    dlr_job_config_init(&rig.self.job);
    dlr_format(rig.self.node, sizeof(rig.self.node), "n2");
    rig.self.run.gen = 1;
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.su = dlr_agent_succession_new(rig.base, &rig.self, &rig.round, NULL, NULL, &ops,
                                      &rig);
    return rig.base && rig.su && dlr_agent_succession_peers(rig.su, peers) == 0 ? 0
                                                                                : -1;
}

static int teardown(void **state)
{
    dlr_agent_end(rig.base);
    dlr_agent_succession_stop(rig.su);
    rig.su = dlr_agent_succession_free(rig.su);
    rig.base = dlr_agent_base_free(rig.base);
    if (rig.full[1] > 0) {
        close(rig.full[0]);
        close(rig.full[1]);
    }
    return 0;
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

static void hear(const char *key, const char *text)
{
    struct dlr_packet p = {.data = text, .size = strlen(text)};

    dlr_format(p.key, sizeof(p.key), "%s", key);
    dlr_agent_on_peer(rig.su, &p);
}

/* Nobody writes where nothing is committed; the tasks may take their time. */
static void after_sigterm_the_lease_is_held_and_the_supervisor_told(void **state)
{
    assert_false(dlr_agent_in_grace(rig.su));
    dlr_agent_grace(rig.su);
    assert_true(dlr_agent_in_grace(rig.su));
    assert_true(rig.held_ns > dlr_now_ns());
    assert_string_equal(rig.heard, "supervisor:term;");
    assert_false(dlr_agent_leaves(rig.base));
}

static void the_sigterm_of_a_requeue_is_the_end(void **state)
{
    dlr_agent_succession_given(rig.su, true);
    dlr_agent_grace(rig.su);
    assert_false(dlr_agent_in_grace(rig.su));
    assert_true(dlr_agent_leaves(rig.base));
    assert_string_equal(rig.heard, "");
}

static void a_peer_is_obeyed_only_while_the_supervisor_is_missed(void **state)
{
    hear("nobody", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":2,\"id\":7}");
    assert_string_equal(rig.heard, "");
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    assert_string_equal(rig.heard, "asker:busy;"); /* the supervisor answers here */
    assert_int_equal(rig.reports, 0);
    dlr_agent_grace(rig.su);
    hear("k3", "{\"v\":2,\"t\":\"report\",\"gen\":1,\"id\":7}");
    assert_int_equal(rig.reports, 1);
}

static void only_the_supervisors_host_may_end_the_run(void **state)
{
    hear("k3", "{\"v\":2,\"t\":\"over\",\"gen\":1}");
    assert_false(dlr_agent_ends(rig.base));
    hear("k1", "{\"v\":2,\"t\":\"over\",\"gen\":1}");
    assert_true(dlr_agent_ends(rig.base));
}

/* The child that writes the journal's last line is this program, which does nothing. */
static void the_keepers_end_with_a_silent_supervisor_ends_the_run(void **state)
{
    struct dlr_procid id;
    pid_t pid = fork();
    char text[DLR_PROCID_TEXT];

    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(dlr_procid_of(pid, &id), 0);
    dlr_procid_show(&id, text);
    dlr_agent_keeper_watch(rig.su, text);
    rig.silent = 1000;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    run();
    assert_int_equal(rig.kills, 1);
    assert_string_equal(rig.heard, "all:over;");
}

static const char will[] =
    "{\"nth\":0,\"enough\":2,\"state\":{\"v\":2},\"start\":{\"argv\":[\"x\"],\"env\":[]"
    ","
    "\"cwd\":\"/\",\"in\":\"\",\"out\":\"\",\"err\":\"\",\"keys\":"
    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}}";

static int take_will(const char *text)
{
    DLR_AUTO_JSON json_t *msg = json_loads(text, 0, NULL);

    return dlr_agent_take_over_will(rig.su, msg);
}

static int n3_misses_it(zloop_t *loop, int timer, void *arg)
{
    hear("k3", "{\"v\":2,\"t\":\"silent\",\"gen\":1}");
    if (rig.n4_in > 1)
        rig.n4_in--;
    else if (rig.n4_in == 1)
        hear("k4", "{\"v\":2,\"t\":\"silent\",\"gen\":1}");
    return 0;
}

/* Whether it answers a connect or not: for longer than the election limit. */
static void host_dies(void)
{
    rig.silent = 20000;
    rig.n3_timer = -1;
    dlr_agent_timer_every(rig.base, &rig.n3_timer, 20, n3_misses_it, NULL);
    dlr_agent_watchdog_silence(rig.su);
}

static void who_is_elected_and_has_a_will_leads_to_a_supervisor_of_its_own(void **state)
{
    assert_int_equal(take_will(will), 0);
    host_dies();
    run();
    assert_int_equal(rig.started, 1);
    assert_string_equal(rig.followed, "10.0.0.2:4711");
    assert_non_null(strstr(rig.heard, "all:follow;"));
    assert_null(strstr(rig.heard, "report"));
}

static int look_for_requeue(zloop_t *loop, int timer, void *arg)
{
    if (strstr(rig.heard, "n3:report;"))
        dlr_agent_end(rig.base);
    return 0;
}

static void await_requeue(void)
{
    int timer = -1;

    dlr_agent_timer_every(rig.base, &timer, 20, look_for_requeue, NULL);
    host_dies();
    run();
    assert_string_equal(rig.followed, "");
    assert_null(strstr(rig.heard, "all:follow;"));
}

/* n1 to n4, the batch host is batch. */
static void take_peers(const char *batch)
{
    DLR_AUTO_JSON json_t *msg =
        json_loads("{\"whole\":true,\"peers\":[[\"n1\",\"a1\",\"k1\"],[\"n2\",\"a2\","
                   "\"k2\"],[\"n3\",\"a3\",\"k3\"],[\"n4\",\"a4\",\"k4\"]]}",
                   0, NULL);

    json_object_set_new(msg, "batch", json_string(batch));
    assert_int_equal(dlr_agent_succession_peers(rig.su, msg), 0);
}

static void will_wants(unsigned enough)
{
    DLR_AUTO_JSON json_t *msg = json_loads(will, 0, NULL);

    json_object_set_new(msg, "enough", json_integer(enough));
    assert_int_equal(dlr_agent_take_over_will(rig.su, msg), 0);
}

/* Two of three elect; all three are needed. */
static void who_is_late_to_vote_is_waited_for_where_it_is_needed(void **state)
{
    rig.dead_ms = 1000; /* for a machine that stands still for two of them */
    take_peers("n1");
    will_wants(3);
    rig.n4_in = 60; /* 1200 ms, more than the election takes */
    host_dies();
    run();
    assert_int_equal(rig.started, 1);
    assert_null(strstr(rig.heard, "report"));
}

static void who_does_not_vote_is_dead_to_the_next_supervisor(void **state)
{
    rig.dead_ms = 500;
    take_peers("n1");
    will_wants(2);
    rig.dead = 2;
    host_dies();
    run();
    assert_int_equal(rig.started, 1);
}

static void without_a_will_the_job_is_requeued(void **state)
{
    await_requeue();
    assert_int_equal(rig.started, 0);
}

static void where_too_few_are_left_the_job_is_requeued(void **state)
{
    will_wants(3);
    await_requeue();
    assert_int_equal(rig.started, 0);
}

static void of_a_run_that_has_ended_only_the_requeue_is_left(void **state)
{
    DLR_AUTO_JSON json_t *msg = json_loads(will, 0, NULL);

    json_object_set_new(json_object_get(msg, "state"), "ended", json_integer(0));
    assert_int_equal(dlr_agent_take_over_will(rig.su, msg), 0);
    await_requeue();
    assert_int_equal(rig.started, 0);
}

static int take_changes(const char *changed, const char *gone)
{
    char text[256];

    dlr_format(text, sizeof(text),
               "{\"nth\":0,\"enough\":3,\"changed\":%s,\"gone\":%s}", changed, gone);
    return take_will(text);
}

/* Of what it knew only the members that are named change. */
static void what_changes_of_a_will_counts(void **state)
{
    assert_int_equal(take_changes("{\"ended\":0}", "[]"), -EBADMSG); /* of none */
    assert_int_equal(take_will(will), 0);
    assert_int_equal(take_changes("{\"ended\":0}", "{}"), -EBADMSG);
    assert_int_equal(take_changes("{\"ended\":0}", "[]"), 0);
    assert_false(dlr_agent_take_over(rig.su)); /* it has ended */
    assert_int_equal(take_changes("{}", "[\"ended\", 7]"), 0);
    assert_true(dlr_agent_take_over(rig.su));
    dlr_agent_take_over_cancel(rig.su);
}

static void where_the_supervisor_ends_at_once_the_job_is_requeued(void **state)
{
    assert_int_equal(take_will(will), 0);
    rig.mute = true;
    await_requeue();
    assert_int_equal(rig.started, 1);
}

static void nothing_comes_from_the_host(void)
{
    char byte = 0;

    assert_int_equal(pipe2(rig.full, O_NONBLOCK | O_CLOEXEC), 0);
    while (write(rig.full[1], &byte, 1) == 1)
        ;
}

static void run_for(int64_t ms)
{
    int timer = -1;

    dlr_agent_timer(rig.base, &timer, ms, stop, NULL);
    run();
}

/* The dead-time is 100 ms, and half of it what that connect is given. */
static void its_host_is_asked_early_and_judged_in_time(void **state)
{
    nothing_comes_from_the_host();
    rig.silent = 60;
    dlr_agent_watchdog_silence(rig.su);
    assert_int_equal(rig.connects, 1);
    run_for(80);
    assert_string_equal(rig.heard, ""); /* it is not silent for long enough */
}

static void a_host_that_does_not_answer_has_the_others_asked(void **state)
{
    nothing_comes_from_the_host();
    rig.silent = 60;
    dlr_agent_watchdog_silence(rig.su);
    rig.silent = 110;
    run_for(80);
    assert_non_null(strstr(rig.heard, "n3:silent;"));
}

/* The loop finds the answer together with the timer. */
static void an_answer_that_is_read_late_is_one(void **state)
{
    char buf[65536];

    nothing_comes_from_the_host();
    rig.silent = 110;
    dlr_agent_watchdog_silence(rig.su);
    while (read(rig.full[0], buf, sizeof(buf)) > 0)
        ;
    usleep(150000);
    run_for(5);
    assert_string_equal(rig.heard, "");
}

/* On the next supervisor's own node no more election is held. */
static void what_the_former_election_has_asked_nobody_hears(void **state)
{
    nothing_comes_from_the_host();
    rig.silent = 110;
    dlr_agent_watchdog_silence(rig.su);
    take_peers("n2");
    run_for(150);
    assert_string_equal(rig.heard, "");
}

static void a_follow_counts_where_the_supervisor_is_missed_and_once(void **state)
{
    static const char first[] =
        "{\"v\":2,\"t\":\"follow\",\"gen\":1,\"nth\":1,\"address\":\"10.0.0.3:1\"}";

    hear("k3", first);
    assert_string_equal(rig.followed, ""); /* the supervisor is heard here */
    rig.silent = 1000;
    hear("k3", first);
    assert_string_equal(rig.followed, "10.0.0.3:1");
    hear("k3", "{\"v\":2,\"t\":\"silent\",\"gen\":1}"); /* it has missed the word */
    assert_non_null(strstr(rig.heard, "n3:follow;"));
    rig.silent = 1000;
    hear("k3",
         "{\"v\":2,\"t\":\"follow\",\"gen\":1,\"nth\":1,\"address\":\"10.0.0.4:1\"}");
    assert_string_equal(rig.followed, "10.0.0.3:1");
    assert_int_equal(take_will(will), -EBADMSG); /* of the former one */
}

static void a_will_that_lacks_something_is_none(void **state)
{
    assert_int_equal(take_will("{\"nth\":0,\"enough\":2,\"state\":{}}"), -EBADMSG);
    assert_int_equal(take_will("{\"nth\":0,\"enough\":0,\"state\":{},\"start\":{}}"),
                     -EBADMSG);
    assert_int_equal(
        take_will("{\"nth\":0,\"enough\":2,\"state\":{},\"start\":{\"argv\":[\"x\"],"
                  "\"env\":[],\"keys\":\"00\",\"cwd\":\"/\",\"in\":\"\",\"out\":\"\","
                  "\"err\":\"\"}}"),
        -EBADMSG);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(after_sigterm_the_lease_is_held_and_the_supervisor_told),
        T(the_sigterm_of_a_requeue_is_the_end),
        T(a_peer_is_obeyed_only_while_the_supervisor_is_missed),
        T(only_the_supervisors_host_may_end_the_run),
        T(the_keepers_end_with_a_silent_supervisor_ends_the_run),
        T(who_is_elected_and_has_a_will_leads_to_a_supervisor_of_its_own),
        T(who_is_late_to_vote_is_waited_for_where_it_is_needed),
        T(who_does_not_vote_is_dead_to_the_next_supervisor),
        T(without_a_will_the_job_is_requeued),
        T(where_too_few_are_left_the_job_is_requeued),
        T(of_a_run_that_has_ended_only_the_requeue_is_left),
        T(what_changes_of_a_will_counts),
        T(where_the_supervisor_ends_at_once_the_job_is_requeued),
        T(its_host_is_asked_early_and_judged_in_time),
        T(a_host_that_does_not_answer_has_the_others_asked),
        T(an_answer_that_is_read_late_is_one),
        T(what_the_former_election_has_asked_nobody_hears),
        T(a_follow_counts_where_the_supervisor_is_missed_and_once),
        T(a_will_that_lacks_something_is_none),
    };

    if (argc > 1 && dlr_streq(argv[1], "--succeed"))
        return 0;
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_succession", tests, NULL, NULL);
}
