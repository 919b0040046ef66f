/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_server_send_json,dlr_server_send,dlr_server_send_shared */
/* The start of a job with many nodes: what the supervisor sends and makes for each
 * agent that says hello. All of it but its main program and the sockets.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/endpoint.h"
#include "tests/support/engines_rig.h"

#define MAX_NODES 16384
#define RANKS 8 /* of a node */

static struct dlr_sup s;
static struct dlr_members *table;
static struct {
    uint64_t bytes; /* of lists of members */
    unsigned sent;  /* lists, to all */
    unsigned texts; /* made of them */
    const void *text;
} lists;
static struct {
    uint64_t bytes;
    size_t longest;
    unsigned sent;
    json_t *last;
} rounds;

static void hear(unsigned node, const char *text)
{
    struct dlr_packet packet = {.data = text, .size = strlen(text)};

    packet.from.size = sizeof(node);
    memcpy(packet.from.id, &node, sizeof(node));
    dlr_format(packet.key, sizeof(packet.key), "key%u", node);
    dlr_sup_hear(s.nodes, &packet);
}

static void sent_round(const void *data, size_t size)
{
    if (!memmem(data, size < 40 ? size : 40, "\"t\":\"round\"", 11))
        return;
    rounds.sent++;
    rounds.bytes += size;
    rounds.longest = size > rounds.longest ? size : rounds.longest;
    json_decref(rounds.last);
    rounds.last = json_loadb(data, size, 0, NULL);
}

static int sent(const void *data, size_t size, bool made)
{
    sent_round(data, size);
    if (!memmem(data, size < 40 ? size : 40, "\"t\":\"peers\"", 11))
        return 0;
    lists.sent++;
    lists.bytes += size;
    lists.texts += made;
    return 0;
}
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size);
int __wrap_dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                           const void *data, size_t size)
{
    return sent(data, size, false);
}
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg);
int __wrap_dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                                const json_t *msg)
{
    DLR_AUTO_FREE char *made = dlr_msg_text(msg);

    return sent(made, strlen(made), true);
}

int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared);
int __wrap_dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                                  struct dlr_shared *shared)
{
    lists.texts += shared != lists.text;
    lists.text = shared;
    lists.bytes += dlr_shared_size(shared);
    lists.sent++;
    return 0;
}

static void none(void *arg)
{
}
static void none_bool(void *arg, bool with_mpi)
{
}

static const struct dlr_policy_ops ops = {
    .start_agents = none, .rendezvous = none_bool, .stop_rendezvous = none};

static void begin(unsigned n)
{
    struct dlr_policy_conf pc = {.nnodes = n, .nplaces = n, .max_restarts = 3};
    char **names = calloc(n, sizeof(*names));
    struct dlr_err err;

    memset(&s, 0, sizeof(s));
    memset(&lists, 0, sizeof(lists));
    dlr_job_config_init(&s.conf);
    s.state_fd = -1;
    s.id.gen = 1;
    for (unsigned i = 0; i < n; i++)
        assert_true(asprintf(&names[i], "n%05u", i) > 0);
    table = engines_rig(&s, names, n);
    for (unsigned i = 0; i < n; i++) {
        dlr_format(table->list[i].key, DLR_KEY_TEXT, "key%u", i);
        free(names[i]);
    }
    free(names);
    assert_int_equal(dlr_policy_new(&pc, &ops, &s, &s.policy, &err), 0);
    assert_int_equal(dlr_sup_versions_open(s.versions, s.policy, &err), 0);
    dlr_policy_start(s.policy, dlr_sup_now());
}

static void end(void)
{
    engines_rig_free(&s);
    dlr_policy_free(s.policy);
}

static void hello(unsigned node)
{
    char text[512];

    assert_int_equal(
        dlr_format(
            text, sizeof(text),
            "{\"v\":2,\"t\":\"hello\",\"node\":\"n%05u\",\"boot\":\"b\","
            "\"topo\":\"s0.n%05u\",\"addr\":\"10.0.0.1:40000\",\"key\":\"%040u\","
            "\"data\":\"00\",\"cpus\":2}",
            node, node, node),
        0);
    hear(node, text);
}

/* All of them at once: each is told of all others, once; one text for all, not one for
 * each.
 */
