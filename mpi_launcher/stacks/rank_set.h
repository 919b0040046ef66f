/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranks as ranges: "0-4,6-15". */
#ifndef DLR_MPI_LAUNCHER_STACKS_RANK_SET_H
#define DLR_MPI_LAUNCHER_STACKS_RANK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_RANK_SET_END (1u << 24) /* ranks are below */

struct dlr_rank_range {
    uint32_t first, last;
};

/* Ranges in rising order that neither touch nor overlap; {0} is the empty set. */
struct dlr_rank_set {
    struct dlr_rank_range *ranges;
    size_t n, room;
};

/* Adds the ranks first to last, last < DLR_RANK_SET_END. 0 or -ENOMEM. */
int dlr_rank_set_add(struct dlr_rank_set *set, uint32_t first, uint32_t last);
int dlr_rank_set_add_all(struct dlr_rank_set *set, const struct dlr_rank_set *other);

/* Reads "0-4,6-15", the ranges in any order. *ret is the caller's:
 * dlr_rank_set_done(). -EINVAL with text. Foreign bytes: fuzz target stacks.
 */
int dlr_rank_set_parse(const char *text, struct dlr_rank_set *ret, struct dlr_err *err);

size_t dlr_rank_set_count(const struct dlr_rank_set *set);
bool dlr_rank_set_has(const struct dlr_rank_set *set, uint32_t rank);
bool dlr_rank_set_equal(const struct dlr_rank_set *a, const struct dlr_rank_set *b);

/* Writes the set, whole or cut after a range with ",..." behind it. size >= 32. True
 * when it is whole.
 */
bool dlr_rank_set_text(const struct dlr_rank_set *set, char *buf, size_t size);

void dlr_rank_set_done(struct dlr_rank_set *set);

#endif
