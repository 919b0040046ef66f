/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that only parity has is made of what is left of its group: on the node where
 * it will run; when it has none yet, or runs no more, on one that has a part already.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"

#define TERMS 1024 /* 32 of "RANK*COEF " and to spare */

/* What a rank can be made of: the slots, and the members that have them. */
struct parts {
    unsigned n, slot[DLR_PARITY_DATA_MAX];
    int node[DLR_PARITY_DATA_MAX];
};

static void read_parts(const struct dlr_sup_copies *copies,
                       const struct dlr_plan_source *src, struct parts *ret)
{
    char name[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME];

    ret->n = dlr_parity_sets_read_sources(src->where, ret->slot, name);
    for (unsigned i = 0; i < ret->n; i++)
        ret->node[i] = dlr_members_find(copies->members, name[i]);
}

/* Node home learns what to make it of; when it has room, the parts are sent. The
 * transfer's number, 0: it cannot be.
 */
static uint64_t order(struct dlr_sup_copies *copies, const struct dlr_parity_sets *sets,
                      unsigned rank, const struct parts *parts, int home)
{
    unsigned ranks[DLR_PARITY_DATA_MAX];
    char terms[TERMS], text[TERMS + 16];
    struct dlr_transfer *t;
    uint64_t id;

    if (sets->rows == 0 || parts->n != dlr_parity_sets_group(sets, rank, ranks) ||
        dlr_parity_sets_rebuild_terms(sets, rank, parts->slot, terms, sizeof(terms)) <
            0)
        return 0;
    t = dlr_sup_add_transfer(copies, rank, home, home, true);
    if (!t)
        return 0;
    t->rebuild = true;
    id = t->id;
    dlr_format(text, sizeof(text), "%u %s", sets->world, terms);
    dlr_sup_ask(copies, t, "rebuild", (unsigned)home, "terms", text);
    for (unsigned i = 0; i < parts->n; i++) {
        t = dlr_sup_add_transfer(copies, parts->slot[i], parts->node[i], home, true);
        if (!t)
            continue;
        t->of = id;
        t->shard = parts->slot[i] >= sets->world;
    }
    return id;
}

void dlr_sup_rebuild(struct dlr_sup_copies *copies, unsigned rank)
{
    const struct dlr_plan_source *src = &copies->plan->sources[rank];
    int home = dlr_sup_node_of(copies->env.planning,
                               (unsigned)dlr_sup_place_of(copies->env.planning, rank));
    struct parts parts;

    read_parts(copies, src, &parts);
    if (order(copies, &copies->sets, rank, &parts, home))
        dlr_sup_ask_reserve(copies, (unsigned)home, rank, src->bytes);
    else
        dlr_sup_add_transfer(copies, rank, home, home, true); /* its limit ends it */
}

static bool is_lost(void *arg, unsigned rank)
{
    const struct dlr_plan *plan = arg;

    return plan->sources[rank].from == DLR_PLAN_PARITY;
}

uint64_t dlr_sup_rebuild_anywhere(struct dlr_sup_copies *copies,
                                  const struct dlr_plan *plan, unsigned rank)
{
    DLR_CLEANUP(dlr_parity_sets_done) struct dlr_parity_sets sets = {0};
    const struct dlr_plan_source *src = &plan->sources[rank];
    struct parts parts;
    uint64_t id;
    unsigned k;

    if (dlr_sup_world_sets(copies->env.planning, plan->made_by, &sets) < 0)
        return 0;
    read_parts(copies, src, &parts);
    k = dlr_parity_sets_maker(&sets, rank, parts.n, is_lost, (void *)plan);
    id = k < parts.n ? order(copies, &sets, rank, &parts, parts.node[k]) : 0;
    if (id)
        dlr_sup_ask_reserve(copies, (unsigned)parts.node[k], rank, src->bytes);
    return id;
}

/* --- of another number of ranks --------------------------------------------------- */

/* Room as for a copy that is fetched: a slot of its own, which no rank of this round
 * has.
 */
static void ask_room(struct dlr_sup_copies *copies, const struct dlr_transfer *t)
{
    uint64_t bytes = copies->plan->sources[t->rank].bytes;
    json_t *msg = dlr_msg_new("reserve");

    json_object_set_new(msg, "round", json_integer(dlr_policy_round(copies->policy)));
    json_object_set_new(msg, "rank", json_integer(t->rank));
    json_object_set_new(msg, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(msg, "fetch", json_true());
    json_object_set_new(msg, "make", json_true());
    dlr_sup_send(copies->env.nodes, t->to, msg);
}

static unsigned count_lost(const struct dlr_sup_copies *copies,
                           const struct dlr_parity_sets *sets, unsigned rank)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_parity_sets_group(sets, rank, ranks),
                                         lost = 0;

    for (unsigned i = 0; i < n; i++)
        lost += is_lost((void *)copies->plan, ranks[i]);
    return lost;
}

