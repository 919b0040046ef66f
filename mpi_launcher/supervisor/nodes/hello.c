/* SPDX-License-Identifier: Apache-2.0 */
/* Who may speak, beats and leases. */
#include "mpi_launcher/supervisor/nodes/hello.h"

#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/wire/group_beats.h"
#include "mpi_launcher/wire/heartbeat.h"

#define WHO_EVERY_MS 1000
#define HELLO_MAX (64u << 10) /* bytes of a message of somebody we do not know */

/* --- who may speak ---------------------------------------------------------------- */

/* One limit for all: unauthenticated peers get no more of our time. It lets each node
 * be asked at once: after a supervisor's death they all come back within their leases.
 */
static void ask_who(struct dlr_sup_nodes *nodes, const struct dlr_route *to)
{
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_sup_now() - nodes->asked_ms >= WHO_EVERY_MS) {
        nodes->asked_ms = dlr_sup_now();
        nodes->asked = 0;
    }
    if (nodes->asked++ >= 2 * nodes->members.n)
        return;
    msg = dlr_msg_new("who");
    dlr_sup_outbox_send_json(nodes->env.io, to, msg);
}

/* In a large job: by whom its beats may go. Not those of the collectors themselves. */
static json_t *group_of(const struct dlr_sup_nodes *nodes, unsigned node)
{
    const struct dlr_job_config *conf = nodes->env.conf;
    const struct dlr_members *m = &nodes->members;
    unsigned first = node - node % DLR_GROUP_NODES;

    if (m->n <= DLR_GROUP_ABOVE || conf->beat.missed < DLR_GROUP_MISSED_MIN ||
        node == first)
        return NULL;
    return json_pack("{s:s, s:I, s:I}", "collector", m->list[first].node.name, "node",
                     (json_int_t)node, "ticket", (json_int_t)m->list[node].ticket);
}

static void welcome(struct dlr_sup_nodes *nodes, unsigned node)
{
    json_t *msg = dlr_msg_new("welcome"), *group = group_of(nodes, node);
    struct dlr_procid keeper;
    char text[DLR_PROCID_TEXT];

    json_object_set_new(msg, "gen", json_integer(nodes->env.id->gen));
    json_object_set_new(msg, "dead_ms",
                        json_integer(dlr_job_config_dead_ms(nodes->env.conf)));
    json_object_set_new(msg, "end_ms", json_integer(nodes->env.conf->end_timeout_ms));
    if (group)
        json_object_set_new(msg, "group", group);
    if (dlr_streq(nodes->members.list[node].node.name, nodes->batch) &&
        dlr_procid_of(nodes->env.keeper, &keeper) == 0) {
        dlr_procid_show(&keeper, text);
        json_object_set_new(msg, "keeper", json_string(text));
    }
    dlr_sup_send(nodes, node, msg);
    nodes->ops->greeted(nodes->arg, node);
}

void dlr_sup_node_up(struct dlr_sup_nodes *nodes, unsigned node)
{
    struct dlr_member *m = &nodes->members.list[node];
    char leaf[DLR_TOPO_NAME] = "";

    m->here = true;
    m->heard_ms = dlr_sup_now();
    dlr_topo_leaf(&m->node, leaf, sizeof(leaf));
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "node_up", "s:s,s:s,s:s,s:s,s:i",
                     "node", m->node.name, "leaf", leaf, "path", m->node.path, "boot",
                     m->boot, "cpus", m->cpus);
    dlr_sup_peers_came(nodes, node);
    nodes->ops->up(nodes->arg, node);
}

static void say_bye(struct dlr_sup_nodes *nodes, const struct dlr_route *to)
{
    DLR_AUTO_JSON json_t *msg = dlr_msg_new("shutdown");

    dlr_sup_outbox_send_json(nodes->env.io, to, msg);
}

/* Its connection has proven the key; that the key is of our user's a credential says,
 * once: munged may be slow or away when the node comes back.
 */
