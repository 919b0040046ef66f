/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/judge/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "watch/judge/blame.h"

#define NOWHERE UINT32_MAX

struct judging {
    const struct dlr_wait_graph *g;
    uint32_t n;
    size_t places[DLR_PLACE_LEFT + 1]; /* how many ranks */
    struct dlr_blames found;
    uint32_t *culprit; /* of each group: the first culprit's place in by_entered */
    uint32_t *waiting; /* of each group: how many wait there because of culprits */
    enum dlr_blame blame;
};

const char *dlr_blame_name(enum dlr_blame blame)
{
    static const char *const names[] = {
        [DLR_BLAME_NOBODY] = "nobody",
        [DLR_BLAME_MISMATCH] = "mismatch",
        [DLR_BLAME_LEFT] = "left",
        [DLR_BLAME_STOPPED] = "stopped",
        [DLR_BLAME_DEADLOCK] = "deadlock",
        [DLR_BLAME_TRACED] = "traced",
        [DLR_BLAME_DISK] = "disk",
        [DLR_BLAME_NOT_ENTERED] = "not entered",
        [DLR_BLAME_NOT_WAITED] = "not waited",
        [DLR_BLAME_AHEAD] = "ahead",
        [DLR_BLAME_PEER] = "peer",
        [DLR_BLAME_ANY_PEER] = "any peer",
        [DLR_BLAME_NETWORK] = "network",
        [DLR_BLAME_UNFINISHED] = "unfinished",
        [DLR_BLAME_BEHIND] = "behind",
        [DLR_BLAME_ALL] = "all",
        [DLR_BLAME_NO_DATA] = "no data",
    };

    return blame <= DLR_BLAME_NO_DATA ? names[blame] : "unknown";
}

/* How many of the rank's calls are in flight, or for whom nothing is known; all of them.
 */
static unsigned count_calls(const struct judging *j, uint32_t rank,
                            unsigned *ret_flight, unsigned *ret_unknown)
{
    unsigned all = 0;

    *ret_flight = *ret_unknown = 0;
    for (uint32_t i = 0; i < DLR_LOOK_CALLS; i++) {
        const struct dlr_wait *w = &j->g->waits[rank * DLR_LOOK_CALLS + i];

        all += w->used;
        *ret_flight += w->used && w->kind == DLR_WAIT_FLIGHT;
        *ret_unknown += w->used && (w->kind == DLR_WAIT_UNKNOWN || w->partly);
    }
    return all;
}

/* Those that stand for too long where all that they wait for has been begun by the
 * others, for sure or as far as it can be said. How many.
 */
static uint32_t mark_network(struct judging *j, bool sure)
{
    uint32_t marked = 0;

    for (uint32_t r = 0; r < j->n; r++) {
        unsigned flight, unknown;

        if (j->g->places[r] != DLR_PLACE_WAITS || !dlr_rank_is_late(j->g->in, r) ||
            count_calls(j, r, &flight, &unknown) != flight || (sure && unknown))
            continue;
        dlr_blames_add(&j->found, r, DLR_BLAME_NETWORK);
        marked++;
    }
    return marked;
}

static bool waits_for_unknown(const struct judging *j)
{
    for (uint32_t r = 0; r < j->n; r++) {
        unsigned flight, unknown;

        if (j->g->places[r] == DLR_PLACE_WAITS && dlr_rank_is_late(j->g->in, r) &&
            count_calls(j, r, &flight, &unknown) && unknown)
            return true;
    }
    return false;
}

/* What is said first of all that is marked. */
static enum dlr_blame least_blame(const struct judging *j)
{
    enum dlr_blame least = DLR_BLAME_NOBODY;

    for (uint32_t r = 0; r < j->n; r++)
        if (j->found.blames[r] && (!least || j->found.blames[r] < least))
            least = j->found.blames[r];
    return least;
}

/* Those of whom no calls are known: who has come least far. */
static enum dlr_blame mark_behind(struct judging *j)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t r = 0; r < j->n; r++) {
        const uint64_t begun = j->g->in->ranks[r].after->step + 1; /* none: 0 */

        least = begun < least ? begun : least;
        most = begun > most ? begun : most;
    }
    if (least == most)
        return DLR_BLAME_ALL;
    for (uint32_t r = 0; r < j->n; r++)
        if (j->g->in->ranks[r].after->step + 1 == least)
            dlr_blames_add(&j->found, r, DLR_BLAME_BEHIND);
    return DLR_BLAME_BEHIND;
}

static enum dlr_blame blame_of_all(struct judging *j)
{
    const size_t *at = j->places;

