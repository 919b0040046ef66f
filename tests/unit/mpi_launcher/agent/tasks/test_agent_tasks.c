/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor,dlr_memory_kills_open stand-ins */
/* The engine of a node's tasks alone: this program is the slurmstepd, a child of it the
 * task, and nobody keeps snapshots.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/memory_group.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "tests/support/agent_tasks_rig.h"

static void send_as(enum dlr_local_type type, int32_t rank, uint64_t number)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = 2;
    m.rank = rank;
    m.arg[0] = number;
    assert_int_equal(dlr_local_send(rig.fd, &m, NULL, 0), 0);
}

static void be_slurmstepd(void)
{
    rig.task = fork();
    if (rig.task == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(rig.task, rig.task);
    assert_int_equal(dlr_local_connect(rig.socket, 0, &rig.fd, NULL), 0);
    send_as(DLR_LOCAL_STEPD, -1, 0);
    send_as(DLR_LOCAL_TASK, 4, (uint64_t)rig.task);
}

static void a_task_is_told_and_its_end(void **state)
{
    be_slurmstepd();
    send_as(DLR_LOCAL_EXIT, 4, 9);
    run_until("exit");
    assert_string_equal(rig.said, "stepd;task;exit 9;");
    assert_int_equal(dlr_agent_tasks_left(rig.tasks), 0);
}

/* --- kills for want of memory ------------------------------------------------------ */

static uint64_t kills; /* what the task's counter says; 0: it has none */

void __wrap_dlr_memory_kills_open(const char *root, pid_t pid,
                                  struct dlr_memory_kills *ret);
void __wrap_dlr_memory_kills_open(const char *root, pid_t pid,
                                  struct dlr_memory_kills *ret)
{
    ret->fd = kills ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    ret->before = kills;
}

static void start_kept(struct dlr_kept *kept)
{
    dlr_agent_tasks_stop(rig.tasks);
    dlr_agent_tasks_free(rig.tasks);
    dlr_agent_base_keep(rig.base, kept);
    rig.tasks = dlr_agent_tasks_new(rig.base, &rig.self, &rig.round, NULL);
    assert_int_equal(dlr_agent_tasks_start(rig.tasks, NULL), 0);
}

static uint64_t counted_before(const struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_task *t = zlistx_first(tasks->all);

    assert_non_null(t);
    return t->kills.before;
}

/* While no agent was there its task was killed: the next one's counter says two. */
static void what_the_counter_said_before_a_task_outlives_its_agent(void **state)
{
    struct dlr_kept *kept = NULL;
    struct dlr_agent_tasks *next;
    const char *why = "";
    struct dlr_err err;
    json_t *noted;

    assert_int_equal(dlr_kept_new(&kept, &err), 0);
    start_kept(kept);
    kills = 1;
    be_slurmstepd();
    run_until("task");
    noted = dlr_agent_tasks_note(rig.tasks, &why);
    assert_non_null(noted);
    dlr_kept_take(kept);
    kills = 2;
    next = dlr_agent_tasks_new(rig.base, &rig.self, &rig.round, NULL);
    assert_int_equal(dlr_agent_tasks_adopt(next, noted), 0);
    assert_int_equal(counted_before(next), 1);
    json_decref(noted);
    dlr_agent_tasks_stop(next);
    dlr_agent_tasks_free(next);
    dlr_agent_base_keep(rig.base, NULL);
    dlr_kept_free(kept);
    kills = 0;
}

static void say_ends(void *arg)
{
    size_t at = strlen(rig.said);

    assert_ptr_equal(arg, &rig);
    snprintf(rig.said + at, sizeof(rig.said) - at, "ends, %u left;",
             dlr_agent_tasks_left(rig.tasks));
}

static void who_wants_to_know_of_an_end_knows_before_it_is_told(void **state)
{
    dlr_agent_tasks_before_end(rig.tasks, say_ends, &rig);
    be_slurmstepd();
    send_as(DLR_LOCAL_EXIT, 4, 9);
    run_until("exit");
    assert_string_equal(rig.said, "stepd;task;ends, 1 left;exit 9;");
}

static void another_process_than_a_child_of_slurmstepd_is_no_task(void **state)
{
    assert_int_equal(dlr_local_connect(rig.socket, 0, &rig.fd, NULL), 0);
    send_as(DLR_LOCAL_STEPD, -1, 0);
    send_as(DLR_LOCAL_TASK, 4, (uint64_t)getppid());
    send_as(DLR_LOCAL_HELLO, 4, 0); /* out of place: it is closed */
    run_until("left");
    assert_string_equal(rig.said, "stepd;left;");
    assert_int_equal(dlr_agent_tasks_left(rig.tasks), 0);
}

