/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/slot/replica_share.h"

#include <string.h>

#include "ckpt/slot/meta.h"

static bool is_whole(const struct dlr_ckpt_region *r)
{
    for (uint32_t d = 0; d < r->ndim; d++)
        if (r->offset[d] != 0 || r->local_shape[d] != r->global_shape[d])
            return false;
    return true;
}

bool dlr_share_cut(const struct dlr_ckpt_region *region, struct dlr_share share,
                   struct dlr_ckpt_region *ret_part, uint64_t *ret_at)
{
    uint64_t bytes, n, first, end;
    uint32_t d = 0;

    *ret_part = *region;
    *ret_at = 0;
    if (region->kind != DLR_CKPT_REPLICATED || share.seats < 2 ||
        share.seat >= share.seats || !is_whole(region) ||
        dlr_region_bytes(region, &bytes, NULL) < 0 || bytes < DLR_SHARE_MIN)
        return false;
    while (d < region->ndim && region->local_shape[d] == 1)
        d++;
    if (d == region->ndim || region->local_shape[d] < share.seats)
        return false;
    n = region->local_shape[d];
    first = share.seat * n / share.seats;
    end = (share.seat + UINT64_C(1)) * n / share.seats;
    ret_part->offset[d] = first;
    ret_part->local_shape[d] = end - first;
    *ret_at = bytes / n * first;
    return true;
}

bool dlr_share_is_part(const struct dlr_ckpt_region *saved, struct dlr_share share,
                       struct dlr_ckpt_region *ret_whole)
{
    struct dlr_ckpt_region part;
    size_t row = saved->ndim * sizeof(uint64_t);
    uint64_t at;

    *ret_whole = *saved;
    memset(ret_whole->offset, 0, sizeof(ret_whole->offset));
    memcpy(ret_whole->local_shape, saved->global_shape, row);
    return dlr_share_cut(ret_whole, share, &part, &at) &&
           memcmp(part.offset, saved->offset, row) == 0 &&
           memcmp(part.local_shape, saved->local_shape, row) == 0;
}
