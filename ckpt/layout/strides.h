/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that are a view of a larger array: a slice, a transposed matrix. Their packed
 * form is the bytes of their box in C order, which is what a snapshot holds.
 */
#ifndef DLR_CKPT_LAYOUT_STRIDES_H
#define DLR_CKPT_LAYOUT_STRIDES_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt/ckpt.h"
#include "common/base/err.h"

struct dlr_strides {
    uint64_t run;  /* bytes that follow each other in memory, at least an item */
    uint32_t ndim; /* of what lies around a run, outermost first */
    uint64_t len[DLR_CKPT_DIMS_MAX];
    int64_t step[DLR_CKPT_DIMS_MAX]; /* bytes */
};

/* 1 with *ret when the region's strides make it a view, 0 when it is contiguous after
 * all (all strides 0, or those of C order). -EINVAL with text when items overlap or an
 * address cannot be. The box is sound.
 */
int dlr_strides_of(const struct dlr_ckpt_region *region, struct dlr_strides *ret,
                   struct dlr_err *err);

/* Calls fn for each piece of packed bytes [at, at + bytes): rows of size bytes each,
 * pitch bytes apart, the first one at offset 'from' of the region's address. Ends with
 * the first failure of fn.
 */
struct dlr_strides_rows {
    int64_t from;
    uint64_t packed; /* where it goes: 0 is the first byte asked for */
    uint64_t size, rows;
    int64_t pitch;
};
typedef int (*dlr_strides_fn)(void *arg, const struct dlr_strides_rows *rows);
int dlr_strides_walk(const struct dlr_strides *s, uint64_t at, uint64_t bytes,
                     dlr_strides_fn fn, void *arg);

/* Between host memory and the packed form: from, and into, packed bytes [at, at +
 * bytes).
 */
void dlr_strides_gather(const struct dlr_strides *s, const void *addr, uint64_t at,
                        void *packed, size_t bytes);
void dlr_strides_scatter(const struct dlr_strides *s, void *addr, uint64_t at,
                         const void *packed, size_t bytes);

#endif
