/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a snapshot into the regions a program named. */
#ifndef DLR_CKPT_LOAD_H
#define DLR_CKPT_LOAD_H

#include "ckpt/device.h"
#include "ckpt/regions.h"
#include "ckpt/slot.h"

/* Compares the snapshot's regions with rs and copies each byte that its CRC vouches for.
 * Blocking. -EBADMSG names the region and what differs (nothing is written then), or the
 * corrupt chunk (regions are then partly overwritten). BLOBs get their length. dev may be
 * NULL when no region is on a device.
 */
int dlr_load(const struct dlr_slot *slot, struct dlr_regions *rs,
             const struct dlr_device_ops *ops, struct dlr_device *dev,
             struct dlr_err *err);

#endif