static bool is_proven(struct dlr_sup_nodes *nodes, int node,
                      const struct dlr_packet *packet, const json_t *msg)
{
    char key[DLR_KEY_TEXT];
    struct dlr_err err;
    const char *cred;

    if (node >= 0 && dlr_streq(nodes->members.list[node].key, packet->key))
        return true;
    return dlr_msg_str(msg, "cred", &cred) == 0 &&
           dlr_identity_verify(cred, nodes->env.id, key, &err) == 0 &&
           dlr_streq(key, packet->key);
}

/* Its data process has another address than the one that was told. */
static bool has_moved(const struct dlr_sup_nodes *nodes, int node, const json_t *msg)
{
    const char *now = "", *before = node >= 0 ? nodes->members.list[node].data : NULL;

    dlr_msg_str(msg, "data", &now);
    return !dlr_streq(now, before ? before : "");
}

/* Another process, or another connection: what was sent over the one before may be
 * lost.
 */
static bool is_same(const struct dlr_member *a, const struct dlr_member *b)
{
    return dlr_route_eq(&a->route, &b->route) && dlr_streq(a->addr, b->addr) &&
           dlr_streq(a->peer_key, b->peer_key);
}

static void take_hello(struct dlr_sup_nodes *nodes, const struct dlr_packet *packet,
                       const json_t *msg)
{
    struct dlr_member before = {0};
    struct dlr_err err;
    const char *name;
    bool moved;
    int node = -1;

    if (dlr_msg_str(msg, "node", &name) == 0)
        node = dlr_members_find(&nodes->members, name);
    if (!is_proven(nodes, node, packet, msg)) {
        nodes->auth_failures++;
        return;
    }
    if (nodes->ops->over(nodes->arg)) { /* too late to be of use: it must not stay */
        say_bye(nodes, &packet->from);
        return;
    }
    moved = has_moved(nodes, node, msg);
    if (node >= 0)
        before = nodes->members.list[node]; /* but its data: that is freed */
    node = dlr_members_hello(&nodes->members, msg, packet, dlr_sup_now(), &err);
    if (node < 0)
        return;
    welcome(nodes, node);
    if (!before.here) {
        dlr_sup_node_up(nodes, node);
    } else if (!is_same(&before, &nodes->members.list[node])) {
        dlr_sup_peers_came(nodes, node);
    }
    if (moved)
        nodes->ops->moved(nodes->arg, before.here);
}

/* --- beats ------------------------------------------------------------------------ */

/* A node that was given up speaks again: it comes back as a spare once it is clean. */
static void come_back(struct dlr_sup_nodes *nodes, unsigned node,
                      const struct dlr_packet *packet)
{
    struct dlr_member *m = &nodes->members.list[node];
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_sup_now() - m->heard_ms < WHO_EVERY_MS)
        return;
    m->heard_ms = dlr_sup_now();
    msg = dlr_msg_new("kill");
    json_object_set_new(msg, "round", json_integer(nodes->ops->round(nodes->arg)));
    dlr_sup_outbox_send_json(nodes->env.io, &packet->from, msg);
}

/* It was heard, and has come so far. */
static void note_beat(struct dlr_sup_nodes *nodes, unsigned node, uint32_t round,
                      uint64_t step_max)
{
    struct dlr_member *m = &nodes->members.list[node];

    m->heard_ms = dlr_sup_now();
    if (nodes->ops->behind(nodes->arg, node)) /* its steps are of a former turn */
        step_max = DLR_HEARTBEAT_NO_STEP;
    m->round = round;
    m->step_max = step_max;
    if (step_max != DLR_HEARTBEAT_NO_STEP)
        nodes->ops->progress(nodes->arg, round, step_max, m->heard_ms);
}

static uint32_t lease_ms(const struct dlr_sup_nodes *nodes)
{
    return dlr_sup_is_held() ? DLR_LEASE_HELD
                             : (uint32_t)dlr_job_config_dead_ms(nodes->env.conf);
}

