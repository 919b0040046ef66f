/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_server_send,dlr_server_send_json,dlr_server_send_shared stand-ins */
/* The engine of the nodes without a supervisor: what it tells of agents that come, beat
 * and fall silent, in which order, and what it counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/wire/group_beats.h"
#include "mpi_launcher/wire/heartbeat.h"

#define NODES 5
#define DEAD_MS 1000
#define LATE_MS (DEAD_MS + 51)

static struct dlr_job_config conf;
static const struct dlr_run_id id = {.gen = 1};
static struct dlr_sup_io *io;
static struct dlr_sup_nodes *nodes;
static int64_t now_ms;
static bool over, start_retried, unclean[NODES];
static uint64_t taken;       /* of the last beats of a group */
static char welcomed_by[16]; /* the collector that the last welcome named */
static char told[256];       /* what has happened, one word each */

static void note(const char *what, unsigned node)
{
    size_t at = strlen(told);

    dlr_format(told + at, sizeof(told) - at, "%s%s%u%s", at ? " " : "", what, node,
               nodes->members.list[node].here ? "+" : "-");
}

/* --- instead of the clock, of the loop and of the user's terminal ----------------- */

int64_t dlr_sup_now(void)
{
    return now_ms;
}
bool dlr_sup_is_held(void)
{
    return false;
}
void dlr_user_line(struct dlr_sup_io *say, const char *fmt, ...)
{
    size_t at = strlen(told);

    dlr_format(told + at, sizeof(told) - at, " say");
}

int dlr_sup_take_message(struct dlr_sup_io *none)
{
    return 0;
}
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size);
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size)
{
    struct dlr_group_leases leases;

    if (dlr_group_leases_unpack(data, size, &leases) == 0) {
        taken = leases.taken;
        assert_int_equal(leases.lease_ms, DEAD_MS);
    }
    return 0;
}
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg);
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg)
{
    if (dlr_streq(dlr_msg_type(msg), "welcome")) {
        const char *collector = "";

        dlr_msg_str(json_object_get(msg, "group"), "collector", &collector);
        dlr_format(welcomed_by, sizeof(welcomed_by), "%s", collector);
    }
    return 0;
}
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared);
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared)
{
    return 0;
}

/* --- events ----------------------------------------------------------------------- */

static void on_message(void *arg, unsigned node, const json_t *msg)
{
    note(dlr_msg_type(msg), node);
}
static void on_greeted(void *arg, unsigned node)
{
    note("greeted", node);
}
static void on_up(void *arg, unsigned node)
{
    note("up", node);
}
static void on_moved(void *arg, bool again)
{
    size_t at = strlen(told);

    dlr_format(told + at, sizeof(told) - at, again ? " again" : " moved");
}
static void on_progress(void *arg, uint32_t round, uint64_t done, int64_t when_ms)
{
    note("step", (unsigned)done);
}
static void on_silent(void *arg, unsigned node)
{
    note("silent", node);
}
static void on_lost(void *arg, unsigned node, const char *why, int64_t when_ms)
{
    note(why ? "lost" : "given-up", node);
    over = over || node == NODES - 1;
}
static void on_published(void *arg)
{
}
static void put_beside(void *arg, json_t *msg)
{
}
static bool is_unclean(void *arg, unsigned node)
{
    return unclean[node];
}
static bool is_excused(void *arg, int64_t when_ms)
{
    return start_retried;
}
static bool is_behind(void *arg, unsigned node)
{
    return node == 1;
}
static bool is_over(void *arg)
{
    return over;
}
static uint32_t round_now(void *arg)
{
    return 7;
}
static unsigned places_of_round(void *arg)
{
    return 3;
}

static const struct dlr_sup_nodes_ops ops = {.message = on_message,
                                             .greeted = on_greeted,
                                             .up = on_up,
                                             .moved = on_moved,
                                             .progress = on_progress,
                                             .silent = on_silent,
                                             .lost = on_lost,
                                             .published = on_published,
                                             .beside = put_beside,
                                             .given_up = is_unclean,
                                             .start_retried = is_excused,
                                             .behind = is_behind,
                                             .over = is_over,
                                             .round = round_now,
                                             .places = places_of_round};