static void kill_soon(void)
{
    dlr_agent_tasks_kill(rig.tasks, 2, false);
    assert_int_equal(dlr_agent_tasks_kill_up_to_round(rig.tasks), 2);
}

/* It is ended before it is known. */
static void tasks_of_an_ended_round_are_killed_when_they_appear(void **state)
{
    dlr_agent_tasks_before_end(rig.tasks, say_ends, &rig); /* not of these */
    kill_soon();
    assert_string_equal(rig.said, "clean 0;");
    rig.said[0] = '\0';
    be_slurmstepd();
    run_until("clean");
    assert_string_equal(rig.said, "stepd;task;clean 1;");
}

static void the_rank_of_the_round_is_welcomed(void **state)
{
    assert_int_equal(dlr_local_connect(rig.socket, 0, &rig.fd, NULL), 0);
    send_as(DLR_LOCAL_HELLO, 4, 1);
    run_until("nothing");
    assert_true(rig.serves);
    assert_string_equal(rig.said, "");
}

static void another_rank_waits_and_the_supervisor_hears_of_it(void **state)
{
    assert_int_equal(dlr_local_connect(rig.socket, 0, &rig.fd, NULL), 0);
    send_as(DLR_LOCAL_HELLO, 5, 8);
    run_until("ranks");
    assert_string_equal(rig.said, "ranks [[5,8]];");
}

/* --- processes that stay ---------------------------------------------------------- */

static struct stay {
    int process, relay; /* connections */
    int timer, step;
    int32_t ranks[1]; /* of this node in the next round */
    struct dlr_agent_node node;
    struct dlr_local_msg m;
} stay;

static bool process_is_known(void)
{
    for (struct dlr_agent_conn *c = zlistx_first(rig.tasks->conns); c;
         c = zlistx_next(rig.tasks->conns))
        if (c->kind == DLR_CONN_STAY)
            return dlr_agent_tasks_left(rig.tasks) == 1;
    return false;
}

/* What the connection has, of this type; how many descriptors came with it, -1: not yet.
 */
static int heard(int fd, enum dlr_local_type type)
{
    int fds[DLR_LOCAL_FDS];
    unsigned n = 0;

    if (dlr_local_recv(fd, &stay.m, fds, &n) <= 0)
        return -1;
    assert_int_equal(stay.m.type, type);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    return (int)n;
}

static void say(int fd, enum dlr_local_type type, uint32_t round, const int *fds,
                unsigned n)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = round;
    m.rank = 4;
    assert_int_equal(dlr_local_send(fd, &m, fds, n), 0);
}

static void begin_round(int32_t rank)
{
    stay.ranks[0] = rank;
    stay.node = (struct dlr_agent_node){
        .name = rig.self.node, .ranks = stay.ranks, .nranks = 1};
    rig.round.round = 3;
    rig.round.nodes = &stay.node;
    rig.round.nnodes = 1;
    dlr_agent_tasks_round(rig.tasks);
}

static void stay_in(int32_t rank)
{
    const int fds[] = {0, 1, 2};

    assert_non_null(strstr(rig.said, "clean 0"));
    assert_int_equal(dlr_agent_stay_count(rig.tasks), 1);
    begin_round(rank);
    assert_int_equal(dlr_local_connect(rig.socket, 0, &stay.relay, NULL), 0);
    say(stay.relay, DLR_LOCAL_RELAY, 3, fds, 3);
    stay.step++;
}

