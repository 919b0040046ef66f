/* SPDX-License-Identifier: Apache-2.0 */
/* What the other agents ask for and answer; the engine's beginning and end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/policy/election.h"

#define PEERS_MAX 131072
#define STATE_MAX 4096 /* bytes of the policy's state as text */

/* --- what a peer says on our socket ----------------------------------------------- */

static bool misses_supervisor(const struct dlr_agent_succession *su)
{
    return su->election && dlr_election_is_silent(su->election);
}

static void vote(struct dlr_agent_succession *su, const struct dlr_agent_origin *to)
{
    dlr_agent_answer(su->base, to,
                     json_pack("{s:i, s:s, s:I, s:s, s:b}", "v", DLR_MSG_VERSION, "t",
                               "vote", "gen", (json_int_t)su->self->run.gen, "node",
                               su->self->node, "silent", misses_supervisor(su)));
}

/* False when it is none that is told and not answered. */
static bool on_notice(struct dlr_agent_succession *su, const char *node,
                      const json_t *msg, const struct dlr_agent_origin *from)
{
    const char *type = dlr_msg_type(msg);

    if (dlr_streq(type, "silent")) {
        vote(su, from);
        if (su->election)
            dlr_election_vote(su->election, node, true, dlr_now_ms());
        dlr_agent_take_over_lead(su, node);
    } else if (dlr_streq(type, "follow")) {
        dlr_agent_take_over_follow(su, msg);
    } else if (dlr_streq(type, "over") && dlr_agent_in_grace(su)) {
        dlr_agent_grace_over(su);
    } else if (dlr_streq(type, "writing") && dlr_agent_in_grace(su)) {
        su->grace.led_ns = dlr_now_ns();
    } else if (dlr_streq(type, "over") && dlr_streq(node, su->batch)) {
        dlr_agent_end(su->base);
    } else if (dlr_streq(type, "leave") && misses_supervisor(su)) {
        su->given = true;
    } else {
        return false;
    }
    return true;
}

/* A peer may order only what a successor needs, and only while we miss the supervisor
 * too.
 */
static int on_order(struct dlr_agent_succession *su, const char *node,
                    const struct dlr_packet *p, const json_t *msg)
{
    struct dlr_agent_origin from = {.from = DLR_AGENT_PEER, .route = p->from};
    const char *type = dlr_msg_type(msg);
    uint64_t gen;

    if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != su->self->run.gen)
        return -EBADMSG;
    if (on_notice(su, node, msg, &from))
        return 0;
    if (dlr_msg_uint(msg, "id", INT64_MAX, &from.id) < 0)
        return -EBADMSG;
    if (!dlr_agent_in_grace(su) && !misses_supervisor(su)) {
        dlr_agent_done(su->base, &from, -EBUSY, "the supervisor answers here");
        return 0;
    }
    if (dlr_agent_in_grace(su))
        su->grace.led_ns = dlr_now_ns();
    if (dlr_streq(type, "report"))
        su->ops->report(su->arg, &from);
    else if (dlr_streq(type, "persist"))
        dlr_agent_persist(su->snapshots, msg, &from);
    else if (dlr_streq(type, "rebuild"))
        return dlr_agent_rebuild(su->snapshots, msg, &from);
    else if (dlr_streq(type, "send"))
        return dlr_agent_send(su->snapshots, msg, &from);
    else
        return -EBADMSG;
    return 0;
}

void dlr_agent_on_peer(struct dlr_agent_succession *su, const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    const char *node = dlr_agent_peer_of(su->base, p->key);

    if (node && dlr_msg_parse(p->data, p->size, &msg, NULL) == 0)
        on_order(su, node, p, msg); /* a malformed one is dropped */
}

/* --- what it answers on the socket we made to it ---------------------------------- */

static int on_answer(struct dlr_agent_succession *su, const char *node,
                     const json_t *msg)
{
    const char *type = dlr_msg_type(msg), *why = "";
    uint64_t gen, id, rc;

    if (dlr_streq(type, "vote")) {
        const json_t *silent = json_object_get(msg, "silent");

        if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 ||
            gen != su->self->run.gen || !json_is_boolean(silent) || !su->election)
            return -EBADMSG;
        dlr_election_vote(su->election, node, json_is_true(silent), dlr_now_ms());
        return 0;
    }
    if (dlr_streq(type, "report")) {
        dlr_agent_succeed_report(su, node, json_object_get(msg, "report"));
        return 0;
    }
    if (!dlr_streq(type, "done") || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "why", &why);
    dlr_agent_succeed_done(su, id, -(int)rc, why);
    return 0;
}

void dlr_agent_on_peer_answer(struct dlr_agent_succession *su, const char *node,
                              const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_msg_parse(p->data, p->size, &msg, NULL) == 0)
        on_answer(su, node, msg);
}

/* --- who they are ----------------------------------------------------------------- */

static void take_state(struct dlr_agent_succession *su, const json_t *state)
{
    uint64_t places = 0, nodes = 0, world = 0;
    DLR_AUTO_FREE char *text = json_is_object(state) ? dlr_msg_text(state) : NULL;

    if (!text || strlen(text) > STATE_MAX)
        return;
    dlr_msg_uint(state, "places", PEERS_MAX, &places);
    dlr_msg_uint(state, "nodes", PEERS_MAX, &nodes);
    dlr_msg_uint(state, "world", INT32_MAX, &world);
    su->world = (unsigned)world;
    su->min_nodes = (unsigned)places;
    su->max_nodes = (unsigned)nodes;
}

int dlr_agent_succession_peers(struct dlr_agent_succession *su, const json_t *msg)
{
    const char *batch;

    if (dlr_msg_str(msg, "batch", &batch) < 0 || strlen(batch) >= DLR_AGENT_NODE ||
        dlr_agent_peers_take(su->base, msg) < 0)
        return -EBADMSG;
    dlr_format(su->batch, sizeof(su->batch), "%s", batch);
    take_state(su, json_object_get(msg, "state"));
    dlr_agent_watchdog_peers(su);
    return 0;
}

void dlr_agent_succession_given(struct dlr_agent_succession *su, bool given)
{
    su->given = given;
}

void dlr_agent_succession_stop(struct dlr_agent_succession *su)
{
    dlr_agent_keeper_stop(su);
    dlr_agent_grace_stop(su);
    dlr_agent_succeed_stop(su);
    dlr_agent_take_over_stop(su);
    dlr_agent_watchdog_stop(su);
}

struct dlr_agent_succession *
dlr_agent_succession_new(struct dlr_agent_base *base, const struct dlr_agent_self *self,
                         const struct dlr_agent_round *round,
                         struct dlr_agent_snapshots *snapshots,
                         struct dlr_agent_tasks *tasks,
                         const struct dlr_agent_succession_ops *ops, void *arg)
{
    struct dlr_agent_succession *su = calloc(1, sizeof(*su));

    if (!su)
        return NULL;
    su->base = base;
    su->self = self;
    su->round = round;
    su->snapshots = snapshots;
    su->tasks = tasks;
    su->ops = ops;
    su->arg = arg;
    su->timer = su->probe_fd = su->probe_timer = su->witness_pidfd = -1;
    su->heir.fd = su->heir.pidfd = su->heir.timer = -1;
    su->grace.timer = su->keeper.pidfd = su->keeper.timer = -1;
    return su;
}

struct dlr_agent_succession *dlr_agent_succession_free(struct dlr_agent_succession *su)
{
    if (su) {
        json_decref(su->heir.start);
        json_decref(su->heir.state);
    }
    free(su);
    return NULL;
}
