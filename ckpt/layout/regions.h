/* SPDX-License-Identifier: Apache-2.0 */
/* The regions a program named, found by name in constant time. */
#ifndef DLR_CKPT_LAYOUT_REGIONS_H
#define DLR_CKPT_LAYOUT_REGIONS_H

#include <stdint.h>

#include "ckpt/ckpt.h"
#include "ckpt/layout/strides.h"
#include "common/base/err.h"

struct dlr_regions {
    struct dlr_ckpt_region *list; /* name and dtype are our copies */
    uint64_t *bytes;              /* of each box */
    uint64_t *used;               /* of each BLOB: its length now; else bytes */
    struct dlr_strides **views;   /* of each that is not contiguous; else NULL */
    unsigned n, room;
    uint32_t *index;   /* hash table of 1 + position by name, 0: free */
    uint32_t *by_addr; /* the same by address: the first region that was named there */
    uint32_t index_size;
    struct dlr_region_tie *ties; /* further names of regions */
    unsigned nties;
};

struct dlr_region_tie {
    char *name;
    unsigned region;
};

/* Begin with zeros. The same box at the same address is kept once, under the name it
 * was first added with; the other is one more name for it (tied weights). -EINVAL,
 * -EEXIST, -ENOTSUP, -ENOMEM with text; nothing is added then.
 */
int dlr_regions_add(struct dlr_regions *rs, const struct dlr_ckpt_region *region,
                    struct dlr_err *err);

/* *ret_i is its position. -ENOENT. */
int dlr_regions_find(const struct dlr_regions *rs, const char *name, unsigned *ret_i);

void dlr_regions_done(struct dlr_regions *rs);

#endif
