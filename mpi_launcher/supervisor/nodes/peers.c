/* SPDX-License-Identifier: Apache-2.0 */
/* What agents are told of each other, for the day the supervisor is gone: one text for
 * all of them, see roster.h.
 */
#include "mpi_launcher/supervisor/nodes/peers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/roster.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

/* members in a message: far below DLR_MSG_MAX with the longest names and addresses */
#define PART 8192u

/* Messages that are sent to many. */
struct texts {
    struct dlr_shared **list;
    unsigned n;
};

struct dlr_sup_peers {
    struct dlr_roster *roster;
    struct texts whole, changes;
};

static void texts_done(struct texts *t)
{
    for (unsigned i = 0; i < t->n; i++)
        dlr_shared_free(t->list[i]);
    free(t->list);
    *t = (struct texts){0};
}

static size_t texts_add(struct texts *t, const json_t *msg)
{
    struct dlr_shared **more = realloc(t->list, (t->n + 1) * sizeof(*more));

    if (!more)
        return 0;
    t->list = more;
    more[t->n] = dlr_shared_new(msg);
    return more[t->n] ? dlr_shared_size(more[t->n++]) : 0;
}

/* What every such message says beside members. */
static json_t *head(struct dlr_sup_nodes *nodes, bool whole)
{
    json_t *msg = dlr_msg_new("peers");

    if (whole)
        json_object_set_new(msg, "whole", json_true());
    json_object_set_new(msg, "batch", json_string(nodes->batch));
    nodes->ops->beside(nodes->arg, msg);
    return msg;
}

static json_t *row_of(const struct dlr_member *m)
{
    return json_pack("[s,s,s,s*]", m->node.name, m->addr, m->peer_key, m->hosts);
}

/* Members number *next and on, PART of them at most; of NULL: of all. */
static size_t add_part(struct dlr_sup_nodes *nodes, struct texts *to,
                       const unsigned *of, unsigned n, unsigned *next, bool whole)
{
    DLR_AUTO_JSON json_t *msg = head(nodes, whole && *next == 0);
    json_t *rows = json_array(), *gone = json_array();

    for (; *next < n && json_array_size(rows) + json_array_size(gone) < PART; ++*next) {
        const struct dlr_member *m = &nodes->members.list[of ? of[*next] : *next];

        if (m->here)
            json_array_append_new(rows, row_of(m));
        else if (of)
            json_array_append_new(gone, json_string(m->node.name));
    }
    json_object_set_new(msg, "peers", rows);
    json_object_set_new(msg, "gone", gone);
    return texts_add(to, msg);
}

static size_t make(struct dlr_sup_nodes *nodes, struct texts *to, const unsigned *of,
                   unsigned n, bool whole)
{
    size_t size = 0, part;
    unsigned next = 0;

    texts_done(to);
    do {
        part = add_part(nodes, to, of, n, &next, whole);
        size += part;
    } while (part && next < n);
    return part ? size : 0;
}

static size_t make_whole(void *arg)
{
    struct dlr_sup_nodes *nodes = arg;

    return make(nodes, &nodes->peers->whole, NULL, nodes->members.n, true);
}

static bool make_changes(void *arg, const unsigned *of, unsigned n)
{
    struct dlr_sup_nodes *nodes = arg;

    return make(nodes, &nodes->peers->changes, of, n, false) > 0;
}

static bool send_texts(struct dlr_sup_nodes *nodes, const struct texts *t,
                       unsigned node)
{
    for (unsigned i = 0; i < t->n; i++)
        if (dlr_sup_outbox_send_shared(nodes->env.io, &nodes->members.list[node].route,
                                       t->list[i]) < 0)
            return false;
    return true;
}

static bool send_whole(void *arg, unsigned node)
{
    struct dlr_sup_nodes *nodes = arg;

    return send_texts(nodes, &nodes->peers->whole, node);
}

static bool send_changes(void *arg, unsigned node)
{
    struct dlr_sup_nodes *nodes = arg;

    return send_texts(nodes, &nodes->peers->changes, node);
}

static struct dlr_roster *roster(struct dlr_sup_nodes *nodes)
{
    static const struct dlr_roster_ops ops = {.make_whole = make_whole,
                                              .make_changes = make_changes,
                                              .send_whole = send_whole,
                                              .send_changes = send_changes};

    if (!nodes->peers)
        nodes->peers = calloc(1, sizeof(*nodes->peers));
    if (nodes->peers && !nodes->peers->roster)
        nodes->peers->roster = dlr_roster_new(nodes->members.n, &ops, nodes);
    return nodes->peers ? nodes->peers->roster : NULL;
}

static void published(struct dlr_sup_nodes *nodes, bool changed)
{
    if (changed)
        nodes->ops->published(nodes->arg);
}

void dlr_sup_peers_came(struct dlr_sup_nodes *nodes, unsigned node)
{
    if (!roster(nodes))
        return;
    dlr_roster_came(nodes->peers->roster, node, dlr_sup_now());
    dlr_sup_peers_tick(nodes, dlr_sup_now());
}

void dlr_sup_peers_went(struct dlr_sup_nodes *nodes, unsigned node)
{
    if (roster(nodes))
        dlr_roster_went(nodes->peers->roster, node, dlr_sup_now());
}

void dlr_sup_send_peers(struct dlr_sup_nodes *nodes)
{
    if (!roster(nodes))
        return;
    dlr_roster_touch(nodes->peers->roster, dlr_sup_now());
    published(nodes, dlr_roster_flush(nodes->peers->roster, dlr_sup_now()));
}

void dlr_sup_peers_tick(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    if (nodes->peers)
        published(nodes, dlr_roster_tick(nodes->peers->roster, now_ms));
}

void dlr_sup_peers_known(struct dlr_sup_nodes *nodes, unsigned node)
{
    if (!nodes->peers)
        return;
    dlr_roster_confirm(nodes->peers->roster, node);
    dlr_sup_peers_tick(nodes, dlr_sup_now());
}

void dlr_sup_peers_stop(struct dlr_sup_nodes *nodes)
{
    if (!nodes->peers)
        return;
    dlr_roster_free(nodes->peers->roster);
    texts_done(&nodes->peers->whole);
    texts_done(&nodes->peers->changes);
    free(nodes->peers);
    nodes->peers = NULL;
}