    if (mark_network(j, true))
        return DLR_BLAME_NETWORK;
    if (at[DLR_PLACE_MOVES] || at[DLR_PLACE_EXCUSED])
        return DLR_BLAME_NOBODY;
    if (at[DLR_PLACE_UNKNOWN])
        return DLR_BLAME_NO_DATA;
    if (mark_network(j, false))
        return DLR_BLAME_NETWORK;
    if (waits_for_unknown(j))
        return DLR_BLAME_NO_DATA;
    if (at[DLR_PLACE_WAITS] || at[DLR_PLACE_LEFT] == j->n)
        return DLR_BLAME_NOBODY;
    if (!at[DLR_PLACE_LEFT])
        return mark_behind(j);
    for (uint32_t r = 0; r < j->n; r++)
        if (j->g->places[r] != DLR_PLACE_LEFT)
            dlr_blames_obstacle(&j->found, r, DLR_BLAME_UNFINISHED);
    return least_blame(j);
}

static bool is_culprit(const struct judging *j, uint32_t rank)
{
    return j->found.blames[rank] && j->found.blames[rank] == (uint8_t)j->blame;
}

static void find_culprits_of_groups(struct judging *j)
{
    for (uint32_t m = 0; m < j->g->nmembers; m++) {
        const struct dlr_wait_member *member = &j->g->members[m];

        if (is_culprit(j, member->rank) && member->at < j->culprit[member->group])
            j->culprit[member->group] = member->at;
    }
}

/* Whether the wait is because of culprits. */
static bool is_because(const struct judging *j, uint32_t rank, const struct dlr_wait *w)
{
    if (!w->used || w->group == DLR_WAIT_NONE || w->kind == DLR_WAIT_UNKNOWN)
        return false;
    if (j->blame == DLR_BLAME_DEADLOCK || j->blame == DLR_BLAME_NETWORK)
        return is_culprit(j, rank);
    if (w->kind == DLR_WAIT_PEER)
        return is_culprit(j, w->for_whom);
    if (w->kind == DLR_WAIT_AMONG)
        return j->culprit[w->group] < w->for_whom;
    return j->culprit[w->group] != NOWHERE;
}

static void count_waiting(struct judging *j)
{
    for (uint32_t i = 0; i < j->n * DLR_LOOK_CALLS; i++)
        if (is_because(j, i / DLR_LOOK_CALLS, &j->g->waits[i]))
            j->waiting[j->g->waits[i].group]++;
}

static void describe_wait(const struct judging *j, uint32_t wait,
                          struct dlr_verdict *ret)
{
    const struct dlr_wait *w = &j->g->waits[wait];
    const struct dlr_look_call *call =
        &j->g->in->ranks[wait / DLR_LOOK_CALLS].after->in[wait % DLR_LOOK_CALLS];

    ret->comm = call->comm;
    ret->number = w->number;
    ret->call = call->call;
    ret->bytes = call->bytes;
}

/* The call in which most wait; of these the one with the lowest number. */
static void describe(struct judging *j, struct dlr_verdict *ret)
{
    uint32_t best = NOWHERE;

    find_culprits_of_groups(j);
    count_waiting(j);
    for (uint32_t i = 0; i < j->n * DLR_LOOK_CALLS; i++) {
        const struct dlr_wait *w = &j->g->waits[i], *b;

        if (!is_because(j, i / DLR_LOOK_CALLS, w))
            continue;
        b = best == NOWHERE ? NULL : &j->g->waits[best];
        if (!b || j->waiting[w->group] > j->waiting[b->group] ||
            (w->group == b->group && w->number < b->number))
            best = i;
    }
    if (best != NOWHERE)
        describe_wait(j, best, ret);
}

static enum dlr_part part_of(const struct judging *j, uint32_t rank)
{
    switch ((enum dlr_place)j->g->places[rank]) {
    case DLR_PLACE_UNKNOWN:
        return DLR_PART_UNKNOWN;
    case DLR_PLACE_MOVES:
        return DLR_PART_MOVES;
    case DLR_PLACE_WAITS:
        return DLR_PART_WAITS;
    default:
        return DLR_PART_BUSY;
    }
}

static void count_parts(const struct judging *j, uint8_t *parts,
                        struct dlr_verdict *ret)
{
    size_t counts[DLR_PART_UNKNOWN + 1] = {0};

