/* SPDX-License-Identifier: Apache-2.0 */
/* What can never go on: first all that can is taken away, backwards from those that wait
 * for nobody; then of the rest those for which nobody of the rest waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "watch/judge/wait_graph.h"

#define FREE 1
#define BEHIND 2

/* Of a group while ranks are taken away. */
struct level {
    uint32_t done;  /* so many leading members can go on; then: wait for each other */
    uint32_t waits; /* of its waits so many are over; then: so many are left */
    uint32_t any;   /* the same of its waits for anybody */
};

struct search {
    const struct dlr_wait_graph *g;
    uint8_t *can;  /* FREE: the rank goes on; BEHIND: of the rest, nobody's obstacle */
    uint8_t *over; /* of each wait */
    uint8_t *open; /* of each rank: waits that are not over */
    uint32_t *to_peer; /* of each rank: waits of the rest with PEER for it */
    uint32_t *queue, nqueue, next;
    bool strict; /* only waits that no other rank can end */
    struct level *levels;
};

static void go_on(struct search *s, uint32_t rank, uint8_t how)
{
    if (s->can[rank])
        return;
    s->can[rank] = how;
    s->queue[s->nqueue++] = rank;
}

static void end_wait(struct search *s, uint32_t wait)
{
    const uint32_t lead = s->g->waits[wait].lead, rank = lead / DLR_LOOK_CALLS;

    if (s->over[lead])
        return;
    s->over[lead] = 1;
    if (--s->open[rank] == 0)
        go_on(s, rank, FREE);
}

/* A member of the group goes on. One that has left is no longer anybody's "any". */
static void free_group(struct search *s, uint32_t at, bool left)
{
    const struct dlr_wait_graph *g = s->g;
    const struct dlr_wait_group *group = &g->groups[at];
    struct level *level = &s->levels[at];

    for (; !left && level->any < group->nany; level->any++)
        end_wait(s, g->in_group[group->any + level->any]);
    while (level->done < group->count &&
           s->can[g->members[g->by_entered[group->first + level->done]].rank])
        level->done++;
    for (; level->waits < group->nwaits; level->waits++) {
        const uint32_t wait = g->in_group[group->waits + level->waits];

        if (g->waits[wait].for_whom > level->done)
            break;
        end_wait(s, wait);
    }
}

static void free_waiters(struct search *s, uint32_t rank)
{
    const bool left = s->g->places[rank] == DLR_PLACE_LEFT;
    size_t n;
    const uint32_t *waits = dlr_wait_graph_for(s->g, rank, &n);

    for (size_t i = 0; i < n; i++)
        end_wait(s, waits[i]);
    for (uint32_t m = s->g->of_rank[rank]; m < s->g->of_rank[rank + 1]; m++)
        free_group(s, s->g->members[m].group, left);
}

static bool is_open_ended(const struct dlr_wait *w)
{
    return w->kind == DLR_WAIT_UNKNOWN || w->kind == DLR_WAIT_INSIDE ||
           w->kind == DLR_WAIT_FLIGHT || w->partly;
}

static void find_free(struct search *s)
{
    const struct dlr_wait_graph *g = s->g;
    const uint32_t n = (uint32_t)g->in->n;

    for (uint32_t i = 0; i < n * DLR_LOOK_CALLS; i++)
        if (g->waits[i].used && g->waits[i].lead == i)
            s->open[i / DLR_LOOK_CALLS]++;
    for (uint32_t r = 0; r < n; r++)
        if (g->places[r] != DLR_PLACE_WAITS)
            go_on(s, r, FREE);
    for (uint32_t i = 0; i < n * DLR_LOOK_CALLS; i++)
        if (g->waits[i].used && is_open_ended(&g->waits[i]))
            end_wait(s, i);
    while (s->next < s->nqueue)
        free_waiters(s, s->queue[s->next++]);
}

static bool is_left(const struct search *s, uint32_t wait)
{
    const struct dlr_wait *w = &s->g->waits[wait];

    return w->used && !s->over[w->lead] && !s->can[wait / DLR_LOOK_CALLS] &&
           !(s->strict && (w->one_of || w->kind == DLR_WAIT_ANY));
}

static bool waits_for_any(const struct search *s, uint32_t rank, uint32_t group)
{
    for (uint32_t i = 0; i < DLR_LOOK_CALLS; i++) {
        const uint32_t wait = rank * DLR_LOOK_CALLS + i;

        if (is_left(s, wait) && s->g->waits[wait].kind == DLR_WAIT_ANY &&
            s->g->waits[wait].group == group)
            return true;
    }
    return false;
}

/* Whether another of the rest waits for it; one that waits for itself does, too. */
static bool is_obstacle(const struct search *s, uint32_t rank)
{
    const struct dlr_wait_graph *g = s->g;

    if (s->to_peer[rank] > 0)
        return true;
    for (uint32_t m = g->of_rank[rank]; m < g->of_rank[rank + 1]; m++) {
        const struct level *level = &s->levels[g->members[m].group];

        if (g->members[m].at < level->done)
            return true;
        if (level->any > 1 ||
            (level->any == 1 && g->groups[g->members[m].group].count == 1) ||
            (level->any == 1 && !waits_for_any(s, rank, g->members[m].group)))
            return true;
    }
    return false;
}

