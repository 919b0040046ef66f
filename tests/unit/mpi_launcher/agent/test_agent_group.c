/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_now_ms,dlr_agent_peers_send_bytes,dlr_agent_peer_of,dlr_agent_peer_send_back,dlr_agent_send_supervisor_bytes */
/* Beats of a group, message by message: what a node does whose collector answers, is
 * silent or refuses, and what a collector says to the supervisor and to the others.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/group.h"
#include "mpi_launcher/wire/group_beats.h"

#define GEN 3

static struct rig {
    struct dlr_agent_group *group;
    struct dlr_agent_self self;
    int64_t now_ms;
    bool no_way;   /* to the collector */
    unsigned sent; /* to it */
    struct dlr_group_beats last, passed_on;
    unsigned frames; /* to the supervisor */
    char back[256];  /* what went to whom, as a collector */
} rig;

/* --- instead of the clock, of the supervisor and of the peers ---------------------- */

int64_t __wrap_dlr_now_ms(void);
int64_t __wrap_dlr_now_ms(void)
{
    return rig.now_ms;
}

bool __wrap_dlr_agent_peers_send_bytes(struct dlr_agent_base *base, const char *node,
                                       const void *data, size_t size);
bool __wrap_dlr_agent_peers_send_bytes(struct dlr_agent_base *base, const char *node,
                                       const void *data, size_t size)
{
    assert_string_equal(node, "n64");
    if (rig.no_way)
        return false;
    rig.sent++;
    assert_int_equal(dlr_group_beats_unpack(data, size, &rig.last), 0);
    return true;
}

const char *__wrap_dlr_agent_peer_of(const struct dlr_agent_base *base,
                                     const char *key);
const char *__wrap_dlr_agent_peer_of(const struct dlr_agent_base *base, const char *key)
{
    return dlr_streq(key, "stranger") ? NULL : key;
}

void __wrap_dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base,
                                            const void *data, size_t size);
void __wrap_dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base,
                                            const void *data, size_t size)
{
    rig.frames++;
    assert_int_equal(dlr_group_beats_unpack(data, size, &rig.passed_on), 0);
}

void __wrap_dlr_agent_peer_send_back(struct dlr_agent_base *base,
                                     const struct dlr_route *to, const void *data,
                                     size_t size);
void __wrap_dlr_agent_peer_send_back(struct dlr_agent_base *base,
                                     const struct dlr_route *to, const void *data,
                                     size_t size)
{
    size_t at = strlen(rig.back);
    struct dlr_group_leases none;
    struct dlr_heartbeat lease;

    if (dlr_heartbeat_unpack(data, size, &lease) == 0) {
        assert_int_equal(lease.kind, DLR_LEASE);
        dlr_format(rig.back + at, sizeof(rig.back) - at, "%c:%u@%u+%u/%u ", to->id[0],
                   lease.seq, (unsigned)lease.sent_ns, lease.lease_ms, lease.round);
        return;
    }
    assert_int_equal(dlr_group_leases_unpack(data, size, &none), 0);
    assert_int_equal(none.taken, 0);
    dlr_format(rig.back + at, sizeof(rig.back) - at, "%c:no ", to->id[0]);
}

/* ---------------------------------------------------------------------------------- */

static int welcome(const char *text)
{
    json_t *group = text ? json_loads(text, 0, NULL) : NULL;
    int rc = dlr_agent_group_welcome(rig.group, group);

    json_decref(group);
    return rc;
}

static int setup(void **state)
{
    rig = (struct rig){.now_ms = 100000};
    dlr_job_config_init(&rig.self.job);
    rig.self.run.gen = GEN;
    dlr_format(rig.self.node, sizeof(rig.self.node), "n70");
    rig.group = dlr_agent_group_new(NULL, &rig.self);
    assert_non_null(rig.group);
    return welcome("{\"collector\":\"n64\",\"node\":70,\"ticket\":2}");
}

static int teardown(void **state)
{
    rig.group = dlr_agent_group_free(rig.group);
    return 0;
}

/* A beat is due: whether the supervisor must have it. */
static bool beat_is_ours(void)
{
    struct dlr_heartbeat beat = {.kind = DLR_HEARTBEAT,
                                 .gen = GEN,
                                 .seq = 10 + rig.sent,
                                 .sent_ns = 12345,
                                 .round = 7,
                                 .step_min = 41,
                                 .step_max = 42};

    rig.now_ms += 200;
    return !dlr_agent_group_send(rig.group, &beat);
}

/* The collector has answered one. */
static void use_it(void)
{
    assert_true(beat_is_ours());
    dlr_agent_group_answered(rig.group);
}

static void beats_go_by_a_collector_once_it_has_answered(void **state)
{
    use_it();
    for (int i = 0; i < 20; i++) {
        assert_false(beat_is_ours());
        dlr_agent_group_answered(rig.group);
    }
    assert_int_equal(rig.sent, 21);
    assert_int_equal(rig.last.gen, GEN);
    assert_int_equal(rig.last.seq, 30);
    assert_int_equal(rig.last.sent_ns, 12345);
    assert_int_equal(rig.last.n, 1);
    assert_int_equal(rig.last.all[0].node, 70);
    assert_int_equal(rig.last.all[0].ticket, 2);
    assert_int_equal(rig.last.all[0].round, 7);
    assert_int_equal(rig.last.all[0].step_max, 42);
}

static void a_dead_collector_costs_two_beats(void **state)
{
    use_it();
    assert_false(beat_is_ours());
    assert_false(beat_is_ours());
    for (int i = 0; i < 28; i++)
        assert_true(beat_is_ours());
    assert_int_equal(rig.sent, 7); /* then it was left */
    assert_true(beat_is_ours());   /* 5 s later it is tried */
    assert_int_equal(rig.sent, 8);
    dlr_agent_group_answered(rig.group);
    assert_false(beat_is_ours());
}

