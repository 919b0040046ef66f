/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/judge/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX (1u << 24)

static const struct dlr_look *look_at(const struct dlr_wait_graph *g, uint32_t rank)
{
    return g->in->ranks[rank].after;
}

static size_t slot_of(const struct dlr_wait_graph *g, uint64_t id)
{
    size_t at = (size_t)((id * 0x9e3779b97f4a7c15u) >> 20) & (g->nslots - 1);

    while (g->slots[at] != DLR_WAIT_NONE && g->groups[g->slots[at]].id != id)
        at = (at + 1) & (g->nslots - 1);
    return at;
}

static void add_group(struct dlr_wait_graph *g, uint64_t id)
{
    const size_t at = slot_of(g, id);

    if (g->slots[at] != DLR_WAIT_NONE)
        return;
    g->slots[at] = g->ngroups;
    g->groups[g->ngroups++] = (struct dlr_wait_group){.id = id, .whole = true};
}

static int find_groups(struct dlr_wait_graph *g)
{
    size_t most = 0;

    for (uint32_t r = 0; r < g->in->n; r++)
        most += g->places[r] == DLR_PLACE_WAITS ? dlr_look_calls(look_at(g, r)) : 0;
    for (g->nslots = 16; g->nslots < 2 * most; g->nslots *= 2)
        ;
    g->slots = calloc(g->nslots, sizeof(*g->slots));
    g->groups = calloc(most + 1, sizeof(*g->groups));
    if (!g->slots || !g->groups)
        return -ENOMEM;
    memset(g->slots, 0xff, g->nslots * sizeof(*g->slots));
    for (uint32_t r = 0; r < g->in->n; r++) {
        const struct dlr_look *look = look_at(g, r);

        if (g->places[r] != DLR_PLACE_WAITS)
            continue;
        for (uint32_t i = 0; i < dlr_look_calls(look); i++)
            if (dlr_call_waits(g->in, look, &look->in[i]))
                add_group(g, look->in[i].comm);
    }
    return 0;
}

/* One that lost count of its operations is known as little as one that is not there; of
 * two sizes one is wrong.
 */
static void add_member(struct dlr_wait_graph *g, uint32_t rank,
                       const struct dlr_look_comm *comm)
{
    const uint32_t at = g->slots[slot_of(g, comm->id)];
    struct dlr_wait_group *group = at == DLR_WAIT_NONE ? NULL : &g->groups[at];

    if (!group)
        return;
    if (group->count == 0)
        group->size = comm->size;
    if (comm->size != group->size || comm->my_rank >= comm->size || comm->lost) {
        group->whole = false;
        group->odd = group->odd || !comm->lost;
        return;
    }
    group->count++;
    g->members[g->nmembers++] = (struct dlr_wait_member){.group = at,
                                                         .rank = rank,
                                                         .number = comm->my_rank,
                                                         .entered = comm->entered,
                                                         .comm = comm};
}

