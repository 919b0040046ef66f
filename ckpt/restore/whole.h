/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot in which no region is a part of one that other ranks keep the rest of: for
 * tools that read a rank's file by itself.
 */
#ifndef DLR_CKPT_RESTORE_WHOLE_H
#define DLR_CKPT_RESTORE_WHOLE_H

#include "ckpt/slot/slot.h"

/* Maps the slot of a rank of the same version, which the caller unmaps. */
typedef int (*dlr_slot_open_fn)(void *arg, int rank, struct dlr_slot **ret,
                                struct dlr_err *err);

/* 1 with *ret, a sealed slot of our own memory that holds what slot holds, and the rest
 * of each such region, from others that open() gets with arg: dlr_slot_unmap(). 0 when
 * slot has no such region. Blocking: all of slot is read. -EBADMSG with text names the
 * rank and the block.
 */
int dlr_slot_whole(const struct dlr_slot *slot, dlr_slot_open_fn open, void *arg,
                   struct dlr_slot **ret, struct dlr_err *err);

#endif
