/* SPDX-License-Identifier: Apache-2.0 */
/* The regions a program named, found by name in constant time. */
#ifndef DLR_CKPT_REGIONS_H
#define DLR_CKPT_REGIONS_H

#include <stdint.h>

#include "ckpt/ckpt.h"
#include "common/err.h"

struct dlr_regions {
    struct dlr_ckpt_region *list; /* name and dtype are our copies */
    uint64_t *bytes;              /* of each box */
    uint64_t *used;               /* of each BLOB: its length now; else bytes */
    unsigned n, room;
    uint32_t *index; /* hash table of 1 + position, 0: free */
    uint32_t index_size;
};

/* Begin with zeros. -EINVAL, -EEXIST, -ENOTSUP, -ENOMEM with text; nothing is added then. */
int dlr_regions_add(struct dlr_regions *rs, const struct dlr_ckpt_region *region,
                    struct dlr_err *err);

/* *ret_i is its position. -ENOENT. */
int dlr_regions_find(const struct dlr_regions *rs, const char *name, unsigned *ret_i);

void dlr_regions_done(struct dlr_regions *rs);

#endif
