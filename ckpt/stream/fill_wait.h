/* SPDX-License-Identifier: Apache-2.0 */
/* While a rank of this node fills a slot, which it may wait for in its fence, no piece
 * of another save's copy is sent: the copy can wait, and takes the same cores and
 * memory. Pure; times come in.
 */
#ifndef DLR_CKPT_STREAM_FILL_WAIT_H
#define DLR_CKPT_STREAM_FILL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_FILL_LOOK_MS 2 /* nothing tells of the end of a fill but the slot itself */

struct dlr_fill {
    bool seen;
    int64_t since_ms; /* seen since then */
};

/* Milliseconds until it is to be looked at again, 0: send. limit_ms: a fill is waited
 * for as long, from when it was seen first; one that takes longer, or whose rank has
 * died, holds nothing up.
 */
static inline int64_t dlr_fill_wait_ms(struct dlr_fill *f, bool fills, int64_t limit_ms,
                                       int64_t now_ms)
{
    if (fills && !f->seen)
        f->since_ms = now_ms;
    f->seen = fills;
    return fills && now_ms < f->since_ms + limit_ms ? DLR_FILL_LOOK_MS : 0;
}

#endif
