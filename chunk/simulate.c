/* SPDX-License-Identifier: Apache-2.0 */
/* Each chunk has its uses as a list in the order of moments, so that the next one is
 * known at once; a use of the next iteration counts one iteration further.
 */
#include "chunk/simulate.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define ITERATIONS 64 /* played at most: orders of loading may never repeat */

struct state {
    bool here, dirty, stays;
    uint64_t used, loaded; /* moments since the beginning */
    bool went, updated;    /* in this iteration: written back, its state changed */
};

struct play {
    const struct dlr_chunk_iteration *it;
    const struct dlr_chunk_policy *policy;
    uint64_t arena, taken, now; /* now: moments since the beginning */
    struct state *chunks, *before;
    uint64_t *next; /* of each use: moments until the same chunk's next one */
    uint32_t *use;  /* of each chunk: its last use */
    struct dlr_chunk_counts counts;
    struct dlr_chunk_move *moves; /* of this iteration */
    uint32_t nmoves;
    bool repeats;
};

static void play_done(struct play *p)
{
    free(p->chunks);
    free(p->before);
    free(p->next);
    free(p->use);
    free(p->moves);
}

/* --- what the iteration needs --------------------------------------------------------- */

static uint64_t others(const struct dlr_chunk_iteration *it, uint32_t moment)
{
    const uint64_t now = it->moments[moment].others,
                   then = it->moments[(moment + 1) % it->n].others;

    return now > then ? now : then;
}

uint64_t dlr_chunk_budget(const struct dlr_chunk_iteration *it, uint64_t arena,
                          uint32_t moment)
{
    const uint64_t spared = others(it, moment);

    return arena > spared ? arena - spared : 0;
}

/* Bytes of what a moment uses on the device; skip: what stays there is not counted. */
static uint64_t need(const struct dlr_chunk_iteration *it, uint32_t moment,
                     const struct state *skip)
{
    const struct dlr_chunk_moment *m = &it->moments[moment];
    uint64_t bytes = 0;

    for (uint32_t i = m->first; i < m->first + m->count; i++)
        if (it->uses[i].intent != DLR_CHUNK_TAKE &&
            !(skip && skip[it->uses[i].chunk].stays))
            bytes += it->bytes[it->uses[i].chunk];
    return bytes;
}

uint64_t dlr_chunk_least(const struct dlr_chunk_iteration *it)
{
    uint64_t least = 0;

    for (uint32_t t = 0; t < it->n; t++)
        if (need(it, t, NULL) + others(it, t) > least)
            least = need(it, t, NULL) + others(it, t);
    return least;
}

static int check(const struct dlr_chunk_iteration *it, struct dlr_err *err)
{
    if (it->n == 0)
        return dlr_fail(err, -EINVAL, "an iteration without operators");
    for (uint32_t t = 0; t < it->n; t++)
        for (uint32_t i = 0; i < it->moments[t].count; i++)
            if (it->uses[it->moments[t].first + i].chunk >= it->chunks)
                return dlr_fail(err, -EINVAL, "operator '%s' uses chunk %u of %u",
                                it->moments[t].name,
                                it->uses[it->moments[t].first + i].chunk, it->chunks);
    return 0;
}

static int check_room(const struct dlr_chunk_iteration *it, uint64_t arena,
                      struct dlr_chunk_shortage *ret, struct dlr_err *err)
{
    for (uint32_t t = 0; t < it->n; t++) {
        const uint64_t wanted = need(it, t, NULL) + others(it, t);

        if (wanted <= arena)
            continue;
        *ret = (struct dlr_chunk_shortage){t, wanted - arena, dlr_chunk_least(it)};
        return dlr_fail(err, -ENOSPC,
                        "%" PRIu64
                        " bytes are missing at operator '%s' (%u of %u): the "
                        "device needs %" PRIu64 " bytes",
                        ret->missing, it->moments[t].name, t + 1, it->n, ret->least);
    }
    return 0;
}

/* --- before it is played -------------------------------------------------------------- */

/* Twice backwards, so that uses near the end know the next iteration's. */
static void find_next(struct play *p, uint32_t *seen)
{
    const struct dlr_chunk_iteration *it = p->it;

    for (unsigned round = 0; round < 2; round++)
        for (uint32_t t = it->n; t-- > 0;)
            for (uint32_t i = 0; i < it->moments[t].count; i++) {
                const uint32_t use = it->moments[t].first + i,
                               chunk = it->uses[use].chunk;
                const uint32_t then = seen[chunk];

                p->next[use] = then > t ? then - t : (uint64_t)then + it->n - t;
                seen[chunk] = t;
            }
}

