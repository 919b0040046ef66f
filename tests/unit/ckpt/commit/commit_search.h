/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the states of a small job (tests/unit/ckpt/commit/commit_world.h):
 * through all, or along histories drawn at random. What is found is in world_found.
 */
#ifndef DLR_TESTS_CKPT_COMMIT_COMMIT_SEARCH_H
#define DLR_TESTS_CKPT_COMMIT_COMMIT_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/ckpt/commit/commit_world.h"

/* Hashes that were seen. A state is known by 63 bits: that any of 100 million was taken
 * for another one has a chance of 1 in 1800.
 */
struct search_set {
    uint64_t *table;
    size_t mask, used;
    unsigned bits, bits_max;
};

/* For at most 3/4 of 2^table_bits hashes. search_set_done() frees it. */
void search_set_init(struct search_set *set, unsigned table_bits);
void search_set_done(struct search_set *set);
bool search_set_add(struct search_set *set, uint64_t hash); /* false: it was there */
bool search_set_has(const struct search_set *set, uint64_t hash);

/* Sets world_conf and forgets what was found. */
void search_begin(const struct world_conf *conf);

/* Every state of world_conf; returns how many there are. outcomes: gets those of each
 * state (world_outcomes()), or NULL.
 */
size_t search_all(unsigned table_bits, struct search_set *outcomes);

/* The same up to the first state with something that must not be: whether there is one.
 */
bool search_finds_any(unsigned table_bits);

/* So many histories, number i drawn from seed + i; returns the states they came
 * through.
 */
size_t search_histories(unsigned runs, unsigned seed);

/* The same until so many seconds are over, or something is found; *ret_runs: how many.
 */
size_t search_histories_for(unsigned seconds, unsigned seed, unsigned *ret_runs);

#endif