    ret->first_step = true;
    for (uint32_t r = j->n; r-- > 0;) {
        const struct dlr_judge_rank *rank = &j->g->in->ranks[r];

        parts[r] = (uint8_t)(is_culprit(j, r) ? DLR_PART_CULPRIT : part_of(j, r));
        counts[parts[r]]++;
        if (j->g->places[r] == DLR_PLACE_WAITS && rank->still_ns > ret->waited_ns)
            ret->waited_ns = rank->still_ns;
        if (parts[r] != DLR_PART_CULPRIT)
            continue;
        ret->first = r;
        ret->first_step = ret->first_step && rank->after->step == UINT64_MAX;
    }
    ret->moves = counts[DLR_PART_MOVES];
    ret->busy = counts[DLR_PART_BUSY];
    ret->waits = counts[DLR_PART_WAITS];
    ret->culprits = counts[DLR_PART_CULPRIT];
    ret->unknown = counts[DLR_PART_UNKNOWN];
    ret->first_step = ret->first_step && ret->culprits > 0;
}

static enum dlr_verdict_kind kind_of(const struct judging *j)
{
    switch (j->blame) {
    case DLR_BLAME_NOBODY:
        return DLR_VERDICT_NONE;
    case DLR_BLAME_NO_DATA:
        return DLR_VERDICT_UNKNOWN;
    case DLR_BLAME_DEADLOCK:
        return j->found.proven ? DLR_VERDICT_STUCK : DLR_VERDICT_STILL;
    default:
        return j->blame <= DLR_BLAME_STOPPED ? DLR_VERDICT_STUCK : DLR_VERDICT_STILL;
    }
}

/* All that can be asked are stopped: so is the job, whatever the caller has heard. */
static bool is_suspended(const struct judging *j)
{
    const size_t stopped = j->places[DLR_PLACE_STOPPED];

    return j->g->in->suspended ||
           (stopped > 0 && stopped + j->places[DLR_PLACE_UNKNOWN] == j->n);
}

static int find_blame(struct judging *j)
{
    int rc = dlr_blames_find(&j->found);

    if (rc < 0)
        return rc;
    j->blame = least_blame(j);
    if (!j->blame)
        j->blame = blame_of_all(j);
    return 0;
}

/* A page may be older than its rank's end: who has just left is no proof. Of one without
 * a time those that wait tell it.
 */
static bool have_stood(const struct judging *j, uint64_t waited_ns)
{
    for (uint32_t r = 0; r < j->n; r++) {
        const struct dlr_judge_rank *rank = &j->g->in->ranks[r];

        if (is_culprit(j, r) && (rank->after->moved_ns ? rank->still_ns : waited_ns) <
                                    dlr_judge_named_ns(rank->limit_ns))
            return false;
    }
    return true;
}

static int judge(struct judging *j, uint8_t *parts, struct dlr_verdict *ret)
{
    struct dlr_verdict v = {0};
    int rc = 0;

    for (uint32_t r = 0; r < j->n; r++)
        j->places[j->g->places[r]]++;
    memset(j->culprit, 0xff, j->g->ngroups * sizeof(*j->culprit));
    if (!is_suspended(j))
        rc = find_blame(j);
    if (rc < 0)
        return rc;
    v.kind = kind_of(j);
    v.blame = j->blame;
    count_parts(j, parts, &v);
    describe(j, &v);
    /* What it sent before it left may be on its way: only a collective needs it. */
    if (v.blame == DLR_BLAME_LEFT && (v.number == 0 || !have_stood(j, v.waited_ns)))
        v.kind = DLR_VERDICT_STILL;
    *ret = v;
    return 0;
}

int dlr_judge(const struct dlr_judge_input *in, uint8_t *parts, struct dlr_verdict *ret)
{
    struct dlr_wait_graph g;
    int rc = dlr_wait_graph_init(&g, in);

    if (rc >= 0) {
        const size_t groups = g.ngroups + 1;
        DLR_AUTO_FREE uint8_t *blames = calloc(in->n + 1, 1);
        DLR_AUTO_FREE uint64_t *inside = calloc(groups, sizeof(*inside));
        DLR_AUTO_FREE uint32_t *culprit = calloc(groups, sizeof(*culprit)),
                               *waiting = calloc(groups, sizeof(*waiting));
        struct judging j = {.g = &g,
                            .n = (uint32_t)in->n,
                            .culprit = culprit,
                            .waiting = waiting,
                            .found = {.g = &g,
                                      .n = (uint32_t)in->n,
                                      .blames = blames,
                                      .inside = inside,
                                      .proven = true}};

        rc = blames && inside && culprit && waiting ? judge(&j, parts, ret) : -ENOMEM;
    }
    dlr_wait_graph_done(&g);
    return rc;
}