static void review(struct search *s, uint32_t rank)
{
    if (!s->can[rank] && !is_obstacle(s, rank))
        go_on(s, rank, BEHIND);
}

static void review_group(struct search *s, const struct dlr_wait_group *group,
                         uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        review(s, s->g->members[s->g->by_entered[group->first + i]].rank);
}

/* Sets how far the waits of the rest in the group reach. */
static void lower(struct search *s, uint32_t at)
{
    const struct dlr_wait_group *group = &s->g->groups[at];
    struct level *level = &s->levels[at];
    const uint32_t *waits = &s->g->in_group[group->waits];

    while (level->waits > 0 && !is_left(s, waits[level->waits - 1]))
        level->waits--;
    level->done = level->waits ? s->g->waits[waits[level->waits - 1]].for_whom : 0;
}

static void take_away(struct search *s, uint32_t wait)
{
    const struct dlr_wait *w = &s->g->waits[wait];
    const struct dlr_wait_group *group;
    struct level *level;
    uint32_t before;

    if (!w->used || s->over[w->lead] ||
        (s->strict && (w->one_of || w->kind == DLR_WAIT_ANY)))
        return;
    group = &s->g->groups[w->group];
    level = &s->levels[w->group];
    before = level->done;
    if (w->kind == DLR_WAIT_PEER) {
        s->to_peer[w->for_whom]--;
        review(s, w->for_whom);
    } else if (w->kind == DLR_WAIT_AMONG) {
        lower(s, w->group);
        review_group(s, group, level->done, before);
    } else if (w->kind == DLR_WAIT_ANY && --level->any <= 1) {
        review_group(s, group, 0, group->count);
    }
}

static void start(struct search *s, bool strict)
{
    const struct dlr_wait_graph *g = s->g;
    const uint32_t n = (uint32_t)g->in->n;

    s->strict = strict;
    memset(s->to_peer, 0, n * sizeof(*s->to_peer));
    for (uint32_t i = 0; i < g->ngroups; i++) {
        s->levels[i] = (struct level){.waits = g->groups[i].nwaits};
        lower(s, i);
    }
    for (uint32_t i = 0; i < n * DLR_LOOK_CALLS; i++) {
        if (!is_left(s, i))
            continue;
        s->to_peer[g->waits[i].for_whom] += g->waits[i].kind == DLR_WAIT_PEER;
        s->levels[g->waits[i].group].any += g->waits[i].kind == DLR_WAIT_ANY;
    }
}

/* Whether any are left: these hold each other. When none are, and the search was strict,
 * all is as before.
 */
static bool find_obstacles(struct search *s, bool strict)
{
    const uint32_t n = (uint32_t)s->g->in->n, from = s->nqueue;

    start(s, strict);
    for (uint32_t r = 0; r < n; r++)
        review(s, r);
    while (s->next < s->nqueue) {
        const uint32_t rank = s->queue[s->next++];

        for (uint32_t i = 0; i < DLR_LOOK_CALLS; i++)
            take_away(s, rank * DLR_LOOK_CALLS + i);
    }
    if (s->nqueue < n || !strict)
        return s->nqueue < n;
    while (s->nqueue > from)
        s->can[s->queue[--s->nqueue]] = 0;
    s->next = from;
    return false;
}

int dlr_wait_graph_deadlock(const struct dlr_wait_graph *g, uint8_t *held,
                            bool *ret_strict)
{
    const size_t n = g->in->n;
    DLR_AUTO_FREE uint8_t *can = calloc(n + 1, 1), *open = calloc(n + 1, 1),
                          *over = calloc(n * DLR_LOOK_CALLS + 1, 1);
    DLR_AUTO_FREE uint32_t *queue = calloc(n + 1, sizeof(*queue)),
                           *to_peer = calloc(n + 1, sizeof(*to_peer));
    DLR_AUTO_FREE struct level *levels = calloc(g->ngroups + 1, sizeof(*levels));
    struct search s = {.g = g,
                       .can = can,
                       .over = over,
                       .open = open,
                       .to_peer = to_peer,
                       .queue = queue,
                       .levels = levels};

    if (!can || !open || !over || !queue || !to_peer || !levels)
        return -ENOMEM;
    find_free(&s);
    *ret_strict = find_obstacles(&s, true);
    if (!*ret_strict)
        find_obstacles(&s, false);
    for (size_t r = 0; r < n; r++)
        held[r] = can[r] == FREE     ? DLR_HELD_NOT
                  : can[r] == BEHIND ? DLR_HELD_BY_OTHERS
                                     : DLR_HELD_EACH_OTHER;
    return 0;
}
