/* SPDX-License-Identifier: Apache-2.0 */
/* A REPLICATED region is the same on every rank, so a node keeps it once: each of its
 * ranks saves a part of it.
 */
#ifndef DLR_CKPT_SLOT_REPLICA_SHARE_H
#define DLR_CKPT_SLOT_REPLICA_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"

#define DLR_SHARE_MIN (64u << 10) /* bytes: a smaller region each rank keeps whole */

/* Which of how many ranks of a node; 0 or 1 seats: there is nobody to share with. */
struct dlr_share {
    uint32_t seat, seats;
};

/* *ret_part is what a rank with this share saves of region: rows [seat * n / seats,
 * (seat + 1) * n / seats) of its first dimension that is longer than 1, which begin at
 * byte *ret_at of the packed region. False, with all of it, for another kind, a box
 * that is not the whole array, fewer than DLR_SHARE_MIN bytes, or fewer rows than
 * seats. The region is sound (dlr_region_bytes()).
 */
bool dlr_share_cut(const struct dlr_ckpt_region *region, struct dlr_share share,
                   struct dlr_ckpt_region *ret_part, uint64_t *ret_at);

/* Whether saved, from a rank with this share, is such a part; *ret_whole is what it is
 * of.
 */
bool dlr_share_is_part(const struct dlr_ckpt_region *saved, struct dlr_share share,
                       struct dlr_ckpt_region *ret_whole);

#endif
