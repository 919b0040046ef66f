/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a snapshot into the regions a program named. */
#ifndef DLR_CKPT_RESTORE_LOAD_H
#define DLR_CKPT_RESTORE_LOAD_H

#include <stdbool.h>

#include "ckpt/layout/regions.h"
#include "ckpt/layout/unmatched.h"
#include "ckpt/slot/slot.h"
#include "device/device.h"

struct dlr_slot_region;

/* Compares the snapshot's regions with rs and copies it, summing each block on the way:
 * success says that the CRC of each was right. Returns the number of regions of which
 * it has only a part (ckpt/slot/replica_share.h), whose bytes are left to dlr_join().
 * Blocking. -EBADMSG names the region and what differs (nothing is written then), or
 * the corrupt block (regions are then partly overwritten, that block's bytes among
 * them). Names of one side only are put into unmatched, and are an error (with nothing
 * written) unless it allows them. BLOBs get their length. dev may be NULL when no
 * region is on a device.
 */
int dlr_load(const struct dlr_slot *slot, struct dlr_regions *rs,
             struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
             struct dlr_device *dev, struct dlr_err *err);

/* After dlr_load() found that the program asks for something else: whether a SHARD is a
 * part of a whole, there or here, so that other ranks' slots may have the rest.
 */
bool dlr_load_is_cut(const struct dlr_slot *slot, const struct dlr_regions *rs);

/* -EBADMSG with text when kind, type or size of an item differ. */
int dlr_load_same_type(const struct dlr_slot_region *there,
                       const struct dlr_ckpt_region *here, struct dlr_err *err);

/* -EBADMSG with text when the boxes are not the same; a BLOB only has to fit into room.
 */
int dlr_load_same_box(const struct dlr_slot_region *there,
                      const struct dlr_ckpt_region *here, uint64_t room,
                      struct dlr_err *err);

/* Writes bytes [at, at + bytes) of region i, in C order of its box, to host or device
 * memory.
 */
int dlr_load_put(const struct dlr_regions *rs, unsigned i, uint64_t at, const void *src,
                 size_t bytes, const struct dlr_device_ops *ops,
                 struct dlr_device *dev);

#endif
