/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/wire/group_beats.h"

#define NODES_MAX 131072
#define DOUBT 2     /* unanswered beats: the next goes to the supervisor as well */
#define GIVE_UP 5   /* unanswered beats: the collector is left */
#define TRY_MS 5000 /* a collector that was left is tried again */
#define OWN_MS                                                                         \
    30000        /* a beat to the supervisor, so that firewalls keep our way to it */
#define ON_WAY 8 /* frames that the supervisor may have to answer */

/* A node whose beats come here. */
struct member {
    bool known, fresh; /* fresh: its newest beat has not gone yet */
    struct dlr_route route;
    uint32_t seq;
    uint64_t sent_ns;
    struct dlr_group_beat beat;
};

/* What a frame had, for its answer. */
struct frame {
    uint32_t seq;
    unsigned n; /* 0: none, or answered */
    struct dlr_heartbeat lease[DLR_GROUP_NODES];
    unsigned char from[DLR_GROUP_NODES];
};

struct dlr_agent_group {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    /* Our own beats: */
    char collector[DLR_AGENT_NODE]; /* "": none */
    uint32_t node, ticket;
    bool used;               /* it has answered: beats go there alone */
    unsigned waiting;        /* beats that it has not answered */
    int64_t try_ms, sent_ms; /* not before; a beat went to the supervisor */
    /* Those of others: */
    struct member members[DLR_GROUP_NODES]; /* by their numbers */
    struct frame frames[ON_WAY];
    uint32_t seq, answered_seq, held; /* as of lease.c */
};

/* --- this node's own beats --------------------------------------------------------- */

int dlr_agent_group_welcome(struct dlr_agent_group *g, const json_t *group)
{
    uint64_t node, ticket;
    const char *collector;

    g->collector[0] = '\0';
    g->used = false;
    g->waiting = 0;
    g->try_ms = 0;
    if (!group)
        return 0;
    if (dlr_msg_str(group, "collector", &collector) < 0 ||
        dlr_msg_uint(group, "node", NODES_MAX, &node) < 0 ||
        dlr_msg_uint(group, "ticket", UINT32_MAX, &ticket) < 0 ||
        dlr_streq(collector, g->self->node))
        return -EBADMSG;
    g->node = (uint32_t)node;
    g->ticket = (uint32_t)ticket;
    return dlr_format(g->collector, sizeof(g->collector), "%s", collector) < 0
               ? -EBADMSG
               : 0;
}

static bool send_it(struct dlr_agent_group *g, const struct dlr_heartbeat *beat)
{
    struct dlr_group_beats one = {.gen = beat->gen,
                                  .seq = beat->seq,
                                  .sent_ns = beat->sent_ns,
                                  .n = 1,
                                  .all[0] = {.node = g->node,
                                             .ticket = g->ticket,
                                             .round = beat->round,
                                             .step_max = beat->step_max}};
    unsigned char buf[DLR_GROUP_BEATS_BYTES];
    size_t size = dlr_group_beats_pack(&one, buf);

    return dlr_agent_peers_send_bytes(g->base, g->collector, buf, size);
}

bool dlr_agent_group_send(struct dlr_agent_group *g, const struct dlr_heartbeat *beat)
{
    int64_t now_ms = dlr_now_ms();
    bool enough;

    if (!g->collector[0] || (!g->used && now_ms < g->try_ms) || !send_it(g, beat))
        return false;
    if (!g->used || g->waiting >= GIVE_UP) {
        g->used = false;
        g->waiting = 0;
        g->try_ms = now_ms + TRY_MS;
        return false;
    }
    enough = g->waiting < DOUBT && now_ms - g->sent_ms < OWN_MS;
    g->waiting++;
    if (!enough)
        g->sent_ms = now_ms;
    return enough;
}

bool dlr_agent_group_is_by(const struct dlr_agent_group *g, const char *node)
{
    return g->collector[0] && dlr_streq(g->collector, node);
}

void dlr_agent_group_answered(struct dlr_agent_group *g)
{
    if (!g->used)
        g->sent_ms = dlr_now_ms();
    g->used = true;
    g->waiting = 0;
}

void dlr_agent_group_refused(struct dlr_agent_group *g)
{
    g->used = false;
    g->waiting = 0;
    g->try_ms = dlr_now_ms() + TRY_MS;
}