/* The first chunks, as they are used, with room left for what else a moment needs. */
static void choose_fixed(struct play *p)
{
    const struct dlr_chunk_iteration *it = p->it;
    uint64_t fixed = 0;

    for (uint32_t t = 0; t < it->n; t++)
        for (uint32_t i = 0; i < it->moments[t].count; i++) {
            const struct dlr_chunk_use *u = &it->uses[it->moments[t].first + i];
            struct state *c = &p->chunks[u->chunk];
            bool fits = !c->stays && u->intent != DLR_CHUNK_TAKE;

            if (!fits)
                continue;
            c->stays = true;
            for (uint32_t k = 0; k < it->n && fits; k++)
                fits = fixed + it->bytes[u->chunk] + need(it, k, p->chunks) <=
                       dlr_chunk_budget(it, p->arena, k);
            c->stays = fits;
            if (fits)
                fixed += it->bytes[u->chunk];
        }
}

static int play_init(struct play *p)
{
    const struct dlr_chunk_iteration *it = p->it;
    DLR_AUTO_FREE uint32_t *seen = calloc(it->chunks + 1, sizeof(*seen));
    uint32_t uses = 0;

    for (uint32_t t = 0; t < it->n; t++)
        if (it->moments[t].first + it->moments[t].count > uses)
            uses = it->moments[t].first + it->moments[t].count;
    p->chunks = calloc(it->chunks + 1, sizeof(*p->chunks));
    p->before = calloc(it->chunks + 1, sizeof(*p->before));
    p->next = calloc(uses + 1, sizeof(*p->next));
    p->use = calloc(it->chunks + 1, sizeof(*p->use));
    /* What comes is used then; what goes was there, or has come. */
    p->moves = calloc(2 * (size_t)uses + it->chunks + 1, sizeof(*p->moves));
    if (!seen || !p->moves || !p->chunks || !p->before || !p->next || !p->use)
        return -ENOMEM;
    find_next(p, seen);
    if (p->policy->fixed)
        choose_fixed(p);
    return 0;
}

/* --- moves ------------------------------------------------------------------------------ */

static void leave(struct play *p, uint32_t chunk, uint64_t used)
{
    struct state *c = &p->chunks[chunk];

    p->moves[p->nmoves++] = (struct dlr_chunk_move){
        .chunk = chunk,
        .moment = (uint32_t)((p->now - 1) % p->it->n),
        .used = (uint32_t)((used - 1) % p->it->n),
        .copied = c->dirty || p->policy->exclusive,
    };
    if (c->dirty || p->policy->exclusive) {
        p->counts.down += p->it->bytes[chunk];
        c->went = true;
    }
    p->taken -= p->it->bytes[chunk];
    c->here = c->dirty = false;
}

static struct dlr_chunk_candidate candidate(const struct play *p, uint32_t chunk)
{
    const struct state *c = &p->chunks[chunk];

    return (struct dlr_chunk_candidate){
        .chunk = chunk,
        .next = c->used + p->next[p->use[chunk]] - p->now,
        .used = c->used,
        .loaded = c->loaded,
        .dirty = c->dirty,
    };
}

/* What is used in this moment has c->used == now already. */
static bool may_leave(const struct play *p, uint32_t chunk)
{
    const struct state *c = &p->chunks[chunk];

    return c->here && !c->stays && c->used != p->now;
}

static void leave_one(struct play *p)
{
    struct dlr_chunk_candidate best = {0};
    bool found = false;

    for (uint32_t i = 0; i < p->it->chunks; i++) {
        struct dlr_chunk_candidate other;

        if (!may_leave(p, i))
            continue;
        other = candidate(p, i);
        if (!found || dlr_chunk_policy_before(p->policy, &other, &best))
            best = other;
        found = true;
    }
    assert(found); /* check_room(): what is in use fits */
    leave(p, best.chunk, p->chunks[best.chunk].used);
}

static void make_room(struct play *p, uint32_t moment, uint64_t bytes)
{
    const uint64_t budget = dlr_chunk_budget(p->it, p->arena, moment);

    if (p->policy->fixed && bytes > 0)
        for (uint32_t i = 0; i < p->it->chunks; i++)
            if (may_leave(p, i))
                leave(p, i, p->chunks[i].used);
    while (p->taken + bytes > budget)
        leave_one(p);
}

/* The host reads what the device has written. Where a chunk is in one place only, it is
 * moved there besides.
 */
static void take(struct play *p, uint32_t chunk, uint64_t used)
{
    if (!p->chunks[chunk].here)
        return;
    if (p->policy->exclusive)
        p->counts.down += p->it->bytes[chunk];
    leave(p, chunk, used);
}

/* On the device, where there is room. */
static void apply(struct play *p, const struct dlr_chunk_use *u)
{
    struct state *c = &p->chunks[u->chunk];

    if (!c->here) {
        p->counts.up += p->it->bytes[u->chunk];
        p->taken += p->it->bytes[u->chunk];
        c->loaded = p->now;
        p->moves[p->nmoves++] = (struct dlr_chunk_move){
            .chunk = u->chunk,
            .moment = (uint32_t)((p->now - 1) % p->it->n),
            .up = true,
        };
    }
    c->here = true;
    c->dirty |= u->intent != DLR_CHUNK_READ;
    c->updated |= u->intent == DLR_CHUNK_UPDATE;
}

