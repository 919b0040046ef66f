/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/policy/election.h"

#define PEERS_MAX 131072
#define STATE_MAX 4096 /* bytes of the policy's state as text */

/* --- what a peer says on our socket ----------------------------------------------------- */

static void vote(struct dlr_agent *a, const struct dlr_agent_origin *to)
{
    bool silent = a->peers.election && dlr_election_is_silent(a->peers.election);

    dlr_agent_answer(a->base, to,
                     json_pack("{s:i, s:s, s:I, s:s, s:b}", "v", DLR_MSG_VERSION, "t",
                               "vote", "gen", (json_int_t)a->self.run.gen, "node",
                               a->self.node, "silent", silent));
}

/* A peer may order only what a successor needs, and only while we miss the supervisor too. */
static int on_order(struct dlr_agent *a, const char *node, const struct dlr_packet *p,
                    const json_t *msg)
{
    struct dlr_agent_origin from = {.from = DLR_AGENT_PEER, .route = p->from};
    const char *type = dlr_msg_type(msg);
    uint64_t gen;

    if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != a->self.run.gen)
        return -EBADMSG;
    if (dlr_streq(type, "silent")) {
        vote(a, &from);
        if (a->peers.election)
            dlr_election_vote(a->peers.election, node, true, dlr_now_ms());
        return 0;
    }
    if (dlr_streq(type, "over") && dlr_agent_in_grace(a)) {
        dlr_agent_grace_over(a);
        return 0;
    }
    if (dlr_streq(type, "writing") && dlr_agent_in_grace(a)) {
        a->grace.led_ns = dlr_now_ns();
        return 0;
    }
    if (dlr_streq(type, "over") && dlr_streq(node, a->peers.batch)) {
        dlr_agent_end(a->base);
        return 0;
    }
    if (dlr_streq(type, "leave") && a->peers.election &&
        dlr_election_is_silent(a->peers.election)) {
        a->given = true;
        return 0;
    }
    if (dlr_msg_uint(msg, "id", INT64_MAX, &from.id) < 0)
        return -EBADMSG;
    if (!dlr_agent_in_grace(a) &&
        (!a->peers.election || !dlr_election_is_silent(a->peers.election))) {
        dlr_agent_done(a->base, &from, -EBUSY, "the supervisor answers here");
        return 0;
    }
    if (dlr_agent_in_grace(a))
        a->grace.led_ns = dlr_now_ns();
    if (dlr_streq(type, "report"))
        dlr_agent_report(a, &from);
    else if (dlr_streq(type, "persist"))
        dlr_agent_persist(a->snapshots, msg, &from);
    else if (dlr_streq(type, "rebuild"))
        return dlr_agent_rebuild(a->snapshots, msg, &from);
    else if (dlr_streq(type, "send"))
        return dlr_agent_send(a->snapshots, msg, &from);
    else
        return -EBADMSG;
    return 0;
}

void dlr_agent_on_peer(struct dlr_agent *a, const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    const char *node = dlr_agent_peer_of(a->base, p->key);

    if (node && dlr_msg_parse(p->data, p->size, &msg, NULL) == 0)
        on_order(a, node, p, msg); /* a malformed one is dropped */
}

/* --- what it answers on the socket we made to it ------------------------------------------- */

static int on_answer(struct dlr_agent *a, const char *node, const json_t *msg)
{
    const char *type = dlr_msg_type(msg), *why = "";
    uint64_t gen, id, rc;

    if (dlr_streq(type, "vote")) {
        const json_t *silent = json_object_get(msg, "silent");

        if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != a->self.run.gen ||
            !json_is_boolean(silent) || !a->peers.election)
            return -EBADMSG;
        dlr_election_vote(a->peers.election, node, json_is_true(silent), dlr_now_ms());
        return 0;
    }
    if (dlr_streq(type, "report")) {
        dlr_agent_succeed_report(a, node, json_object_get(msg, "report"));
        return 0;
    }
    if (!dlr_streq(type, "done") || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "why", &why);
    dlr_agent_succeed_done(a, id, -(int)rc, why);
    return 0;
}

void dlr_agent_on_peer_answer(struct dlr_agent *a, const char *node,
                              const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_msg_parse(p->data, p->size, &msg, NULL) == 0)
        on_answer(a, node, msg);
}

/* --- who they are ----------------------------------------------------------------------- */

static void take_state(struct dlr_agent *a, const json_t *state)
{
    uint64_t places = 0, nodes = 0, world = 0;
    DLR_AUTO_FREE char *text = json_is_object(state) ? dlr_msg_text(state) : NULL;

    if (!text || strlen(text) > STATE_MAX)
        return;
    dlr_msg_uint(state, "places", PEERS_MAX, &places);
    dlr_msg_uint(state, "nodes", PEERS_MAX, &nodes);
    dlr_msg_uint(state, "world", INT32_MAX, &world);
    a->peers.world = (unsigned)world;
    a->peers.min_nodes = (unsigned)places;
    a->peers.max_nodes = (unsigned)nodes;
}

void dlr_agent_peers_set(struct dlr_agent *a, const json_t *msg)
{
    const char *batch;

    if (dlr_msg_str(msg, "batch", &batch) < 0 || strlen(batch) >= DLR_AGENT_NODE ||
        dlr_agent_peers_take(a->base, msg) < 0)
        return;
    dlr_format(a->peers.batch, sizeof(a->peers.batch), "%s", batch);
    take_state(a, json_object_get(msg, "state"));
    dlr_agent_watchdog_peers(a);
    dlr_agent_data_peers(a->data);
    if (json_is_true(json_object_get(msg, "whole")))
        dlr_agent_say(a->base, dlr_msg_new("peers_known"));
}
