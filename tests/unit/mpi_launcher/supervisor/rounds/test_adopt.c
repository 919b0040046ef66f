/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/supervisor wrap=dlr_server_send_json,dlr_server_send,dlr_server_send_shared */
/* A supervisor that takes over a round: what its nodes say, in any order, through the
 * whole of it but its main program. Two nodes with a rank each, partners of each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "ckpt/commit/commit.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"
#include "mpi_launcher/wire/endpoint.h"
#include "tests/support/engines_rig.h"

#define NODES 2
#define ROUND                                                                          \
    "{\"round\":0,\"token\":\"00112233445566778899aabbccddeeff\",\"started_ms\":0,"    \
    "\"launch_ms\":0,\"launch_deadline_ms\":90000,\"plan\":{\"v\":2,\"world\":2,"      \
    "\"restore\":null,\"spares\":[],\"out\":[],\"verdicts\":[],\"sources\":[],"        \
    "\"notes\":[],\"places\":["                                                        \
    "{\"node\":\"n0\",\"topo\":\"s0.n0\",\"cpus\":2,\"first\":0,\"tasks\":1,"          \
    "\"partner\":1,\"moved\":false},"                                                  \
    "{\"node\":\"n1\",\"topo\":\"s0.n1\",\"cpus\":2,\"first\":1,\"tasks\":1,"          \
    "\"partner\":0,\"moved\":false}]}}"

static struct dlr_sup s;
static unsigned reserved[NODES][NODES]; /* [node][rank] times asked for its slots */
static bool saves;
static unsigned aborts, gos, kills; /* said to node 1 */
static char commit[256];            /* said to it last */
static const char *ends;            /* why the round is to end; NULL: it must not */

int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg);
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg)
{
    uint64_t rank = 0;

    gos += to->id[0] == '1' && dlr_streq(dlr_msg_type(msg), "go");
    kills += to->id[0] == '1' && dlr_streq(dlr_msg_type(msg), "kill");
    if (dlr_streq(dlr_msg_type(msg), "reserve") &&
        dlr_msg_uint(msg, "rank", NODES - 1, &rank) == 0)
        reserved[to->id[0] - '0'][rank]++;
    return 0;
}
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size);
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size)
{
    saves = saves || memmem(data, size, "\"t\":\"save_at\"", 13);
    aborts += to->id[0] == '1' && memmem(data, size, "\"t\":\"abort\"", 11);
    if (to->id[0] == '1' && memmem(data, size, "\"t\":\"commit\"", 12))
        dlr_format(commit, sizeof(commit), "%.*s", (int)size, (const char *)data);
    return 0;
}
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared);
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared)
{
    return 0;
}