static void play_moment(struct play *p, uint32_t moment)
{
    const struct dlr_chunk_moment *m = &p->it->moments[moment];
    const struct dlr_chunk_use *uses = p->it->uses;
    uint64_t more = 0;

    for (uint32_t i = m->first; i < m->first + m->count; i++) {
        const uint64_t used = p->chunks[uses[i].chunk].used;

        p->chunks[uses[i].chunk].used = p->now;
        p->use[uses[i].chunk] = i;
        if (uses[i].intent == DLR_CHUNK_TAKE)
            take(p, uses[i].chunk, used);
        else if (!p->chunks[uses[i].chunk].here)
            more += p->it->bytes[uses[i].chunk];
    }
    make_room(p, moment, more);
    for (uint32_t i = m->first; i < m->first + m->count; i++)
        if (uses[i].intent != DLR_CHUNK_TAKE)
            apply(p, &uses[i]);
    if (p->taken > p->counts.peak)
        p->counts.peak = p->taken;
    p->now++;
}

/* --- iterations --------------------------------------------------------------------------- */

/* What a save costs more: all that was updated on the device, or what of it has not left
 * anyway.
 */
static void count_save(struct play *p)
{
    for (uint32_t i = 0; i < p->it->chunks; i++) {
        if (!p->chunks[i].updated)
            continue;
        p->counts.save_copy += p->it->bytes[i];
        if (!p->chunks[i].went)
            p->counts.save_chunks += p->it->bytes[i];
    }
}

/* Whether a chunk is as it was an iteration ago; it is used in the same moments. */
static bool is_same(const struct state *a, const struct state *b, uint32_t n)
{
    return a->here == b->here && a->dirty == b->dirty &&
           (!b->here || a->loaded == b->loaded || a->loaded + n == b->loaded);
}

/* Ready for the next iteration; whether that will be the same as this one. What has
 * stayed all the time must have been loaded before all that has come again: else their
 * order is another one now.
 */
static bool repeats(struct play *p)
{
    uint64_t stayed = 0, came = UINT64_MAX;
    bool same = true;

    for (uint32_t i = 0; i < p->it->chunks; i++) {
        const struct state *a = &p->before[i], *b = &p->chunks[i];

        same &= is_same(a, b, p->it->n);
        if (b->here && a->loaded == b->loaded && a->loaded > stayed)
            stayed = a->loaded;
        if (b->here && a->loaded != b->loaded && a->loaded < came)
            came = a->loaded;
    }
    memcpy(p->before, p->chunks, p->it->chunks * sizeof(*p->chunks));
    return same && stayed < came;
}

static void play_all(struct play *p)
{
    for (uint32_t k = 1; k <= ITERATIONS && !p->repeats; k++) {
        p->counts = (struct dlr_chunk_counts){.iterations = k};
        p->nmoves = 0;
        for (uint32_t i = 0; i < p->it->chunks; i++)
            p->chunks[i].went = p->chunks[i].updated = false;
        for (uint32_t t = 0; t < p->it->n; t++)
            play_moment(p, t);
        p->repeats = repeats(p) && k > 1;
    }
    count_save(p);
}

static int play_checked(struct play *p, struct dlr_chunk_shortage *ret_shortage,
                        struct dlr_err *err)
{
    int rc = check(p->it, err);

    if (rc == 0)
        rc = check_room(p->it, p->arena, ret_shortage, err);
    if (rc < 0)
        return rc;
    if ((rc = play_init(p)) < 0)
        return dlr_fail(err, rc, "no memory to play %u operators", p->it->n);
    play_all(p);
    return 0;
}

int dlr_chunk_simulate(const struct dlr_chunk_iteration *it, uint64_t arena,
                       const struct dlr_chunk_policy *policy,
                       struct dlr_chunk_counts *ret,
                       struct dlr_chunk_shortage *ret_shortage, struct dlr_err *err)
{
    DLR_CLEANUP(play_done)
    struct play p = {.it = it, .policy = policy, .arena = arena, .now = 1};
    int rc = play_checked(&p, ret_shortage, err);

    if (rc == 0)
        *ret = p.counts;
    return rc;
}

int dlr_chunk_simulate_moves(const struct dlr_chunk_iteration *it, uint64_t arena,
                             const struct dlr_chunk_policy *policy,
                             struct dlr_chunk_move **ret, uint32_t *ret_n,
                             struct dlr_chunk_shortage *ret_shortage,
                             struct dlr_err *err)
{
    DLR_CLEANUP(play_done)
    struct play p = {.it = it, .policy = policy, .arena = arena, .now = 1};
    int rc = play_checked(&p, ret_shortage, err);

    if (rc < 0)
        return rc;
    if (!p.repeats)
        return dlr_fail(err, -EDOM, "what the policy moves never repeats");
    *ret_n = p.nmoves;
    *ret = p.nmoves ? DLR_STEAL(p.moves) : NULL;
    return 0;
}
