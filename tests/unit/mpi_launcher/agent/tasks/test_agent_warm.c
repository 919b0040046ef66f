/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_send_supervisor stand-ins */
/* Processes that run ahead on a node without ranks: this program is one, when it is
 * called "ahead".
 */
#include <czmq.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "tests/support/agent_tasks_rig.h"

#define OURSELVES "/proc/self/exe"

/* A program: it waits for a rank, and ends with code 7 in its round. */
static int run_ahead(void)
{
    const char *path = getenv("DLROVER_AGENT_SOCKET");
    int fd, fds[DLR_LOCAL_FDS];
    struct dlr_local_msg m;
    unsigned n;

    dlr_local_init(&m, DLR_LOCAL_WARM);
    if (dlr_local_connect(path, 5000, &fd, NULL) < 0 ||
        dlr_local_send(fd, &m, NULL, 0) < 0 || dlr_local_recv(fd, &m, fds, &n) <= 0)
        return 1;
    return m.type == DLR_LOCAL_JOIN && m.rank == 4 && n == 3 && m.arg[0] > 1 ? 7 : 2;
}

static int warm_up(const char *word, bool command)
{
    char job[64];
    json_t *msg;
    int rc;

    dlr_format(job, sizeof(job), "SLURM_JOB_ID=%s", rig.self.run.job);
    msg = json_pack("{s:i, s:i, s:b, s:[s,s], s:[s,s,s], s:s}", "round", 2, "processes",
                    1, "command", command, "words", word, "ahead", "env",
                    "DLROVER_RUN=", job, "DLROVER_ROUND=2", "cwd", "/");
    rc = dlr_agent_tasks_warm_up(rig.tasks, msg);

    json_decref(msg);
    return rc;
}

static struct {
    int relay, timer, step;
    int32_t ranks[1]; /* of this node in the next round */
    struct dlr_agent_node node;
    struct dlr_local_msg m;
} play;

/* True: the task has heard this. */
static bool heard(enum dlr_local_type type)
{
    int fds[DLR_LOCAL_FDS];
    unsigned n = 0;

    if (dlr_local_recv(play.relay, &play.m, fds, &n) <= 0)
        return false;
    assert_int_equal(play.m.type, type);
    assert_int_equal(n, 0);
    return true;
}

static void begin_round(int32_t rank)
{
    play.ranks[0] = rank;
    play.node = (struct dlr_agent_node){
        .name = rig.self.node, .ranks = play.ranks, .nranks = 1};
    rig.round.round = 3;
    rig.round.nodes = &play.node;
    rig.round.nnodes = 1;
    dlr_agent_tasks_round(rig.tasks);
}

static void ask_as_its_task(void)
{
    const int fds[] = {0, 1, 2};
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_RELAY);
    m.round = 3;
    m.rank = 4;
    assert_int_equal(dlr_local_connect(rig.socket, 0, &play.relay, NULL), 0);
    assert_int_equal(dlr_local_send(play.relay, &m, fds, 3), 0);
}

static int play_ahead(zloop_t *loop, int timer, void *arg)
{
    if (play.step == 0 && strstr(rig.said, "warm 1;")) {
        dlr_agent_tasks_kill(rig.tasks, 2, true); /* not of that round */
        assert_int_equal(dlr_agent_tasks_left(rig.tasks), 0);
        assert_int_equal(warm_up("/bin/false", false), 0); /* it is there already */
        begin_round(4);
        assert_int_equal(dlr_agent_tasks_left(rig.tasks), 1);
        ask_as_its_task();
        play.step++;
    } else if (play.step == 1 && heard(DLR_LOCAL_RELAYED)) {
        play.step++;
    } else if (play.step == 2 && heard(DLR_LOCAL_RELAY_END)) {
        assert_int_equal(play.m.arg[0], 7 << 8);
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void run_play(zloop_timer_fn *fn)
{
    play.relay = play.timer = -1;
    play.step = 0;
    dlr_agent_timer_every(rig.base, &play.timer, 5, fn, NULL);
    run_until("nothing");
    if (play.relay >= 0)
        close(play.relay);
    rig.round = (struct dlr_agent_round){.known = true, .round = 3};
}

static void who_has_run_ahead_gets_a_rank_and_its_task_ends_as_it_does(void **state)
{
    rig.self.job.in_process = true;
    assert_int_equal(warm_up(OURSELVES, false), 0);
    run_play(play_ahead);
    assert_int_equal(play.step, 2);
    assert_non_null(strstr(rig.said, "can_stay;"));
}

static int play_not_wanted(zloop_t *loop, int timer, void *arg)
{
    if (play.step == 0 && strstr(rig.said, "warm 1;")) {
        begin_round(4);
        assert_int_equal(dlr_agent_tasks_left(rig.tasks), 0);
        assert_null(rig.tasks->warm.order);
        dlr_agent_end(rig.base);
    }
    return 0;
}

static void nobody_gets_a_rank_where_no_task_asks_for_one(void **state)
{
    assert_int_equal(warm_up(OURSELVES, true), 0);
    run_play(play_not_wanted);
}

static void a_command_runs_once(void **state)
{
    assert_int_equal(warm_up("/bin/true", true), 0);
    run_until("warm");
    assert_string_equal(rig.said, "warm 0;");
    assert_string_equal(rig.tasks->warm.why, "");
    rig.round.round = 2;
    assert_int_equal(warm_up("/bin/true", true), 0);
    assert_int_equal(rig.tasks->warm.list[0].pid, 0);
}

static void what_dies_again_and_again_is_not_started_any_more(void **state)
{
    assert_int_equal(warm_up("/bin/false", false), 0);
    rig.tasks->warm.failed = 2;
    run_until("warm");
    assert_string_equal(rig.tasks->warm.why, "ended with code 1, 3 times");
    assert_int_equal(warm_up("/bin/false", false), 0); /* not in this round */
    assert_int_equal(rig.tasks->warm.list[0].pid, 0);
}

static void without_a_lease_nothing_runs_ahead(void **state)
{
    pid_t pid;

    assert_int_equal(warm_up(OURSELVES, false), 0);
    pid = rig.tasks->warm.list[0].pid;
    assert_int_equal(kill(pid, 0), 0);
    dlr_agent_tasks_kill_with_srun(rig.tasks);
    assert_null(rig.tasks->warm.order);
    waitpid(pid, NULL, 0);
    assert_int_equal(kill(pid, 0), -1);
}

static void a_node_with_ranks_runs_nothing_ahead(void **state)
{
    begin_round(4);
    assert_int_equal(warm_up(OURSELVES, false), -ESTALE); /* of a former round, too */
    rig.round.round = 2;
    assert_int_equal(warm_up(OURSELVES, false), -ESTALE);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(who_has_run_ahead_gets_a_rank_and_its_task_ends_as_it_does),
        T(nobody_gets_a_rank_where_no_task_asks_for_one),
        T(a_command_runs_once),
        T(what_dies_again_and_again_is_not_started_any_more),
        T(without_a_lease_nothing_runs_ahead),
        T(a_node_with_ranks_runs_nothing_ahead),
    };

    if (argc == 2 && dlr_streq(argv[1], "ahead"))
        return run_ahead();
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests_name("agent_warm", tests, NULL, NULL);
}
