/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a job with many nodes: what the supervisor sends and makes for each agent that says hello. All of it
 * but its main program and the sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/sup.h"

#define MAX_NODES 512

static struct dlr_sup s;
static char text[512]; /* the next message, from this node */
static unsigned heard_from;
static struct {
    uint64_t bytes; /* of lists of members */
    unsigned sent;  /* lists, to all */
    unsigned texts; /* made of them */
    const void *text;
} lists;

void dlr_sup_watch(struct dlr_sup *sup, struct dlr_proc *proc, zloop_fn *fn)
{
}
void dlr_sup_unwatch(struct dlr_sup *sup, struct dlr_proc *proc)
{
}

int __wrap_dlr_server_recv(struct dlr_server *server, struct dlr_packet *ret);
int __wrap_dlr_server_recv(struct dlr_server *server, struct dlr_packet *ret)
{
    *ret = (struct dlr_packet){.data = text, .size = strlen(text)};
    ret->from.size = sizeof(heard_from);
    memcpy(ret->from.id, &heard_from, sizeof(heard_from));
    dlr_format(ret->key, sizeof(ret->key), "key%u", heard_from);
    zmq_msg_init(&ret->msg_);
    return 1;
}

static int sent(const void *data, size_t size, bool made)
{
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
    struct dlr_commit_conf cc = {.decide_ms = 1000};
    char *names[MAX_NODES];
    struct dlr_err err;

    memset(&s, 0, sizeof(s));
    memset(&lists, 0, sizeof(lists));
    dlr_jobconf_init(&s.conf);
    s.state_fd = s.say_fd = s.rendezvous_out = s.rendezvous_log = -1;
    s.id.gen = 1;
    for (unsigned i = 0; i < n; i++)
        assert_true(asprintf(&names[i], "n%05u", i) > 0);
    assert_int_equal(dlr_members_new(names, n, &s.members, &err), 0);
    for (unsigned i = 0; i < n; i++) {
        dlr_format(s.members.list[i].key, DLR_KEY_TEXT, "key%u", i);
        free(names[i]);
    }
    assert_int_equal(dlr_policy_new(&pc, &ops, &s, &s.policy, &err), 0);
    assert_int_equal(dlr_commit_new(&cc, &dlr_sup_commit_ops, &s, &s.commit, &err), 0);
    dlr_policy_start(s.policy, dlr_sup_now());
}

static void end(void)
{
    dlr_sup_peers_stop(&s);
    dlr_policy_free(s.policy);
    dlr_commit_free(s.commit);
    dlr_members_done(&s.members);
}

static void hello(unsigned node)
{
    heard_from = node;
    assert_int_equal(
        dlr_format(
            text, sizeof(text),
            "{\"v\":1,\"t\":\"hello\",\"node\":\"n%05u\",\"boot\":\"b\","
            "\"topo\":\"s0.n%05u\",\"addr\":\"10.0.0.1:40000\",\"key\":\"%040u\","
            "\"data\":\"00\",\"cpus\":2}",
            node, node, node),
        0);
    assert_int_equal(dlr_sup_on_message(&s), 1);
}

/* All of them at once: each is told of all others, once; one text for all, not one for each. */
static void all_that_come_are_told_of_each_other_once(void **state)
{
    static const unsigned sizes[] = {8, 64, MAX_NODES};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_come_are_told_of_each_other_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