static void hear(unsigned node, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void hear(unsigned node, const char *fmt, ...)
{
    struct dlr_packet packet = {
        .from = {.size = 1, .id = {(unsigned char)('0' + node)}}};
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    packet.data = text;
    packet.size = strlen(text);
    dlr_format(packet.key, sizeof(packet.key), "key%u", node);
    dlr_sup_hear(s.nodes, &packet);
}

/* An agent that comes back, up to its word of the round. */
static void come_back(unsigned node)
{
    hear(node,
         "{\"v\":2,\"t\":\"hello\",\"node\":\"n%u\",\"boot\":\"b\",\"topo\":\"s0.n%u\","
         "\"addr\":\"h:1\",\"key\":\"key%u\",\"data\":\"0%u\",\"cpus\":2}",
         node, node, node, node);
    hear(node, "{\"v\":2,\"t\":\"round_state\",\"round\":0,\"kill_up_to_round\":-1,"
               "\"committed\":null,"
               "\"ordered\":0,\"open\":[]}");
}

static void say_ready(unsigned node, unsigned rank)
{
    hear(node,
         "{\"v\":2,\"t\":\"ready\",\"round\":0,\"rank\":%u,\"bytes\":8192,\"taken\":1,"
         "\"least\":1,\"limit\":9,\"tight\":false}",
         rank);
}

/* --- the policy's hands ----------------------------------------------------------- */

static void none(void *arg)
{
}
static void none_bool(void *arg, bool with_mpi)
{
}
static void none_round(void *arg, uint32_t round)
{
}
static void none_end(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    if (!ends)
        fail_msg("the round ends: %s", why);
    assert_string_equal(why, ends);
    ends = NULL;
}
static void none_finish(void *arg, int code, const char *why)
{
    fail_msg("the run ends: %s", why);
}

static const struct dlr_policy_ops ops = {.start_agents = none,
                                          .rendezvous = none_bool,
                                          .stop_rendezvous = none,
                                          .prepare = none_round,
                                          .launch = none_round,
                                          .end_round = none_end,
                                          .explain = none_end,
                                          .persist = none,
                                          .finish = none_finish};

static int begin(void **state)
{
    static char n0[] = "n0", n1[] = "n1";
    static char *names[NODES] = {n0, n1};
    static unsigned tasks[NODES] = {1, 1};
    struct dlr_policy_conf pc = {.nnodes = NODES, .nplaces = NODES, .max_restarts = 3};
    DLR_AUTO_JSON json_t *round = json_loads(ROUND, 0, NULL);
    struct dlr_members *table;
    struct dlr_err err;

    memset(&s, 0, sizeof(s));
    memset(reserved, 0, sizeof(reserved));
    saves = false;
    dlr_job_config_init(&s.conf);
    s.conf.vetted_every = 2;
    s.state_fd = -1;
    s.id.gen = 1;
    s.generation = 2;
    memcpy(s.info.job_dir, "/nonexistent", 13);
    memcpy(s.info.dir, "/nonexistent", 13);
    table = engines_rig(&s, names, NODES);
    for (unsigned i = 0; i < NODES; i++)
        dlr_format(table->list[i].key, DLR_KEY_TEXT, "key%u", i);
    assert_int_equal(dlr_policy_new(&pc, &ops, &s, &s.policy, &err), 0);
    s.planning->step.world = s.planning->step.nplaces = NODES;
    s.planning->step.tasks = tasks;
    assert_int_equal(dlr_sup_engines_open(&s, &err), 0);
    s.resume_round = 1;
    dlr_policy_resume(s.policy, 1, 0, dlr_sup_now());
    assert_int_equal(dlr_sup_load_round(s.rounds, round), 0);
    assert_true(dlr_sup_adopt_start(s.rounds, eventfd(0, EFD_CLOEXEC)));
    return 0;
}

static int end(void **state)
{
    dlr_policy_free(s.policy);
    s.planning->step.tasks = NULL; /* nobody's to free */
    engines_rig_free(&s);
    return 0;
}

/* --- tests ------------------------------------------------------------------------ */

/* The former one had asked nobody for the partners' slots yet. */
static void slots_are_asked_of_a_node_that_comes_back_later(void **state)
{
    come_back(0);
    say_ready(0, 0);
    come_back(1);
    say_ready(1, 1);
    assert_int_equal(reserved[1][0], 1);
    assert_int_equal(reserved[0][1], 1);
    say_ready(0, 1);
    say_ready(1, 0);
    dlr_sup_versions_progress(s.versions, 0, 9, dlr_sup_now());
    assert_true(saves);
}

/* Its own round, and the step that was ordered above is undecided. What is committed is
 * said again with the version that is vetted: without it that one's slot would be free.
 */
static void an_agent_that_has_its_predecessors_round_ends_nothing(void **state)
{
    DLR_AUTO_JSON json_t *kept = json_pack("{s:[i, i]}", "vetted", 0, 2);
    struct dlr_version v = {.round = 0, .step = 4};

    dlr_sup_vetted_take(s.versions, kept);
    dlr_commit_go_on(dlr_sup_commit(s.versions), &v, 0);
    assert_true(dlr_commit_pending(dlr_sup_commit(s.versions), &v));
    aborts = 0;
    hear(1,
         "{\"v\":2,\"t\":\"round_state\",\"round\":0,\"turn\":0,"
         "\"kill_up_to_round\":-1,\"committed\":null,\"ordered\":0,\"open\":[%llu],"
         "\"back_ms\":80}",
         (unsigned long long)v.step);
    assert_int_equal(dlr_policy_phase(s.policy), DLR_PHASE_RUN);
    assert_false(dlr_commit_pending(dlr_sup_commit(s.versions), &v));
    assert_true(aborts > 0);
    assert_string_equal(commit, "{\"v\":2,\"t\":\"commit\",\"round\":0,\"step\":4,"
                                "\"vetted\":{\"vround\":0,\"step\":2}}");
    assert_int_equal(gos, 0); /* nobody has restored anything */
    assert_int_equal(reserved[1][0], 2);
}

/* It has them as another supervisor's, or knows none of the round. */
static void one_that_is_elsewhere_ends_the_round(void **state)
{
    static char why[] = "the agent of n1 died and was started again";

    ends = why;
    hear(1, "{\"v\":2,\"t\":\"round_state\",\"round\":0,\"turn\":7,"
            "\"kill_up_to_round\":-1,\"committed\":null,\"ordered\":0,\"open\":[],"
            "\"back_ms\":80}");
    assert_null(ends);
    kills = 0;
    hear(1, "{\"v\":2,\"t\":\"round_state\",\"round\":0,\"turn\":0,"
            "\"kill_up_to_round\":-1,\"committed\":null,\"ordered\":0,\"open\":[],"
            "\"back_ms\":80}");
    assert_int_equal(kills, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_asked_of_a_node_that_comes_back_later),
        cmocka_unit_test(an_agent_that_has_its_predecessors_round_ends_nothing),
        cmocka_unit_test(one_that_is_elsewhere_ends_the_round),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