static void who_is_refused_beats_for_itself(void **state)
{
    use_it();
    rig.now_ms += 10000;
    assert_false(beat_is_ours());
    dlr_agent_group_refused(rig.group);
    assert_true(beat_is_ours());
    assert_int_equal(rig.sent, 2);
}

/* Firewalls forget connections that carry nothing. */
static void the_way_to_the_supervisor_is_used_now_and_then(void **state)
{
    unsigned ours = 0;

    use_it();
    for (int i = 0; i < 600; i++) {
        ours += beat_is_ours();
        dlr_agent_group_answered(rig.group);
    }
    assert_in_range(ours, 3, 4); /* in two minutes */
}

static void without_a_collector_all_beats_are_ours(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"collector\":\"n64\",\"node\":70}",
        "{\"collector\":\"n64\",\"node\":70,\"ticket\":-1}",
        "{\"collector\":\"n64\",\"node\":131073,\"ticket\":1}",
        "{\"collector\":\"n70\",\"node\":70,\"ticket\":1}",
        "{\"collector\":7,\"node\":70,\"ticket\":1}",
    };

    rig.no_way = true; /* it is not known yet */
    assert_true(beat_is_ours());
    rig.no_way = false;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(welcome(bad[i]), -EBADMSG);
        assert_true(beat_is_ours());
    }
    assert_int_equal(welcome(NULL), 0); /* another supervisor, or a small job */
    assert_true(beat_is_ours());
    assert_false(dlr_agent_group_is_by(rig.group, "n64"));
    assert_int_equal(rig.sent, 0);
}

/* --- a collector -------------------------------------------------------------------- */

static void hear(unsigned node, uint32_t seq, uint32_t gen, const char *key)
{
    struct dlr_group_beats in = {
        .gen = gen, .seq = seq, .sent_ns = 100 + seq, .n = 1, .all[0].node = node};
    unsigned char buf[DLR_GROUP_BEATS_BYTES];
    struct dlr_packet packet = {.data = buf, .size = dlr_group_beats_pack(&in, buf)};

    packet.from = (struct dlr_route){.size = 1, .id = {(unsigned char)('a' + node)}};
    dlr_format(packet.key, sizeof(packet.key), "%s", key);
    dlr_agent_group_take(rig.group, &packet);
}

static void supervisor_answers(uint64_t taken)
{
    struct dlr_group_leases leases = {
        .gen = GEN, .seq = rig.passed_on.seq, .lease_ms = 1000, .taken = taken};
    unsigned char buf[DLR_GROUP_LEASES_BYTES];

    rig.back[0] = '\0';
    dlr_group_leases_pack(&leases, buf);
    dlr_agent_group_leases(rig.group, buf, sizeof(buf));
}

static void the_newest_beat_of_each_is_passed_on_and_its_lease_back(void **state)
{
    dlr_agent_group_flush(rig.group);
    assert_int_equal(rig.frames, 0);
    hear(2, 5, GEN, "key");
    hear(1, 8, GEN, "key");
    hear(2, 6, GEN, "key");
    dlr_agent_group_flush(rig.group);
    dlr_agent_group_flush(rig.group); /* nothing new */
    assert_int_equal(rig.frames, 1);
    assert_int_equal(rig.passed_on.n, 2);
    assert_int_equal(rig.passed_on.all[0].node, 1);
    hear(1, 9, GEN, "key"); /* meanwhile */
    supervisor_answers(3);
    assert_string_equal(rig.back, "b:8@108+1000/0 c:6@106+1000/0 ");
    supervisor_answers(3); /* once more */
    assert_string_equal(rig.back, "");
    dlr_agent_group_flush(rig.group);
    assert_int_equal(rig.passed_on.n, 1);
    supervisor_answers(1);
    assert_string_equal(rig.back, "b:9@109+1000/0 ");
}

static void whom_the_supervisor_does_not_take_is_told_so(void **state)
{
    hear(1, 5, GEN, "key");
    hear(2, 5, GEN, "key");
    dlr_agent_group_flush(rig.group);
    supervisor_answers(2);
    assert_string_equal(rig.back, "b:no c:5@105+1000/0 ");
    rig.back[0] = '\0';
    dlr_agent_group_refuse_all(rig.group); /* it does not know us */
    assert_string_equal(rig.back, "c:no ");
}

static void strangers_and_other_runs_are_not_passed_on(void **state)
{
    hear(1, 5, GEN, "stranger");
    hear(2, 5, GEN + 1, "key");
    dlr_agent_group_flush(rig.group);
    assert_int_equal(rig.frames, 0);
}

static void an_overloaded_supervisor_gets_fewer(void **state)
{
    for (uint32_t i = 0; i < 100; i++) {
        hear(1, i, GEN, "key");
        dlr_agent_group_flush(rig.group);
    }
    assert_in_range(rig.frames, 20, 30);
    supervisor_answers(1);
    assert_string_equal(rig.back, "b:99@199+1000/0 ");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(beats_go_by_a_collector_once_it_has_answered),
        T(a_dead_collector_costs_two_beats),
        T(who_is_refused_beats_for_itself),
        T(the_way_to_the_supervisor_is_used_now_and_then),
        T(without_a_collector_all_beats_are_ours),
        T(the_newest_beat_of_each_is_passed_on_and_its_lease_back),
        T(whom_the_supervisor_does_not_take_is_told_so),
        T(strangers_and_other_runs_are_not_passed_on),
        T(an_overloaded_supervisor_gets_fewer),
    };

    return cmocka_run_group_tests_name("agent_group", tests, NULL, NULL);
}