static void take_beat(struct dlr_sup_nodes *nodes, unsigned node,
                      const struct dlr_packet *packet)
{
    unsigned char buf[DLR_HEARTBEAT_BYTES];
    struct dlr_heartbeat beat, lease;

    if (dlr_heartbeat_unpack(packet->data, packet->size, &beat) < 0 ||
        beat.kind != DLR_HEARTBEAT || beat.gen != nodes->env.id->gen)
        return;
    if (!nodes->members.list[node].here) {
        come_back(nodes, node, packet);
        return;
    }
    note_beat(nodes, node, beat.round, beat.step_max);
    lease = (struct dlr_heartbeat){.kind = DLR_LEASE,
                                   .gen = beat.gen,
                                   .seq = beat.seq,
                                   .sent_ns = beat.sent_ns,
                                   .round = beat.round,
                                   .lease_ms = lease_ms(nodes)};
    dlr_heartbeat_pack(&lease, buf);
    dlr_sup_outbox_send(nodes->env.io, &packet->from, buf, sizeof(buf));
}

/* Of its own group, and of the agent that was welcomed there last. Anybody else has to
 * say so itself.
 */
static bool takes(const struct dlr_sup_nodes *nodes, unsigned collector,
                  const struct dlr_group_beat *beat)
{
    const struct dlr_members *m = &nodes->members;

    return beat->node < m->n && m->list[collector].here && m->list[beat->node].here &&
           beat->node / DLR_GROUP_NODES == collector / DLR_GROUP_NODES &&
           beat->ticket == m->list[beat->node].ticket;
}

static void take_group(struct dlr_sup_nodes *nodes, unsigned collector,
                       const struct dlr_packet *packet)
{
    unsigned char buf[DLR_GROUP_LEASES_BYTES];
    struct dlr_group_leases leases;
    struct dlr_group_beats beats;

    if (dlr_group_beats_unpack(packet->data, packet->size, &beats) < 0 ||
        beats.gen != nodes->env.id->gen)
        return;
    leases = (struct dlr_group_leases){
        .gen = beats.gen, .seq = beats.seq, .lease_ms = lease_ms(nodes)};
    for (unsigned i = 0; i < beats.n; i++) {
        const struct dlr_group_beat *beat = &beats.all[i];

        if (!takes(nodes, collector, beat))
            continue;
        note_beat(nodes, beat->node, beat->round, beat->step_max);
        leases.taken |= 1ull << i;
    }
    dlr_group_leases_pack(&leases, buf);
    dlr_sup_outbox_send(nodes->env.io, &packet->from, buf, sizeof(buf));
}

/* --- messages --------------------------------------------------------------------- */

static void take_json(struct dlr_sup_nodes *nodes, const struct dlr_packet *packet)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    struct dlr_err err;
    int node;

    if ((packet->size > HELLO_MAX &&
         dlr_members_by_route(&nodes->members, &packet->from) < 0) ||
        dlr_msg_parse(packet->data, packet->size, &msg, &err) < 0)
        return;
    if (dlr_streq(dlr_msg_type(msg), "hello")) {
        take_hello(nodes, packet, msg);
        return;
    }
    node = dlr_members_by_route(&nodes->members, &packet->from);
    if (node < 0) {
        ask_who(nodes, &packet->from);
        return;
    }
    nodes->ops->message(nodes->arg, (unsigned)node, msg);
}

void dlr_sup_hear(struct dlr_sup_nodes *nodes, const struct dlr_packet *packet)
{
    bool group = dlr_group_beats_is(packet->data, packet->size);
    int node;

    if (!group && !dlr_heartbeat_is(packet->data, packet->size)) {
        take_json(nodes, packet);
        return;
    }
    node = dlr_members_by_route(&nodes->members, &packet->from);
    if (node < 0)
        ask_who(nodes, &packet->from);
    else if (group)
        take_group(nodes, (unsigned)node, packet);
    else
        take_beat(nodes, (unsigned)node, packet);
}
