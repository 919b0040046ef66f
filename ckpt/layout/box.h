/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of a global array, in items: what two of them share, and where it lies in each.
 */
#ifndef DLR_CKPT_LAYOUT_BOX_H
#define DLR_CKPT_LAYOUT_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"

/* ndim 0 is one item. */
struct dlr_box {
    uint32_t ndim;
    uint64_t off[DLR_CKPT_DIMS_MAX], len[DLR_CKPT_DIMS_MAX];
};

struct dlr_box dlr_box_of(const struct dlr_ckpt_region *region);
bool dlr_box_eq(const struct dlr_box *a, const struct dlr_box *b);

/* What a and b share; false when it is nothing. Both have the same ndim. */
bool dlr_box_cut(const struct dlr_box *a, const struct dlr_box *b, struct dlr_box *ret);

/* a without part, which lies in it: boxes that do not overlap. Their number, at most
 * 2 * ndim, for which ret has room.
 */
unsigned dlr_box_minus(const struct dlr_box *a, const struct dlr_box *part,
                       struct dlr_box *ret);

/* Calls fn for each run of items of part that is contiguous in both boxes, C order;
 * part lies in both. from and to are its first item's places in them. Ends with the
 * first failure of fn.
 */
typedef int (*dlr_box_run_fn)(void *arg, uint64_t from, uint64_t to, uint64_t items);
int dlr_box_runs(const struct dlr_box *part, const struct dlr_box *from_box,
                 const struct dlr_box *to_box, dlr_box_run_fn fn, void *arg);

#endif
