/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what lies in several ranks' slots: a version that another number of ranks made,
 * or as many that cut it otherwise, whose regions are put together from the boxes that
 * they share with theirs, and a region that the ranks of a node keep between them.
 */
#ifndef DLR_CKPT_RESTORE_RESHAPE_H
#define DLR_CKPT_RESTORE_RESHAPE_H

#include "ckpt/layout/regions.h"
#include "ckpt/layout/unmatched.h"
#include "ckpt/slot/slot.h"
#include "device/device.h"

/* A version and how to look at it. open() maps the slot of one of its ranks, whose head
 * it has checked to be of that version, rank and world; the caller unmaps it.
 */
struct dlr_sources {
    uint32_t world;
    int (*open)(void *arg, int rank, struct dlr_slot **ret_slot, struct dlr_err *err);
    void *arg;
    const int32_t *near; /* [nnear] ranks that dlr_join() looks at before others */
    unsigned nnear;
};

/* Fills rs as rank (of another world, or of another cut) has it. A SHARD's box is covered by boxes of the
 * same name and global shape, each item by at least one (two ranks whose boxes overlap
 * must agree there: the first two are compared, in host memory); a REPLICATED one comes
 * from any rank, or any ranks that have a part of it; LOCAL and BLOB are rank's own, so
 * a rank beyond the version's world has none: they are missing. A name counts as left
 * over when every rank looked at has it and it is not in rs. What is read is what the
 * CRCs vouch for. -EBADMSG names the region or the block; regions may be partly
 * overwritten then. Blocking; looks at no more ranks than it takes, beginning with its
 * own.
 */
int dlr_reshape(const struct dlr_sources *from, int rank, struct dlr_regions *rs,
                struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
                struct dlr_device *dev, struct dlr_err *err);

/* After dlr_load() of rank's own slot: the regions of which that has a part, whole, of
 * this slot and others of the same version. As dlr_reshape() otherwise; unmatched only
 * learns whether it differs.
 */
int dlr_join(const struct dlr_sources *from, int rank, struct dlr_regions *rs,
             struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
             struct dlr_device *dev, struct dlr_err *err);

#endif
