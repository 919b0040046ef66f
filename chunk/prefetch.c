/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk goes when the policy wants its room; but it might have gone right after its
 * last use, one moment later where it is written back. That leaves room in between, in
 * which others come earlier: each by one moment, then each by another one, so that all
 * come a little before any comes long before.
 */
#include "chunk/prefetch.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/cleanup.h"

struct room {
    const struct dlr_chunk_iteration *it;
    uint64_t arena;
    uint64_t *taken; /* of each moment */
    bool *there;     /* of each chunk, while moments are counted */
};

static void room_done(struct room *r)
{
    free(r->taken);
    free(r->there);
}

static int room_init(struct room *r)
{
    r->taken = calloc(r->it->n, sizeof(*r->taken));
    r->there = calloc(r->it->chunks + 1, sizeof(*r->there));
    return r->taken && r->there ? 0 : -ENOMEM;
}

/* What is on the device when the iteration begins: what goes before it comes, and what
 * is used and never comes.
 */
static uint64_t find_first(struct room *r, const struct dlr_chunk_move *moves,
                           uint32_t n)
{
    const struct dlr_chunk_iteration *it = r->it;
    uint64_t bytes = 0;

    for (uint32_t t = 0; t < it->n; t++)
        for (uint32_t i = 0; i < it->moments[t].count; i++)
            if (it->uses[it->moments[t].first + i].intent != DLR_CHUNK_TAKE)
                r->there[it->uses[it->moments[t].first + i].chunk] = true;
    for (uint32_t i = n; i-- > 0;)
        r->there[moves[i].chunk] = !moves[i].up;
    for (uint32_t c = 0; c < it->chunks; c++)
        bytes += r->there[c] ? it->bytes[c] : 0;
    return bytes;
}

static void count_taken(struct room *r, const struct dlr_chunk_move *moves, uint32_t n)
{
    uint64_t bytes = find_first(r, moves, n);
    uint32_t i = 0;

    for (uint32_t t = 0; t < r->it->n; t++) {
        for (; i < n && moves[i].moment == t; i++)
            bytes += moves[i].up ? r->it->bytes[moves[i].chunk]
                                 : -r->it->bytes[moves[i].chunk];
        r->taken[t] = bytes;
    }
}

/* The moment from which on a chunk that goes is not there any more. */
static uint32_t gone_at(const struct room *r, const struct dlr_chunk_move *m)
{
    const uint32_t n = r->it->n, idle = (m->moment + n - m->used) % n;

    /* idle 0: one iteration, or taken where it was used last */
    return (m->used + (m->copied && idle != 1 ? 2 : 1)) % n;
}

static void free_early(struct room *r, const struct dlr_chunk_move *m)
{
    const uint32_t n = r->it->n;

    for (uint32_t t = gone_at(r, m); t != m->moment; t = (t + 1) % n)
        r->taken[t] -= r->it->bytes[m->chunk];
}

/* One moment earlier, where the chunk is not there yet and the room is. */
static void come_earlier(struct room *r, const struct dlr_chunk_move *m, uint32_t since,
                         uint32_t *begin)
{
    const uint32_t n = r->it->n, before = (*begin + n - 1) % n;
    const uint64_t bytes = r->it->bytes[m->chunk];

    if (*begin == since ||
        r->taken[before] + bytes > dlr_chunk_budget(r->it, r->arena, before))
        return;
    r->taken[before] += bytes;
    *begin = before;
}

/* Where the last time that the chunk goes before it comes at moves[i] has ended. */
static uint32_t gone_before(const struct room *r, const struct dlr_chunk_move *moves,
                            uint32_t n, uint32_t i)
{
    for (uint32_t k = 1; k < n; k++) {
        const struct dlr_chunk_move *m = &moves[(i + n - k) % n];

        if (m->chunk == moves[i].chunk)
            return gone_at(r, m);
    }
    return moves[i].moment;
}

static bool is_taken(const struct dlr_chunk_iteration *it, uint32_t moment,
                     uint32_t chunk)
{
    const struct dlr_chunk_moment *m = &it->moments[moment];

    for (uint32_t i = m->first; i < m->first + m->count; i++)
        if (it->uses[i].chunk == chunk && it->uses[i].intent == DLR_CHUNK_TAKE)
            return true;
    return false;
}

/* From which moment on the chunk may come at moves[i]: it has gone, and the host has
 * changed what it took. Copies begin only so early, so no more is looked at.
 */
static uint32_t since_of(const struct room *r, const struct dlr_chunk_move *moves,
                         uint32_t n, uint32_t i)
{
    const uint32_t gone = gone_before(r, moves, n, i);
    uint32_t since = moves[i].moment;

    for (unsigned k = 0; k < DLR_CHUNK_PREFETCH_MOMENTS && since != gone; k++) {
        const uint32_t before = (since + r->it->n - 1) % r->it->n;

        if (is_taken(r->it, before, moves[i].chunk))
            break;
        since = before;
    }
    return since;
}

/* The copies as the policy makes them: what comes, comes in the moment of its use. */
static uint32_t list(const struct room *r, const struct dlr_chunk_move *moves,
                     uint32_t n, struct dlr_chunk_copy *copies)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++)
        if (moves[i].up)
            copies[count++] = (struct dlr_chunk_copy){moves[i].chunk, true,
                                                      moves[i].moment, moves[i].moment};
        else if (moves[i].copied)
            copies[count++] = (struct dlr_chunk_copy){moves[i].chunk, false,
                                                      (moves[i].used + 1) % r->it->n,
                                                      gone_at(r, &moves[i])};
    return count;
}

static void come_early(struct room *r, const struct dlr_chunk_move *moves, uint32_t n,
                       struct dlr_chunk_copy *copies)
{
    for (unsigned k = 0; k < DLR_CHUNK_PREFETCH_MOMENTS; k++) {
        struct dlr_chunk_copy *copy = copies;

        for (uint32_t i = 0; i < n; i++) {
            if (moves[i].up)
                come_earlier(r, &moves[i], since_of(r, moves, n, i), &copy->begin);
            copy += moves[i].up || moves[i].copied;
        }
    }
}

int dlr_chunk_prefetch(const struct dlr_chunk_iteration *it, uint64_t arena,
                       const struct dlr_chunk_policy *policy,
                       struct dlr_chunk_copy **ret, uint32_t *ret_n,
                       struct dlr_chunk_shortage *ret_shortage, struct dlr_err *err)
{
    DLR_CLEANUP(room_done) struct room r = {.it = it, .arena = arena};
    DLR_AUTO_FREE struct dlr_chunk_move *moves = NULL;
    DLR_AUTO_FREE struct dlr_chunk_copy *copies = NULL;
    uint32_t n = 0;
    int rc = dlr_chunk_simulate_moves(it, arena, policy, &moves, &n, ret_shortage, err);

    if (rc < 0)
        return rc;
    copies = calloc(n + 1, sizeof(*copies));
    if (!copies || room_init(&r) < 0)
        return dlr_fail(err, -ENOMEM, "no memory for %u copies", n);
    count_taken(&r, moves, n);
    for (uint32_t i = 0; i < n; i++)
        if (!moves[i].up)
            free_early(&r, &moves[i]);
    *ret_n = list(&r, moves, n, copies);
    come_early(&r, moves, n, copies);
    *ret = *ret_n ? DLR_STEAL(copies) : NULL;
    return 0;
}
