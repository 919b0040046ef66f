/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/judge/blame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define NO_ROOT UINT32_MAX /* none, or one of the other group of an intercommunicator */

static const struct dlr_wait_member *member_at(const struct dlr_blames *s,
                                               uint32_t group, uint32_t at)
{
    const struct dlr_wait_graph *g = s->g;

    return &g->members[g->by_entered[g->groups[group].first + at]];
}

static const struct dlr_wait *last_among(const struct dlr_blames *s, uint32_t group)
{
    const struct dlr_wait_group *gr = &s->g->groups[group];

    return gr->nwaits ? &s->g->waits[s->g->in_group[gr->waits + gr->nwaits - 1]] : NULL;
}

void dlr_blames_add(struct dlr_blames *s, uint32_t rank, enum dlr_blame blame)
{
    if (!s->blames[rank] || blame < s->blames[rank])
        s->blames[rank] = (uint8_t)blame;
}

void dlr_blames_obstacle(struct dlr_blames *s, uint32_t rank, enum dlr_blame how)
{
    static const enum dlr_blame by_place[] = {
        [DLR_PLACE_DISK] = DLR_BLAME_DISK,
        [DLR_PLACE_TRACED] = DLR_BLAME_TRACED,
        [DLR_PLACE_STOPPED] = DLR_BLAME_STOPPED,
        [DLR_PLACE_LEFT] = DLR_BLAME_LEFT,
    };
    const enum dlr_place place = s->g->places[rank];

    if (place >= DLR_PLACE_BUSY)
        dlr_blames_add(s, rank, place == DLR_PLACE_BUSY ? how : by_place[place]);
}