/* --- the others' -------------------------------------------------------------------- */

void dlr_agent_group_take(struct dlr_agent_group *g, const struct dlr_packet *packet)
{
    struct dlr_group_beats in;
    struct member *m;

    if (dlr_group_beats_unpack(packet->data, packet->size, &in) < 0 || in.n != 1 ||
        in.gen != g->self->run.gen)
        return;
    m = &g->members[in.all[0].node % DLR_GROUP_NODES];
    if (!m->known || !dlr_route_eq(&m->route, &packet->from)) {
        if (!dlr_agent_peer_of(g->base, packet->key))
            return;
        m->route = packet->from;
        m->known = true;
    }
    m->fresh = true;
    m->seq = in.seq;
    m->sent_ns = in.sent_ns;
    m->beat = in.all[0];
}

static void add(struct frame *f, struct dlr_group_beats *to, const struct member *m,
                unsigned char from)
{
    f->lease[f->n] = (struct dlr_heartbeat){.kind = DLR_LEASE,
                                            .gen = to->gen,
                                            .seq = m->seq,
                                            .sent_ns = m->sent_ns,
                                            .round = m->beat.round};
    f->from[f->n++] = from;
    to->all[to->n++] = m->beat;
}

void dlr_agent_group_flush(struct dlr_agent_group *g)
{
    struct dlr_group_beats out = {.gen = g->self->run.gen};
    struct frame *f = &g->frames[(g->seq + 1) % ON_WAY];
    unsigned char buf[DLR_GROUP_BEATS_BYTES];

    if (!dlr_heartbeat_goes(g->seq - g->answered_seq, g->held,
                            g->self->job.beat.missed)) {
        g->held++;
        return;
    }
    f->n = 0;
    for (unsigned i = 0; i < DLR_GROUP_NODES; i++) {
        if (g->members[i].fresh)
            add(f, &out, &g->members[i], (unsigned char)i);
        g->members[i].fresh = false;
    }
    if (out.n == 0)
        return;
    f->seq = out.seq = ++g->seq;
    g->held = 0;
    dlr_agent_send_supervisor_bytes(g->base, buf, dlr_group_beats_pack(&out, buf));
}

static void refuse(struct dlr_agent_group *g, struct member *m)
{
    struct dlr_group_leases none = {.gen = g->self->run.gen, .seq = m->seq};
    unsigned char buf[DLR_GROUP_LEASES_BYTES];

    m->known = m->fresh = false;
    dlr_group_leases_pack(&none, buf);
    dlr_agent_peer_send_back(g->base, &m->route, buf, sizeof(buf));
}

void dlr_agent_group_leases(struct dlr_agent_group *g, const void *data, size_t size)
{
    unsigned char buf[DLR_HEARTBEAT_BYTES];
    struct dlr_group_leases in;
    struct frame *f;

    if (dlr_group_leases_unpack(data, size, &in) < 0 || in.gen != g->self->run.gen)
        return;
    f = &g->frames[in.seq % ON_WAY];
    if (f->seq != in.seq || f->n == 0)
        return;
    g->answered_seq = in.seq;
    for (unsigned i = 0; i < f->n; i++) {
        struct member *m = &g->members[f->from[i]];

        if (m->known && (in.taken >> i & 1)) {
            f->lease[i].lease_ms = in.lease_ms;
            dlr_heartbeat_pack(&f->lease[i], buf);
            dlr_agent_peer_send_back(g->base, &m->route, buf, sizeof(buf));
        } else if (m->known) {
            refuse(g, m);
        }
    }
    f->n = 0;
}

void dlr_agent_group_refuse_all(struct dlr_agent_group *g)
{
    g->answered_seq = g->seq; /* nothing that went is owed an answer */
    for (unsigned i = 0; i < DLR_GROUP_NODES; i++)
        if (g->members[i].known)
            refuse(g, &g->members[i]);
}

/* ------------------------------------------------------------------------------------ */

struct dlr_agent_group *dlr_agent_group_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self)
{
    struct dlr_agent_group *g = calloc(1, sizeof(*g));

    if (g) {
        g->base = base;
        g->self = self;
    }
    return g;
}

struct dlr_agent_group *dlr_agent_group_free(struct dlr_agent_group *g)
{
    free(g);
    return NULL;
}
