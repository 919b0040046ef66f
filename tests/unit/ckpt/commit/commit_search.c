/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ckpt/commit/commit_search.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

#define FIRST_BITS 15u /* of a table, which grows */

static struct {
    struct search_set seen;
    struct search_set *outcomes;
    bool until_bad;
    struct world *pick; /* walking: the step to take */
    unsigned choices, seed;
} ex;

/* --- sets ------------------------------------------------------------------------- */

static void make_table(struct search_set *set, unsigned bits)
{
    set->mask = ((size_t)1 << bits) - 1;
    set->used = 0;
    set->table = calloc(set->mask + 1, sizeof(*set->table));
    if (!set->table)
        abort();
}

void search_set_init(struct search_set *set, unsigned table_bits)
{
    set->bits = table_bits < FIRST_BITS ? table_bits : FIRST_BITS;
    set->bits_max = table_bits;
    make_table(set, set->bits);
}

void search_set_done(struct search_set *set)
{
    free(set->table);
    set->table = NULL;
}

static size_t place_of(const struct search_set *set, uint64_t hash)
{
    size_t at = hash >> 8 & set->mask;

    while (set->table[at] && set->table[at] != hash)
        at = (at + 1) & set->mask;
    return at;
}

/* Most searches are small, and pages that are never touched cost nothing. */
static void grow(struct search_set *set)
{
    struct search_set old = *set;

    if (set->bits == set->bits_max)
        abort();
    make_table(set, ++set->bits);
    for (size_t i = 0; i <= old.mask; i++)
        if (old.table[i])
            set->table[place_of(set, old.table[i])] = old.table[i];
    set->used = old.used;
    free(old.table);
}

bool search_set_add(struct search_set *set, uint64_t hash)
{
    size_t at = place_of(set, hash);

    if (set->table[at])
        return false;
    if (set->used >= set->mask / 4 * 3) {
        grow(set);
        at = place_of(set, hash);
    }
    set->table[at] = hash;
    set->used++;
    return true;
}

bool search_set_has(const struct search_set *set, uint64_t hash)
{
    return set->table[place_of(set, hash)] != 0;
}

/* --- all -------------------------------------------------------------------------- */

static void put_outcome(uint64_t outcome, void *arg)
{
    search_set_add(ex.outcomes, outcome);
}

static void go_everywhere(struct world *next, unsigned one_in, void *arg)
{
    if ((ex.until_bad && world_is_bad()) || !search_set_add(&ex.seen, world_hash(next)))
        return;
    if (ex.outcomes)
        world_outcomes(next, put_outcome, NULL);
    world_moves(next, go_everywhere, NULL);
}

void search_begin(const struct world_conf *conf)
{
    world_conf = *conf;
    memset(&world_found, 0, sizeof(world_found));
}

static void explore(unsigned table_bits)
{
    struct world *w = malloc(world_size());

    if (!w)
        abort();
    search_set_init(&ex.seen, table_bits);
    world_start(w);
    go_everywhere(w, 1, NULL);
    search_set_done(&ex.seen);
    free(w);
}

size_t search_all(unsigned table_bits, struct search_set *outcomes)
{
    ex.until_bad = false;
    ex.outcomes = outcomes;
    explore(table_bits);
    return ex.seen.used;
}

bool search_finds_any(unsigned table_bits)
{
    ex.until_bad = true;
    ex.outcomes = NULL;
    explore(table_bits);
    return world_is_bad();
}

/* --- some ------------------------------------------------------------------------- */

static unsigned draw(unsigned below)
{
    ex.seed = ex.seed * 1103515245u + 12345u;
    return (ex.seed >> 8) % below;
}

static void go_somewhere(struct world *next, unsigned one_in, void *arg)
{
    if (one_in > 1 && draw(one_in) != 0)
        return;
    if (draw(++ex.choices) == 0)
        memcpy(ex.pick, next, world_size());
}

static size_t search_history(unsigned seed)
{
    struct world *w = malloc(world_size()), *next = malloc(world_size());
    size_t states = 0;

    if (!w || !next)
        abort();
    ex.pick = next;
    ex.seed = seed;
    world_start(w);
    for (; draw(world_conf.rounds > 1 ? 1600 : 400); states++) {
        ex.choices = 0;
        world_moves(w, go_somewhere, NULL);
        if (ex.choices)
            memcpy(w, next, world_size());
        world_hash(w); /* forgets what all have heard */
    }
    free(w);
    free(next);
    return states;
}

size_t search_histories(unsigned runs, unsigned seed)
{
    size_t states = 0;

    for (unsigned i = 0; i < runs; i++)
        states += search_history(seed + i);
    return states;
}

size_t search_histories_for(unsigned seconds, unsigned seed, unsigned *ret_runs)
{
    int64_t end_ns = dlr_now_ns() + (int64_t)seconds * 1000000000;
    size_t states = 0;
    unsigned i = 0;

    for (; dlr_now_ns() < end_ns && !world_is_bad(); i++)
        states += search_history(seed + i);
    *ret_runs = i;
    return states;
}