static int begin(void **state)
{
    static char n[NODES][3] = {"n0", "n1", "n2", "n3", "n4"};
    char *names[NODES] = {n[0], n[1], n[2], n[3], n[4]};
    struct dlr_sup_nodes_env env = {.conf = &conf, .id = &id};
    struct dlr_err err;

    dlr_job_config_init(&conf);
    conf.beat.every_ms = 100;
    conf.beat.missed = DEAD_MS / 100;
    conf.partition_grace_ms = 5000;
    io = env.io = dlr_sup_io_new(NULL, NULL);
    nodes = dlr_sup_nodes_new(&env, &ops, NULL);
    assert_non_null(nodes);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, "n2", &err), 0);
    for (unsigned i = 0; i < NODES; i++)
        dlr_format(nodes->members.list[i].key, DLR_KEY_TEXT, "key%u", i);
    now_ms = 5000;
    over = start_retried = false;
    memset(unclean, 0, sizeof(unclean));
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    dlr_sup_nodes_free(nodes);
    dlr_sup_io_free(io);
    return 0;
}

static struct dlr_packet packet_of(unsigned node, const void *data, size_t size)
{
    struct dlr_packet packet = {.data = data, .size = size};

    packet.from = (struct dlr_route){.size = 1, .id = {(unsigned char)('0' + node)}};
    dlr_format(packet.key, sizeof(packet.key), "key%u", node);
    return packet;
}

static void hear(unsigned node, const char *text)
{
    struct dlr_packet packet = packet_of(node, text, strlen(text));

    dlr_sup_hear(nodes, &packet);
}

static void hello(unsigned node, const char *data)
{
    char text[200];

    dlr_format(text, sizeof(text),
               "{\"v\":2,\"t\":\"hello\",\"node\":\"n%u\",\"boot\":\"b\",\"topo\":\"\","
               "\"addr\":\"h:1\",\"key\":\"k\",\"data\":\"%s\",\"cpus\":2}",
               node, data);
    hear(node, text);
}

static void beat(unsigned node, uint64_t done)
{
    struct dlr_heartbeat b = {
        .kind = DLR_HEARTBEAT, .gen = 1, .step_min = done, .step_max = done};
    unsigned char buf[DLR_HEARTBEAT_BYTES];
    struct dlr_packet packet;

    dlr_heartbeat_pack(&b, buf);
    packet = packet_of(node, buf, sizeof(buf));
    dlr_sup_hear(nodes, &packet);
}

/* All are here and were heard just now, and we have looked. */
static void all_here(void)
{
    for (unsigned i = 0; i < NODES; i++)
        hello(i, "00");
    dlr_failure_detector_start(nodes, now_ms);
    told[0] = '\0';
}

/* Time passes in which we look all the time. */
static void pass(int64_t ms)
{
    now_ms += ms;
    dlr_failure_detector_start(nodes, now_ms - DLR_SUP_TICK_MS);
}

/* --- tests ------------------------------------------------------------------------ */

static void an_agent_that_comes_is_greeted_then_up_then_moved(void **state)
{
    hello(0, "00");
    assert_string_equal(told, "greeted0+ up0+ moved");
    hello(0, "00"); /* it says so once more */
    hello(0, "01"); /* and has another data process */
    assert_string_equal(told, "greeted0+ up0+ moved greeted0+ greeted0+ again");
    assert_string_equal(dlr_sup_batch(nodes), "n2");
}

static void only_messages_of_members_are_taken(void **state)
{
    hear(0, "{\"v\":2,\"t\":\"clean\"}"); /* it has not said hello: who is it? */
    assert_string_equal(told, "");
    assert_int_equal(nodes->asked, 1);
    hello(0, "");
    told[0] = '\0';
    hear(0, "{\"v\":2,\"t\":\"clean\"}");
    hear(0, "{\"v\":2,\"t\":\"odd\"}");
    hear(0, "no message");
    assert_string_equal(told, "clean0+ odd0+");
    over = true;
    hello(1, "");
    assert_false(nodes->members.list[1].here);
}

/* Of who has not said hello only so much is looked at as a hello needs. */
static void a_long_message_of_a_stranger_is_not_read(void **state)
{
    enum { MOST = 64 << 10 };
    static char text[MOST + 2];

    snprintf(text, sizeof(text), "%-*s", MOST + 1,
             "{\"v\":2,\"t\":\"hello\",\"node\":\"n0\",\"boot\":\"b\",\"topo\":\"\","
             "\"addr\":\"h:1\",\"key\":\"k\",\"data\":\"00\",\"cpus\":2}");
    hear(0, text);
    assert_string_equal(told, "");
    text[MOST] = '\0';
    hear(0, text);
    assert_string_equal(told, "greeted0+ up0+ moved");
}