static int find_members(struct dlr_wait_graph *g)
{
    size_t most = 0;

    for (uint32_t r = 0; r < g->in->n; r++)
        if (dlr_look_has_data(look_at(g, r), r))
            most += dlr_look_comms(look_at(g, r));
    if (most >= DLR_WAIT_NONE)
        return -EINVAL;
    g->members = malloc((most + 1) * sizeof(*g->members));
    g->of_rank = malloc((g->in->n + 1) * sizeof(*g->of_rank));
    if (!g->members || !g->of_rank)
        return -ENOMEM;
    for (uint32_t r = 0; r < g->in->n; r++) {
        const struct dlr_look *look = look_at(g, r);

        g->of_rank[r] = g->nmembers;
        for (uint32_t i = 0; dlr_look_has_data(look, r) && i < dlr_look_comms(look);
             i++)
            add_member(g, r, &look->comms[i]);
    }
    g->of_rank[g->in->n] = g->nmembers;
    return 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Most are in order as they come. */
static void sort(struct dlr_wait_graph *g, uint32_t *values, uint32_t n,
                 int (*order)(const void *a, const void *b, void *graph))
{
    uint32_t i = 1;

    while (i < n && order(&values[i - 1], &values[i], g) <= 0)
        i++;
    if (i < n)
        qsort_r(values, n, sizeof(*values), order, g);
}

static int compare_numbers(const void *a, const void *b, void *graph)
{
    const struct dlr_wait_graph *g = graph;
    const struct dlr_wait_member *x = &g->members[*(const uint32_t *)a],
                                 *y = &g->members[*(const uint32_t *)b];

    return x->number != y->number ? compare(x->number, y->number)
                                  : compare(x->rank, y->rank);
}

static int compare_entered(const void *a, const void *b, void *graph)
{
    const struct dlr_wait_graph *g = graph;
    const struct dlr_wait_member *x = &g->members[*(const uint32_t *)a],
                                 *y = &g->members[*(const uint32_t *)b];

    return x->entered != y->entered ? compare(x->entered, y->entered)
                                    : compare(x->number, y->number);
}

/* From which operation on the member may be why one that all have begun does not end: it
 * does not wait there, or did not at the look before.
 */
static uint64_t idle_from(const struct dlr_wait_graph *g,
                          const struct dlr_wait_member *m)
{
    const struct dlr_look *before = g->in->ranks[m->rank].before;

    if (g->places[m->rank] == DLR_PLACE_WAITS)
        return UINT64_MAX;
    if (g->places[m->rank] != DLR_PLACE_MOVES)
        return m->comm->left;
    for (uint32_t i = 0; i < dlr_look_comms(before); i++)
        if (before->comms[i].id == m->comm->id)
            return before->comms[i].left;
    return 0;
}

static void sort_group(struct dlr_wait_graph *g, struct dlr_wait_group *group)
{
    uint32_t *by_number = &g->by_number[group->first];

    sort(g, by_number, group->count, compare_numbers);
    for (uint32_t i = 1; i < group->count; i++)
        if (g->members[by_number[i]].number == g->members[by_number[i - 1]].number)
            group->odd = true;
    if (group->odd || group->count != group->size)
        group->whole = false;
    memcpy(&g->by_entered[group->first], by_number, group->count * sizeof(*by_number));
    sort(g, &g->by_entered[group->first], group->count, compare_entered);
    group->idle_from = UINT64_MAX;
    for (uint32_t i = 0; i < group->count; i++) {
        struct dlr_wait_member *m = &g->members[g->by_entered[group->first + i]];
        const uint64_t from = idle_from(g, m);

        m->at = i;
        if (from < group->idle_from)
            group->idle_from = from;
    }
}

static int sort_members(struct dlr_wait_graph *g)
{
    uint32_t first = 0;

    g->by_number = malloc((g->nmembers + 1) * sizeof(*g->by_number));
    g->by_entered = malloc((g->nmembers + 1) * sizeof(*g->by_entered));
    if (!g->by_number || !g->by_entered)
        return -ENOMEM;
    for (uint32_t i = 0; i < g->ngroups; i++) {
        g->groups[i].first = first;
        first += g->groups[i].count;
        g->groups[i].count = 0;
    }
    for (uint32_t m = 0; m < g->nmembers; m++) {
        struct dlr_wait_group *group = &g->groups[g->members[m].group];

        g->by_number[group->first + group->count++] = m;
    }
    for (uint32_t i = 0; i < g->ngroups; i++)
        sort_group(g, &g->groups[i]);
    return 0;
}

static const struct dlr_wait_member *member_of(const struct dlr_wait_graph *g,
                                               uint32_t rank, uint32_t group)
{
    for (uint32_t m = g->of_rank[rank]; m < g->of_rank[rank + 1]; m++)
        if (g->members[m].group == group)
            return &g->members[m];
    return NULL;
}

/* The world's number of a communicator's rank. */
static uint32_t world_rank(const struct dlr_wait_graph *g,
                           const struct dlr_wait_group *group, int32_t number)
{
    uint32_t low = 0, high = group->count;

    while (low < high) {
        const uint32_t at = low + (high - low) / 2;
        const struct dlr_wait_member *m = &g->members[g->by_number[group->first + at]];

        if (m->number == (uint32_t)number)
            return m->rank;
        if (m->number < (uint32_t)number)
            low = at + 1;
        else
            high = at;
    }
    return DLR_WAIT_NONE;
}

/* How many of the group have not come to operation `number`. */
static uint32_t count_missing(const struct dlr_wait_graph *g,
                              const struct dlr_wait_group *group, uint64_t number)
{
    uint32_t low = 0, high = group->count;

    while (low < high) {
        const uint32_t at = low + (high - low) / 2;

        if (g->members[g->by_entered[group->first + at]].entered < number)
            low = at + 1;
        else
            high = at;
    }
    return low;
}

/* Of several operations under way the wait may be for any: the first that somebody has
 * not come to counts.
 */
static void wait_in_collective(const struct dlr_wait_graph *g, uint32_t rank,
                               struct dlr_wait *w, const struct dlr_look_call *call)
{
    const struct dlr_wait_group *group = &g->groups[w->group];
    const struct dlr_wait_member *mine = member_of(g, rank, w->group);
    unsigned kinds;

    if (!mine || mine->comm->entered <= mine->comm->left)
        return;
    w->number = mine->comm->left + 1;
    w->for_whom = count_missing(g, group, w->number);
    if (w->for_whom == 0) {
        w->number = mine->comm->entered;
        w->for_whom = count_missing(g, group, w->number);
    }
    kinds = dlr_call_kind(g->in, call->call) | dlr_call_kind(g->in, mine->comm->op);
    w->partly = !group->whole || kinds & DLR_CALL_NEIGHBORS;
    if (w->for_whom > 0)
        w->kind = DLR_WAIT_AMONG;
    else if (group->idle_from < w->number)
        w->kind = DLR_WAIT_INSIDE;
    else if (group->whole)
        w->kind = DLR_WAIT_FLIGHT;
}

/* Whether the peer is in the call that this one needs. */
static enum dlr_fit find_fit(const struct dlr_wait_graph *g, uint32_t rank,
                             const struct dlr_wait *w, const struct dlr_look_call *call,
                             uint32_t peer)
{
    const struct dlr_look *look = look_at(g, peer);
    const struct dlr_wait_member *mine = member_of(g, rank, w->group);
    const int32_t me = mine ? (int32_t)mine->number : DLR_LOOK_NOBODY;
    enum dlr_fit best = DLR_FIT_NOT;

    if (peer == rank || g->places[peer] != DLR_PLACE_WAITS)
        return DLR_FIT_NOT;
    for (uint32_t i = 0; i < dlr_look_calls(look); i++) {
        const struct dlr_look_call *his = &look->in[i];
        enum dlr_fit fit = DLR_FIT_NOT;

        if (his->comm == call->comm && (his->peer == DLR_LOOK_ANY || his->peer == me))
            fit = dlr_call_fits(g->in, call, his);
        best = fit > best ? fit : best;
    }
    return best;
}

static void wait_for_peer(const struct dlr_wait_graph *g, uint32_t rank,
                          struct dlr_wait *w, const struct dlr_look_call *call)
{
    const uint32_t peer = world_rank(g, &g->groups[w->group], call->peer);
    enum dlr_fit fit;

    if (peer == DLR_WAIT_NONE)
        return;
    fit = find_fit(g, rank, w, call, peer);
    w->for_whom = peer;
    w->kind = fit == DLR_FIT_NOT ? DLR_WAIT_PEER : DLR_WAIT_FLIGHT;
    w->partly = fit == DLR_FIT_PERHAPS;
}

static void find_wait(const struct dlr_wait_graph *g, uint32_t rank, struct dlr_wait *w,
                      const struct dlr_look_call *call)
{
    w->used = true;
    w->one_of = dlr_call_kind(g->in, call->call) & DLR_CALL_ONE_OF;
    w->kind = DLR_WAIT_UNKNOWN;
    w->group = g->slots[slot_of(g, call->comm)];
    if (w->group == DLR_WAIT_NONE || !member_of(g, rank, w->group) ||
        g->groups[w->group].odd)
        return;
    if (call->peer == DLR_LOOK_NOBODY)
        wait_in_collective(g, rank, w, call);
    else if (call->peer >= 0)
        wait_for_peer(g, rank, w, call);
    else if (call->peer == DLR_LOOK_ANY) {
        w->partly = !g->groups[w->group].whole;
        w->kind = DLR_WAIT_ANY;
    }
    w->partly = w->partly || dlr_call_kind(g->in, call->call) & DLR_CALL_POLLS;
}

/* A receive from anybody that a send has surely found is on its way. */
static void meet_any(struct dlr_wait_graph *g, uint32_t rank, uint32_t at)
{
    const struct dlr_wait *w = &g->waits[rank * DLR_LOOK_CALLS + at];
    const struct dlr_look_call *call;
    const struct dlr_look *peer;

    if (!w->used || w->kind != DLR_WAIT_FLIGHT || look_at(g, rank)->in[at].peer < 0)
        return;
    call = &look_at(g, rank)->in[at];
    peer = look_at(g, w->for_whom);
    for (uint32_t i = 0; i < dlr_look_calls(peer); i++) {
        struct dlr_wait *other = &g->waits[w->for_whom * DLR_LOOK_CALLS + i];
        const enum dlr_fit fit = dlr_call_fits(g->in, call, &peer->in[i]);

        if (!fit || !other->used || other->kind != DLR_WAIT_ANY ||
            peer->in[i].comm != call->comm)
            continue;
        other->partly = fit == DLR_FIT_PERHAPS ||
                        dlr_call_kind(g->in, peer->in[i].call) & DLR_CALL_POLLS;
        if (fit == DLR_FIT_SURE)
            other->kind = DLR_WAIT_FLIGHT;
    }
}

/* Of several requests in one call some may have ended already, and a call with as many
 * lines as there are may wait for more: no proof. Of which one is enough: one wait.
 */
static void join_requests(const struct dlr_wait_graph *g, struct dlr_wait *of_rank,
                          uint32_t rank, const struct dlr_look *look)
{
    for (uint32_t i = 0; i < dlr_look_calls(look); i++) {
        const struct dlr_look_call *call = &look->in[i];
        uint32_t first = i, n = 0;

        for (uint32_t k = dlr_look_calls(look); k-- > 0;) {
            if (!of_rank[k].used || look->in[k].tid != call->tid)
                continue;
            first = k;
            n++;
            of_rank[i].one_of = of_rank[i].one_of || look->in[k].comm != call->comm ||
                                look->in[k].peer != call->peer;
        }
        of_rank[i].lead = rank * DLR_LOOK_CALLS + i;
        if (dlr_call_kind(g->in, call->call) & DLR_CALL_ONE_OF)
            of_rank[i].lead = rank * DLR_LOOK_CALLS + first;
        else
            of_rank[i].partly |= of_rank[i].one_of || n == DLR_LOOK_CALLS;
    }
}

static int find_waits(struct dlr_wait_graph *g)
{
    g->waits = calloc(g->in->n * DLR_LOOK_CALLS + 1, sizeof(*g->waits));
    if (!g->waits)
        return -ENOMEM;
    for (uint32_t r = 0; r < g->in->n; r++) {
        const struct dlr_look *look = look_at(g, r);
        struct dlr_wait *of_rank = &g->waits[r * DLR_LOOK_CALLS];

        if (g->places[r] != DLR_PLACE_WAITS)
            continue;
        for (uint32_t i = 0; i < dlr_look_calls(look); i++)
            if (dlr_call_waits(g->in, look, &look->in[i]))
                find_wait(g, r, &of_rank[i], &look->in[i]);
        join_requests(g, of_rank, r, look);
    }
    for (uint32_t i = 0; i < g->in->n * DLR_LOOK_CALLS; i++)
        meet_any(g, i / DLR_LOOK_CALLS, i % DLR_LOOK_CALLS);
    return 0;
}

/* Waits with AMONG and ANY by group, those with AMONG by how many they wait for. */
static int compare_waits(const void *a, const void *b, void *graph)
{
    const struct dlr_wait_graph *g = graph;
    const struct dlr_wait *x = &g->waits[*(const uint32_t *)a],
                          *y = &g->waits[*(const uint32_t *)b];

    if (x->group != y->group)
        return compare(x->group, y->group);
    return x->kind != y->kind ? compare(x->kind, y->kind)
                              : compare(x->for_whom, y->for_whom);
}

static int compare_peers(const void *a, const void *b, void *graph)
{
    const struct dlr_wait_graph *g = graph;

    return compare(g->waits[*(const uint32_t *)a].for_whom,
                   g->waits[*(const uint32_t *)b].for_whom);
}

static int sort_waits(struct dlr_wait_graph *g)
{
    const size_t n = g->in->n * DLR_LOOK_CALLS;

    g->in_group = malloc((n + 1) * sizeof(*g->in_group));
    g->to_peer = malloc((n + 1) * sizeof(*g->to_peer));
    if (!g->in_group || !g->to_peer)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const struct dlr_wait *w = &g->waits[i];

        if (w->used && (w->kind == DLR_WAIT_AMONG || w->kind == DLR_WAIT_ANY))
            g->in_group[g->nin_group++] = i;
        else if (w->used && w->kind == DLR_WAIT_PEER)
            g->to_peer[g->nto_peer++] = i;
    }
    sort(g, g->in_group, g->nin_group, compare_waits);
    sort(g, g->to_peer, g->nto_peer, compare_peers);
    for (uint32_t i = g->nin_group; i-- > 0;) {
        const struct dlr_wait *w = &g->waits[g->in_group[i]];
        struct dlr_wait_group *group = &g->groups[w->group];

        if (w->kind == DLR_WAIT_AMONG) {
            group->waits = i;
            group->nwaits++;
        } else {
            group->any = i;
            group->nany++;
        }
    }
    return 0;
}