/* On the first node that it falls to, or, tried on so many, on the next. Those of
 * another lost rank of the group are others. -ENOENT: there is none.
 */
static int make(struct dlr_sup_copies *copies, const struct dlr_parity_sets *sets,
                unsigned rank, unsigned tried)
{
    struct dlr_transfer *t;
    struct parts parts;
    unsigned k;

    read_parts(copies, &copies->plan->sources[rank], &parts);
    k = dlr_parity_sets_maker(sets, rank, parts.n, is_lost, (void *)copies->plan);
    k += tried * count_lost(copies, sets, rank);
    t = k < parts.n
            ? dlr_sup_transfer(copies, order(copies, sets, rank, &parts, parts.node[k]))
            : NULL;
    if (!t)
        return -ENOENT;
    t->fetched = true;
    t->tried = tried;
    ask_room(copies, t);
    return 0;
}

/* Not of memory: the next plan takes a file, or an older version. */
static void give_up(struct dlr_sup_copies *copies, const struct dlr_parity_sets *sets,
                    unsigned rank, const char *why)
{
    const struct dlr_version *v = &copies->plan->version;
    unsigned ranks[DLR_PARITY_DATA_MAX];

    dlr_parity_sets_group(sets, rank, ranks);
    for (unsigned row = 0; row < sets->rows; row++)
        dlr_reject_copy(copies, "*", (int)dlr_parity_sets_shard(sets, ranks[0], row),
                        *v);
    dlr_user_line(
        copies->env.io,
        "rank %u of version %u/%llu cannot be made of parity, no node with a part "
        "of it has room: %s",
        rank, v->round, (unsigned long long)v->step, why);
    dlr_sup_transfers_fail(copies, -ENOSPC, "rank %u's copy: %.200s", rank, why);
}

void dlr_sup_rebuild_lost(struct dlr_sup_copies *copies)
{
    DLR_CLEANUP(dlr_parity_sets_done) struct dlr_parity_sets sets = {0};

    for (unsigned r = 0; r < copies->plan->made_by; r++) {
        if (copies->plan->sources[r].from != DLR_PLAN_PARITY)
            continue;
        if (sets.rows == 0 && dlr_sup_world_sets(copies->env.planning,
                                                 copies->plan->made_by, &sets) < 0) {
            dlr_sup_transfers_fail(copies, -ENOMEM, "no memory for sets");
            return;
        }
        if (make(copies, &sets, r, 0) < 0)
            give_up(copies, &sets, r, "its parts are not known");
    }
}

static struct dlr_transfer *find(const struct dlr_sup_copies *copies, unsigned node,
                                 unsigned rank)
{
    for (unsigned i = 0; copies->preparing && i < copies->transfers.n; i++) {
        struct dlr_transfer *t = &copies->transfers.list[i];

        if (t->fetched && t->to == node && t->rank == rank && !t->started && !t->ended)
            return t;
    }
    return NULL;
}

/* It and its parts, without a word. */
static void drop(struct dlr_sup_copies *copies, uint64_t id)
{
    for (unsigned i = 0; i < copies->transfers.n; i++)
        if (copies->transfers.list[i].id == id || copies->transfers.list[i].of == id)
            copies->transfers.list[i].ended = true;
}

bool dlr_sup_rebuild_room(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          int rc, const char *why)
{
    DLR_CLEANUP(dlr_parity_sets_done) struct dlr_parity_sets sets = {0};
    struct dlr_transfer *t = find(copies, node, rank);
    unsigned tried;

    if (!t)
        return false;
    if (rc == 0) {
        dlr_sup_transfer_start(copies, t);
        return true;
    }
    tried = t->tried + 1;
    dlr_journal_note(dlr_sup_journal(copies->env.io), "copy_failed", "s:i,s:s,s:s,s:s",
                     "rank", (int)rank, "from", copies->members->list[node].node.name,
                     "to", copies->members->list[node].node.name, "why", why);
    drop(copies, t->id);
    if (dlr_sup_world_sets(copies->env.planning, copies->plan->made_by, &sets) == 0 &&
        make(copies, &sets, rank, tried) < 0)
        give_up(copies, &sets, rank, why);
    return true;
}

void dlr_sup_rebuild_known(struct dlr_sup_copies *copies)
{
    for (unsigned i = 0; i < copies->transfers.n; i++) {
        const struct dlr_transfer *t = &copies->transfers.list[i];

        if (!t->fetched || !t->started)
            continue;
        /* Of a part rank is a slot's number. Without memory it is still of parity: who
         * wants it is refused, and the round begins anew.
         */
        dlr_sup_plan_source(copies->env.planning, t->rank,
                            copies->members->list[t->to].node.name,
                            copies->plan->sources[t->rank].bytes);
    }
}