static void a_beat_tells_the_step_unless_its_turn_is_over(void **state)
{
    all_here();
    now_ms += 70;
    beat(0, 3);
    beat(1, 4); /* behind */
    assert_string_equal(told, "step3+");
    assert_int_equal(nodes->members.list[1].heard_ms, now_ms);
    assert_true(nodes->members.list[1].step_max == DLR_HEARTBEAT_NO_STEP);
    nodes->members.list[2].here = false; /* it is told to clean up, and is not heard */
    now_ms += 5000;
    beat(2, 5);
    assert_string_equal(told, "step3+");
}

/* n0 passes on beats of n1, n3 and n4, and of one that there is not. */
static void group_beats(uint32_t ticket_of_3)
{
    struct dlr_group_beats b = {.gen = 1,
                                .seq = 9,
                                .n = 4,
                                .all = {{1, 1, 7, 2},
                                        {NODES, 1, 7, 2},
                                        {3, ticket_of_3, 7, 2},
                                        {4, 1, 7, DLR_HEARTBEAT_NO_STEP}}};
    unsigned char buf[DLR_GROUP_BEATS_BYTES];
    struct dlr_packet packet;
    size_t size = dlr_group_beats_pack(&b, buf);

    taken = 0;
    packet = packet_of(0, buf, size);
    dlr_sup_hear(nodes, &packet);
}

static void beats_of_a_group_count_for_those_who_are_here(void **state)
{
    int64_t before = now_ms;

    all_here();
    hello(3, "00"); /* another agent: beats of the one before are in the frame */
    nodes->members.list[4].here = false;
    told[0] = '\0';
    now_ms += 70;
    group_beats(1);
    assert_true(taken == 1);
    assert_int_equal(nodes->members.list[1].heard_ms, now_ms);
    assert_int_equal(nodes->members.list[0].heard_ms, before);
    assert_int_equal(nodes->members.list[3].heard_ms, before);
    assert_int_equal(nodes->members.list[4].heard_ms, before);
    assert_string_equal(told, ""); /* n1 is behind with its steps */
    group_beats(2);
    assert_true(taken == 5);
    assert_string_equal(told, "step2+");
    nodes->members.list[0].here = false; /* it was given up */
    group_beats(2);
    assert_true(taken == 0);
}

/* Those of a small job, or with too few beats to lose one, are told of no group. */
static void in_large_jobs_agents_are_told_who_collects(void **state)
{
    static char name[DLR_GROUP_ABOVE + 1][8], *names[DLR_GROUP_ABOVE + 1];
    struct dlr_sup_nodes *five = nodes;
    struct dlr_err err;

    hello(1, "00");
    assert_string_equal(welcomed_by, "");
    for (unsigned i = 0; i <= DLR_GROUP_ABOVE; i++) {
        dlr_format(name[i], sizeof(name[i]), "n%u", i);
        names[i] = name[i];
    }
    nodes = dlr_sup_nodes_new(&five->env, &ops, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, DLR_GROUP_ABOVE + 1, NULL, &err),
                     0);
    for (unsigned i = 0; i <= DLR_GROUP_ABOVE; i++)
        dlr_format(nodes->members.list[i].key, DLR_KEY_TEXT, "key%u", i);
    hello(1, "00");
    assert_string_equal(welcomed_by, "n0");
    hello(64, "00");
    assert_string_equal(welcomed_by, "");
    hello(127, "00");
    assert_string_equal(welcomed_by, "n64");
    conf.beat.missed = DLR_GROUP_MISSED_MIN - 1;
    hello(127, "00");
    assert_string_equal(welcomed_by, "");
    dlr_sup_nodes_free(nodes);
    nodes = five;
}

/* Some are told while it is still here, others once it is not. */
static void silence_is_told_before_and_after_the_loss(void **state)
{
    all_here();
    pass(LATE_MS - 1);
    for (unsigned i = 1; i < NODES; i++)
        beat(i, DLR_HEARTBEAT_NO_STEP);
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "");
    pass(1);
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "silent0+ say lost0-");
    assert_int_equal(dlr_sup_losses_nodes(nodes), 1);
}

static void a_node_that_was_given_up_is_no_silent_one(void **state)
{
    all_here();
    unclean[3] = true;
    pass(DLR_SUP_TICK_MS);
    dlr_failure_detector_check(nodes, now_ms);
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, " say given-up3-");
    dlr_node_mark_dead(nodes, 2, "its agent cannot be started", "no such file");
    assert_string_equal(told, " say given-up3- say given-up2-");
    assert_int_equal(dlr_sup_losses_nodes(nodes), 2);
}

