/* SPDX-License-Identifier: Apache-2.0 */
/* In which order an epoch reads the records of a source. */
#ifndef DLR_FEED_ORDER_H
#define DLR_FEED_ORDER_H

#include <stdint.h>

#include "common/base/err.h"
#include "feed/permute.h"

enum dlr_order_kind {
    DLR_ORDER_FULL,   /* any record at any place */
    DLR_ORDER_BLOCKS, /* blocks of records, and the records of some blocks in turn */
    DLR_ORDER_NONE,   /* as they are */
    DLR_ORDER_KINDS,
};

struct dlr_order {
    enum dlr_order_kind kind;
    uint32_t block;  /* records, 1 or more */
    uint32_t window; /* blocks whose records come mixed, 1 or more */
};

#define DLR_ORDER_TEXT 40

/* "full" (NULL too), "blocks:B", "blocks:BxK" or "none". -EINVAL: err names text. */
int dlr_order_parse(const char *text, struct dlr_order *ret, struct dlr_err *err);
void dlr_order_format(const struct dlr_order *order, char ret[DLR_ORDER_TEXT]);

/* One epoch. Plain data, of which one thread at a time has a copy: the call below keeps
 * the window that it was in.
 */
struct dlr_epoch {
    struct dlr_order order;
    uint64_t length, key;
    struct dlr_permute all; /* of records, or of blocks */
    uint64_t blocks, last;  /* records of the last block, which may be short */
    uint64_t last_at;       /* the place of that block among the blocks */
    uint64_t window_at;     /* the window that window is of */
    struct dlr_permute window;
};

/* length: 1 to DLR_PERMUTE_MAX. */
void dlr_epoch_init(struct dlr_epoch *e, const struct dlr_order *order, uint64_t length,
                    uint64_t key);

/* The record at this place, both below length. */
uint64_t dlr_epoch_at(struct dlr_epoch *e, uint64_t place);

#endif