static void all_that_come_are_told_of_each_other_once(void **state)
{
    static const unsigned sizes[] = {8, 64, 512};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        unsigned n = sizes[i];

        begin(n);
        for (unsigned node = 0; node < n; node++)
            hello(node);
        print_message("%u nodes: %u lists, %llu bytes, %u texts\n", n, lists.sent,
                      (unsigned long long)lists.bytes, lists.texts);
        assert_int_equal(lists.sent, n);
        assert_true(lists.bytes <= (uint64_t)n * (400 + 100 * n));
        assert_true(lists.texts <= 1);
        end();
    }
}

/* A plan of n nodes: the copies of each are kept by the next, of the last by the first.
 */
static void plan(unsigned n)
{
    struct dlr_plan *in_force = &s.planning->plan;

    memset(&rounds, 0, sizeof(rounds));
    s.planning->step.nplaces = in_force->nplaces = n;
    in_force->world = RANKS * n;
    s.conf.redundancy.copies = 1;
    in_force->places = calloc(n, sizeof(*in_force->places));
    in_force->ranks = calloc(RANKS * n, sizeof(*in_force->ranks));
    in_force->place_of = calloc(RANKS * n, sizeof(*in_force->place_of));
    s.copies->holders = calloc(n, sizeof(*s.copies->holders));
    for (unsigned i = 0; i < RANKS * n; i++) {
        in_force->ranks[i] = i;
        in_force->place_of[i] = i / RANKS;
    }
    for (unsigned i = 0; i < n; i++) {
        struct dlr_plan_place *p = &in_force->places[i];

        dlr_format(p->node.name, sizeof(p->node.name), "n%05u", i);
        p->from = RANKS * i;
        p->tasks = RANKS;
        s.copies->holders[i] = (i + 1) % n;
        table->list[i].here = true;
        table->list[i].data = calloc(1, 401);
        memset(table->list[i].data, 'a', 400); /* a UCX address of a few devices */
    }
}

static void drop_plan(void)
{
    json_decref(rounds.last);
}

/* Its own ranks, those that it keeps copies of, and where its own copies go: however
 * many others there are.
 */
static void a_round_tells_each_node_what_concerns_it(void **state)
{
    static const unsigned sizes[] = {2, 4096, MAX_NODES};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        unsigned n = sizes[i];
        DLR_AUTO_FREE char *nodes = NULL;
        char want[300];

        begin(n);
        plan(n);
        dlr_sup_tell_round(s.rounds, 0);
        print_message("%u nodes: %u messages, %llu bytes, the longest has %zu\n", n,
                      rounds.sent, (unsigned long long)rounds.bytes, rounds.longest);
        assert_int_equal(rounds.sent, n);
        assert_true(rounds.longest < 2048);
        nodes = json_dumps(json_object_get(rounds.last, "partners"), JSON_COMPACT);
        snprintf(want, sizeof(want), "{\"n%05u\":[\"n00000\"],\"n%05u\":[\"n%05u\"]}",
                 n - 1, n - 2, n - 1);
        assert_string_equal(nodes, want);
        assert_int_equal(json_array_size(json_object_get(rounds.last, "nodes")),
                         n == 2 ? 2 : 3);
        drop_plan();
        end();
    }
}

/* The sets of all nodes are in one message, which has a limit. */
static void too_many_nodes_for_parity_are_told_so(void **state)
{
    DLR_AUTO_FREE unsigned *tasks = calloc(MAX_NODES, sizeof(*tasks));

    for (unsigned i = 0; i < MAX_NODES; i++)
        tasks[i] = RANKS;
    begin(MAX_NODES);
    plan(MAX_NODES);
    assert_int_equal(
        dlr_parity_sets_init(&s.copies->sets, MAX_NODES, tasks, s.plan->ranks, 4, 1),
        0);
    dlr_sup_tell_round(s.rounds, 0);
    assert_int_equal(rounds.sent, 0);
    assert_int_equal(s.copies->transfers.rc, -E2BIG);
    assert_string_equal(
        s.copies->transfers.why,
        "16384 nodes are too many for parity: what each must know of all takes more "
        "than a message (--dlrover-redundancy)");
    drop_plan();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_come_are_told_of_each_other_once),
        cmocka_unit_test(a_round_tells_each_node_what_concerns_it),
        cmocka_unit_test(too_many_nodes_for_parity_are_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
