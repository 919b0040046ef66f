/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_server_send_json,dlr_sup_ask_controller,dlr_sup_is_asked */
/* A rendezvous by MPI that hangs: when the agents are asked beside it, and whose plan counts. All of the
 * supervisor but its main program; two nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/nodes_rig.h"
#include "tests/support/steps_rig.h"

#define NODES 2
#define BEGAN_MS 5000

static struct dlr_sup s;
static struct dlr_members *table;
static unsigned asked, met, late;
static enum dlr_asking awaited; /* slurmctld's answer */
static pid_t mpi;

int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg);
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg)
{
    asked += dlr_streq(dlr_msg_type(msg), "report");
    return 0;
}

void __wrap_dlr_sup_ask_controller(struct dlr_sup_steps *steps, enum dlr_asking what,
                                   int code, const char *why, int64_t launch_ms);
void __wrap_dlr_sup_ask_controller(struct dlr_sup_steps *steps, enum dlr_asking what,
                                   int code, const char *why, int64_t launch_ms)
{
    assert_int_equal(what, DLR_ASK_MEET);
    awaited = what;
    late++;
}
bool __wrap_dlr_sup_is_asked(const struct dlr_sup_steps *steps);
bool __wrap_dlr_sup_is_asked(const struct dlr_sup_steps *steps)
{
    return awaited != DLR_ASK_NOTHING;
}

static void none(void *arg)
{
}
static void meet(void *arg, bool with_mpi)
{
    met++;
}

static int begin(void **state)
{
    static const struct dlr_policy_ops ops = {
        .start_agents = none, .rendezvous = meet, .stop_rendezvous = none};
    static char n0[] = "n0", n1[] = "n1";
    static char *names[NODES] = {n0, n1};
    struct dlr_policy_conf pc = {.nnodes = NODES,
                                 .nplaces = NODES,
                                 .rendezvous_tries = 2,
                                 .agent_timeout_ms = 1000,
                                 .rendezvous_timeout_ms = 20000};
    struct dlr_commit_conf cc = {.decide_ms = 1000};

    memset(&s, 0, sizeof(s));
    asked = met = late = 0;
    awaited = DLR_ASK_NOTHING;
    s.state_fd = s.rendezvous_out = s.rendezvous_log = -1;
    s.io = dlr_sup_io_new(NULL, NULL);
    table = nodes_rig(&s, &dlr_sup_nodes_ops, names, NODES);
    assert_int_equal(dlr_policy_new(&pc, &ops, &s, &s.policy, NULL), 0);
    steps_rig(&s, &dlr_sup_steps_ops);
    assert_int_equal(dlr_commit_new(&cc, &dlr_sup_commit_ops, &s, &s.commit, NULL), 0);
    dlr_policy_start(s.policy, BEGAN_MS);
    for (unsigned i = 0; i < NODES; i++) {
        table->list[i].here = true;
        dlr_policy_node_up(s.policy, i, BEGAN_MS);
    }
    assert_int_equal(met, 1);
    mpi = fork();
    if (mpi == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(dlr_proc_adopt(mpi, &s.rendezvous), 0);
    s.phase_ms = BEGAN_MS;
    return 0;
}

static int end(void **state)
{
    kill(mpi, SIGKILL);
    waitpid(mpi, NULL, 0);
    free(s.gather.asked);
    free(s.gather.reports);
    free(s.unfit);
    dlr_policy_free(s.policy);
    dlr_commit_free(s.commit);
    dlr_sup_steps_free(s.steps);
    dlr_sup_nodes_free(s.nodes);
    dlr_sup_io_free(s.io);
    return 0;
}

static void report(unsigned node)
{
    json_t *msg = json_pack("{s:I,s:{}}", "id", (json_int_t)s.gather.id, "report");

    dlr_sup_on_report(&s, node, msg);
    json_decref(msg);
}

static void the_agents_report_when_it_is_late(void **state)
{
    dlr_meet_time_took(&s.meet_time[0], 400);
    dlr_sup_rendezvous_tick(&s, BEGAN_MS + 1199);
    assert_int_equal(late, 0);
    dlr_sup_rendezvous_tick(&s, BEGAN_MS + 1200);
    dlr_sup_rendezvous_tick(&s, BEGAN_MS + 1250);
    assert_int_equal(late, 1);
    assert_int_equal(asked, 0); /* without slurmctld no plan is of use */
    awaited = DLR_ASK_NOTHING;
    dlr_sup_rendezvous_late(&s);
    assert_int_equal(asked, NODES);
    dlr_sup_rendezvous_tick(&s, BEGAN_MS + 1300);
    assert_int_equal(late, 1);
    report(0);
    assert_int_equal(s.rendezvous.pid, mpi); /* it may still be the first */
    report(1);
    assert_int_equal(s.rendezvous.pid, 0);
    assert_int_equal(met, 2); /* of these two reports there is no plan */
}

static void another_kinds_time_says_nothing(void **state)
{
    struct dlr_version v = {0, 7};

    dlr_meet_time_took(&s.meet_time[0], 400);
    assert_int_equal(dlr_commit_round(s.commit, 0, NODES, &v), 0);
    dlr_sup_rendezvous_tick(&s, BEGAN_MS + 19999); /* slots are verified, too */
    assert_int_equal(late, 0);
}

static void what_was_learned_follows(void **state)
{
    static const struct {
        int64_t took_ms, late_ms;
    } rows[] = {{900, 2700}, {300, 1800}, {100, 1050}, {0, 1000}, {5000, 7764}};
    struct dlr_meet_time t = {0};

    assert_true(dlr_meet_time_late_ms(&t) == INT64_MAX);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_meet_time_took(&t, rows[i].took_ms);
        assert_int_equal(dlr_meet_time_late_ms(&t), rows[i].late_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_agents_report_when_it_is_late, begin, end),
        cmocka_unit_test_setup_teardown(another_kinds_time_says_nothing, begin, end),
        cmocka_unit_test(what_was_learned_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