static int play(zloop_t *loop, int timer, void *arg)
{
    if (stay.step == 0 && process_is_known()) {
        dlr_agent_tasks_park(rig.tasks, 2, 60000);
        assert_null(strstr(rig.said, "clean"));
        stay.step++;
    } else if (stay.step == 1 && heard(stay.process, DLR_LOCAL_PARK) == 0) {
        say(stay.process, DLR_LOCAL_PARKED, 2, NULL, 0);
        stay.step++;
    } else if (stay.step == 2 && strstr(rig.said, "clean")) {
        stay_in(4);
    } else if (stay.step == 3 && heard(stay.process, DLR_LOCAL_JOIN) == 3) {
        assert_int_equal(stay.m.round, 3);
        stay.step++;
    } else if (stay.step == 4 && heard(stay.relay, DLR_LOCAL_RELAYED) == 0) {
        assert_int_equal(stay.m.arg[0], getpid());
        dlr_agent_tasks_kill(rig.tasks, 2, false); /* not of that round any more */
        assert_int_equal(dlr_agent_tasks_left(rig.tasks), 1);
        send_as(DLR_LOCAL_EXIT, 4, 7 << 8);
        stay.step++;
    } else if (stay.step == 5 && heard(stay.relay, DLR_LOCAL_RELAY_END) == 0) {
        assert_int_equal(stay.m.arg[0], 7 << 8);
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void be_a_process_that_stays(zloop_timer_fn *fn)
{
    stay = (struct stay){.process = -1, .relay = -1, .timer = -1};
    be_slurmstepd();
    assert_int_equal(dlr_local_connect(rig.socket, 0, &stay.process, NULL), 0);
    say(stay.process, DLR_LOCAL_STAY, 2, NULL, 0);
    dlr_agent_timer_every(rig.base, &stay.timer, 5, fn, NULL);
    run_until("nothing");
    close(stay.process);
    if (stay.relay >= 0)
        close(stay.relay);
    rig.round = (struct dlr_agent_round){.known = true, .round = 3};
}

static void a_process_parks_and_goes_on_in_the_next_round(void **state)
{
    be_a_process_that_stays(play);
    assert_int_equal(stay.step, 5);
}

static int play_refused(zloop_t *loop, int timer, void *arg)
{
    if (stay.step < 2)
        return play(loop, timer, arg);
    if (stay.step == 2 && strstr(rig.said, "clean")) {
        stay_in(5);
        assert_int_equal(dlr_agent_stay_count(rig.tasks), 0); /* it is being killed */
    } else if (stay.step == 3 && heard(stay.relay, DLR_LOCAL_REFUSED) == 0) {
        stay.step++;
    } else if (stay.step == 4 && dlr_agent_tasks_left(rig.tasks) == 0) {
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void who_has_no_place_in_the_next_round_is_killed(void **state)
{
    be_a_process_that_stays(play_refused);
    assert_int_equal(stay.step, 4);
}

static int play_cut_off(zloop_t *loop, int timer, void *arg)
{
    if (stay.step < 2)
        return play(loop, timer, arg);
    if (stay.step == 2 && strstr(rig.said, "clean 0")) {
        dlr_agent_tasks_kill_with_srun(rig.tasks); /* the lease is over */
        stay.step++;
    } else if (stay.step == 3 && dlr_agent_tasks_left(rig.tasks) == 0) {
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void who_is_parked_is_killed_without_a_lease(void **state)
{
    be_a_process_that_stays(play_cut_off);
    assert_int_equal(stay.step, 3);
}

static int play_late(zloop_t *loop, int timer, void *arg)
{
    if (stay.step == 0 && process_is_known()) {
        dlr_agent_tasks_park(rig.tasks, 2, 50);
        stay.step++;
    } else if (stay.step == 1 && strstr(rig.said, "clean 1")) {
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void who_does_not_park_in_time_is_killed(void **state)
{
    be_a_process_that_stays(play_late);
    assert_int_equal(dlr_agent_tasks_left(rig.tasks), 0);
}

static void who_cannot_stay_is_killed_at_once(void **state)
{
    dlr_agent_tasks_park(rig.tasks, 2, 60000);
    assert_string_equal(rig.said, "clean 0;");
    rig.said[0] = '\0';
    be_slurmstepd();
    run_until("clean");
    assert_string_equal(rig.said, "stepd;task;clean 1;");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_task_is_told_and_its_end),
        T(what_the_counter_said_before_a_task_outlives_its_agent),
        T(who_wants_to_know_of_an_end_knows_before_it_is_told),
        T(another_process_than_a_child_of_slurmstepd_is_no_task),
        T(tasks_of_an_ended_round_are_killed_when_they_appear),
        T(the_rank_of_the_round_is_welcomed),
        T(another_rank_waits_and_the_supervisor_hears_of_it),
        T(a_process_parks_and_goes_on_in_the_next_round),
        T(who_has_no_place_in_the_next_round_is_killed),
        T(who_is_parked_is_killed_without_a_lease),
        T(who_does_not_park_in_time_is_killed),
        T(who_cannot_stay_is_killed_at_once),
    };

    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_tasks", tests, NULL, NULL);
}