static void nobody_is_judged_when_too_many_are_silent_or_excused(void **state)
{
    all_here();
    pass(LATE_MS);
    beat(0, DLR_HEARTBEAT_NO_STEP);
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, ""); /* our own link, more likely */
    for (unsigned i = 1; i < NODES - 1; i++)
        beat(i, DLR_HEARTBEAT_NO_STEP);
    start_retried = true;
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "");
    start_retried = false;
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "silent4+ say lost4-");
}

static void what_we_did_not_look_at_is_nobodys_silence(void **state)
{
    all_here();
    now_ms += 10 * LATE_MS; /* we were stopped */
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "");
}

/* Silent for as long as is waited for when all are. */
static void none_is_lost_once_the_run_is_over(void **state)
{
    all_here();
    nodes->members.list[4].heard_ms += 10;
    over = true;
    pass(LATE_MS + conf.partition_grace_ms);
    dlr_failure_detector_check(nodes, now_ms);
    assert_string_equal(told, "");
}

/* Over supervisors and requeues: hours of nodes and the nodes that were lost in them.
 */
static void what_the_run_has_lost_is_counted_on(void **state)
{
    json_t *left = json_object();

    dlr_sup_losses_start(nodes);
    dlr_sup_losses_count(nodes, 4);
    nodes->losses.nodes = 2;
    now_ms += 3600 * 1000;
    assert_true(dlr_sup_losses_hours(nodes) == 4);
    dlr_sup_losses_state(nodes, left);
    memset(&nodes->losses, 0, sizeof(nodes->losses)); /* the next one */
    dlr_sup_losses_start(nodes);
    dlr_sup_losses_take(nodes, left);
    assert_int_equal(dlr_sup_losses_nodes(nodes), 2);
    dlr_sup_losses_count(nodes, 3);
    now_ms += 3600 * 1000;
    assert_true(dlr_sup_losses_hours(nodes) == 7);
    json_object_clear(left); /* of a suite that did not count */
    dlr_sup_losses_take(nodes, left);
    assert_int_equal(dlr_sup_losses_nodes(nodes), 0);
    assert_true(dlr_sup_losses_hours(nodes) == 3);
    json_decref(left);
}

/* Keys that were proven, for a node that comes back to the next supervisor. */
static void proven_keys_are_kept(void **state)
{
    DLR_AUTO_JSON json_t *left = NULL;

    hello(0, "0a");
    left = dlr_sup_nodes_state(nodes);
    assert_int_equal(json_object_size(left), NODES);
    end(NULL);
    begin(NULL);
    memset(nodes->members.list[0].key, 0, DLR_KEY_TEXT);
    dlr_sup_nodes_take(nodes, left);
    assert_string_equal(nodes->members.list[0].key, "key0");
    hello(0, "0a"); /* no credential is asked for, and nothing has moved */
    assert_string_equal(told, "greeted0+ up0+");
}

/* It is asked for at each change of the run's state. */
static void what_is_kept_of_peers_is_made_anew_after_a_hello(void **state)
{
    DLR_AUTO_JSON json_t *first = NULL, *second = NULL, *third = NULL;

    hello(0, "0a");
    first = dlr_sup_nodes_state(nodes);
    second = dlr_sup_nodes_state(nodes);
    assert_ptr_equal(first, second);
    hello(0, "0b");
    third = dlr_sup_nodes_state(nodes);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(third, "n0"), "data")), "0b");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(first, "n0"), "data")), "0a");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(an_agent_that_comes_is_greeted_then_up_then_moved),
        T(only_messages_of_members_are_taken),
        T(a_long_message_of_a_stranger_is_not_read),
        T(a_beat_tells_the_step_unless_its_turn_is_over),
        T(beats_of_a_group_count_for_those_who_are_here),
        T(in_large_jobs_agents_are_told_who_collects),
        T(silence_is_told_before_and_after_the_loss),
        T(a_node_that_was_given_up_is_no_silent_one),
        T(nobody_is_judged_when_too_many_are_silent_or_excused),
        T(what_we_did_not_look_at_is_nobodys_silence),
        T(none_is_lost_once_the_run_is_over),
        T(what_the_run_has_lost_is_counted_on),
        T(proven_keys_are_kept),
        T(what_is_kept_of_peers_is_made_anew_after_a_hello),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