const uint32_t *dlr_wait_graph_for(const struct dlr_wait_graph *g, uint32_t rank,
                                   size_t *ret_n)
{
    uint32_t low = 0, high = g->nto_peer, end;

    while (low < high) {
        const uint32_t at = low + (high - low) / 2;

        if (g->waits[g->to_peer[at]].for_whom < rank)
            low = at + 1;
        else
            high = at;
    }
    for (end = low; end < g->nto_peer; end++)
        if (g->waits[g->to_peer[end]].for_whom != rank)
            break;
    *ret_n = end - low;
    return &g->to_peer[low];
}

int dlr_wait_graph_init(struct dlr_wait_graph *g, const struct dlr_judge_input *in)
{
    static int (*const parts[])(struct dlr_wait_graph *) = {
        find_groups, find_members, sort_members, find_waits, sort_waits};
    int rc = 0;

    *g = (struct dlr_wait_graph){.in = in};
    if (in->n > RANKS_MAX)
        return -EINVAL;
    g->places = calloc(in->n + 1, 1);
    if (!g->places)
        return -ENOMEM;
    for (uint32_t r = 0; r < in->n; r++)
        g->places[r] = dlr_place_of(in, r);
    for (size_t i = 0; rc >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
        rc = parts[i](g);
    return rc;
}

void dlr_wait_graph_done(struct dlr_wait_graph *g)
{
    free(g->places);
    free(g->waits);
    free(g->groups);
    free(g->members);
    free(g->of_rank);
    free(g->by_number);
    free(g->by_entered);
    free(g->in_group);
    free(g->to_peer);
    free(g->slots);
}