/* Whether two members differ in what all must agree on. */
static int compare_calls(const struct dlr_blames *s, const struct dlr_look_comm *a,
                         const struct dlr_look_comm *b)
{
    if (s->by_call && a->op != b->op)
        return a->op < b->op ? -1 : 1;
    if (s->by_root && a->root != b->root)
        return a->root < b->root ? -1 : 1;
    if (s->by_size && a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return 0;
}

static int compare_members(const void *a, const void *b, void *blames)
{
    const struct dlr_blames *s = blames;

    return compare_calls(s, s->g->members[*(const uint32_t *)a].comm,
                         s->g->members[*(const uint32_t *)b].comm);
}

/* Where the members end that have called as the one at `from` has. */
static uint32_t end_of_alike(const struct dlr_blames *s, const uint32_t *members,
                             uint32_t from, uint32_t n)
{
    uint32_t to = from + 1;

    while (to < n && !compare_members(&members[from], &members[to], (void *)s))
        to++;
    return to;
}

/* Of n members in the same operation all but those that most agree with; all when no
 * call has a majority. False without memory.
 */
static bool mark_mismatch(struct dlr_blames *s, const uint32_t *members, uint32_t n)
{
    DLR_AUTO_FREE uint32_t *sorted = malloc(n * sizeof(*sorted));
    uint32_t most = 0, with_most = 0, most_at = 0;

    if (!sorted)
        return false;
    memcpy(sorted, members, n * sizeof(*sorted));
    qsort_r(sorted, n, sizeof(*sorted), compare_members, s);
    for (uint32_t i = 0, to; i < n; i = to) {
        to = end_of_alike(s, sorted, i, n);
        with_most = to - i > most ? 1 : with_most + (to - i == most);
        most_at = to - i > most ? i : most_at;
        most = to - i > most ? to - i : most;
    }
    for (uint32_t i = 0; i < n; i++)
        if (with_most > 1 || i < most_at || i >= most_at + most)
            dlr_blames_add(s, s->g->members[sorted[i]].rank, DLR_BLAME_MISMATCH);
    return true;
}

static bool is_inside(const struct dlr_blames *s, const struct dlr_wait_member *m)
{
    return s->g->places[m->rank] == DLR_PLACE_WAITS && m->comm->entered > m->comm->left;
}

/* Where the members end that are in the operation of the one at `from`; what of it all of
 * them have said.
 */
static uint32_t end_of_operation(struct dlr_blames *s, uint32_t group, uint32_t from)
{
    const uint64_t number = member_at(s, group, from)->entered;
    uint32_t to = from;

    s->by_call = s->by_root = s->by_size = true;
    while (to < s->g->groups[group].count &&
           member_at(s, group, to)->entered == number) {
        const struct dlr_look_comm *comm = member_at(s, group, to++)->comm;

        s->by_call = s->by_call && comm->op != 0;
        s->by_root = s->by_root && comm->root != NO_ROOT;
        s->by_size = s->by_size && comm->type != 0;
    }
    return to;
}

/* In each operation of the group in which somebody stands. */
static bool find_mismatch(struct dlr_blames *s, uint32_t group)
{
    const struct dlr_wait_group *gr = &s->g->groups[group];
    const uint32_t *members = &s->g->by_entered[gr->first];

    for (uint32_t i = 0, to; i < gr->count && !gr->odd; i = to) {
        const struct dlr_look_comm *comm = member_at(s, group, i)->comm;
        bool inside = false, differs = false;

        to = end_of_operation(s, group, i);
        for (uint32_t k = i; k < to; k++) {
            const struct dlr_wait_member *m = member_at(s, group, k);

            inside = inside || is_inside(s, m);
            differs = differs || compare_calls(s, comm, m->comm) != 0;
        }
        if (inside && differs && comm->entered > 0 &&
            !mark_mismatch(s, &members[i], to - i))
            return false;
    }
    return true;
}

/* Whether the rank is in a call of the group that is the operation itself, no wait for
 * one, and has ended all before it.
 */
static bool is_held(const struct dlr_blames *s, const struct dlr_wait_member *m)
{
    const struct dlr_look *look = s->g->in->ranks[m->rank].after;

    if (!is_inside(s, m) || m->comm->entered != m->comm->left + 1)
        return false;
    for (uint32_t i = 0; i < DLR_LOOK_CALLS; i++)
        if (s->g->waits[m->rank * DLR_LOOK_CALLS + i].used &&
            look->in[i].comm == m->comm->id && look->in[i].peer == DLR_LOOK_NOBODY &&
            look->in[i].call == m->comm->op)
            return true;
    return false;
}

/* Who has come further and has not ended what holds the others has begun something else
 * in its place: only the last operation of each is known.
 */
static void mark_ahead(struct dlr_blames *s, uint32_t group)
{
    uint64_t held = UINT64_MAX;

    for (uint32_t i = 0; i < s->g->groups[group].count; i++) {
        const struct dlr_wait_member *m = member_at(s, group, i);

        if (held == UINT64_MAX && is_held(s, m))
            held = m->comm->entered;
        if (m->comm->entered > held && m->comm->left < held)
            dlr_blames_add(s, m->rank, DLR_BLAME_AHEAD);
    }
}

static bool may_answer(const struct dlr_blames *s, uint32_t group)
{
    for (uint32_t i = 0; i < s->g->groups[group].count; i++)
        if (s->g->places[member_at(s, group, i)->rank] < DLR_PLACE_WAITS)
            return true;
    return false;
}

/* For receives from anybody: those of the group that stand, or those that have left. */
static void mark_any(struct dlr_blames *s, uint32_t group, bool left,
                     enum dlr_blame how)
{
    const struct dlr_wait_group *gr = &s->g->groups[group];

    if (!gr->nany || !gr->whole || may_answer(s, group))
        return;
    for (uint32_t i = 0; i < gr->count; i++) {
        const uint32_t rank = member_at(s, group, i)->rank;

        if (left && s->g->places[rank] == DLR_PLACE_LEFT)
            dlr_blames_add(s, rank, how);
        else if (!left && s->g->places[rank] != DLR_PLACE_LEFT)
            dlr_blames_obstacle(s, rank, how);
    }
}

static void mark_group(struct dlr_blames *s, uint32_t group)
{
    const struct dlr_wait *last = last_among(s, group);

    for (uint32_t i = 0; last && i < last->for_whom; i++)
        dlr_blames_obstacle(s, member_at(s, group, i)->rank, DLR_BLAME_NOT_ENTERED);
    for (uint32_t i = 0; i < s->g->groups[group].count; i++)
        if (member_at(s, group, i)->comm->left < s->inside[group])
            dlr_blames_obstacle(s, member_at(s, group, i)->rank, DLR_BLAME_NOT_WAITED);
    mark_ahead(s, group);
    mark_any(s, group, false, DLR_BLAME_ANY_PEER);
}

/* Whether another request of the call may be the one that is missing. */
static bool has_way_out(const struct dlr_blames *s, uint32_t wait)
{
    const uint32_t from = wait - wait % DLR_LOOK_CALLS;

    for (uint32_t i = from; i < from + DLR_LOOK_CALLS; i++) {
        const struct dlr_wait *w = &s->g->waits[i];

        if (i == wait || !w->used || w->lead != s->g->waits[wait].lead)
            continue;
        if (w->kind != DLR_WAIT_PEER || s->g->places[w->for_whom] < DLR_PLACE_WAITS)
            return true;
    }
    return false;
}

/* A request to one that has left may have ended before, where the call has others. */
static void mark_peer(struct dlr_blames *s, uint32_t wait)
{
    const struct dlr_wait *w = &s->g->waits[wait];

    if (w->one_of && w->partly && s->g->places[w->for_whom] == DLR_PLACE_LEFT)
        return;
    if (!has_way_out(s, wait))
        dlr_blames_obstacle(s, w->for_whom,
                            w->one_of ? DLR_BLAME_ANY_PEER : DLR_BLAME_PEER);
}

static int mark_obstacles(struct dlr_blames *s)
{
    const struct dlr_wait_graph *g = s->g;

    for (uint32_t i = 0; i < s->n * DLR_LOOK_CALLS; i++) {
        const struct dlr_wait *w = &g->waits[i];

        if (w->used && w->kind == DLR_WAIT_PEER)
            mark_peer(s, i);
        if (w->used && w->kind == DLR_WAIT_INSIDE && w->number > s->inside[w->group])
            s->inside[w->group] = w->number;
    }
    for (uint32_t i = 0; i < g->ngroups; i++) {
        if (!find_mismatch(s, i))
            return -ENOMEM;
        mark_group(s, i);
    }
    return 0;
}

/* All of its calls are seen, it is its first thread that waits, and none of them is a
 * message: a request begun before may be the other end of one, and is on no page.
 */
static bool is_plain(const struct dlr_blames *s, uint32_t rank)
{
    const struct dlr_look *look = s->g->in->ranks[rank].after;

    for (uint32_t i = 0; i < DLR_LOOK_CALLS; i++) {
        const struct dlr_wait *w = &s->g->waits[rank * DLR_LOOK_CALLS + i];

        if (w->used && (w->kind == DLR_WAIT_PEER || w->kind == DLR_WAIT_ANY ||
                        !dlr_call_is_main(look, &look->in[i])))
            return false;
    }
    return look->pid != 0 && look->more_calls == 0;
}

/* Whether those that hold each other are to be named: without proof not before all of
 * them stand for too long, since a message may be on its way.
 */
static bool is_deadlock(struct dlr_blames *s, const uint8_t *held)
{
    bool late = true;

    for (uint32_t r = 0; r < s->n; r++) {
        if (held[r] != DLR_HELD_EACH_OTHER)
            continue;
        s->proven = s->proven && is_plain(s, r);
        late = late && dlr_rank_is_late(s->g->in, r);
    }
    return s->proven || late;
}

/* Of those that can never go on some receive from anybody: who has left is missed there
 * as much as who is held.
 */
static void mark_left(struct dlr_blames *s, const uint8_t *held, enum dlr_blame how)
{
    for (uint32_t i = 0; i < s->g->ngroups; i++) {
        const struct dlr_wait_group *gr = &s->g->groups[i];
        bool missed = false;

        for (uint32_t k = 0; k < gr->nany; k++)
            missed = missed || held[s->g->in_group[gr->any + k] / DLR_LOOK_CALLS];
        if (missed)
            mark_any(s, i, true, how);
    }
}

static int mark_deadlock(struct dlr_blames *s)
{
    DLR_AUTO_FREE uint8_t *held = malloc(s->n + 1);
    bool strict;
    uint32_t each_other = 0;
    int rc = held ? dlr_wait_graph_deadlock(s->g, held, &strict) : -ENOMEM;

    if (rc < 0)
        return rc;
    if (!is_deadlock(s, held))
        return 0;
    for (uint32_t r = 0; r < s->n; r++) {
        if (held[r] != DLR_HELD_EACH_OTHER)
            continue;
        dlr_blames_add(s, r, DLR_BLAME_DEADLOCK);
        each_other++;
    }
    if (!strict)
        mark_left(s, held, each_other ? DLR_BLAME_DEADLOCK : DLR_BLAME_LEFT);
    return 0;
}

int dlr_blames_find(struct dlr_blames *s)
{
    int rc = mark_obstacles(s);

    return rc < 0 ? rc : mark_deadlock(s);
}
