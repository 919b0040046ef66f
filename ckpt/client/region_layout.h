/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a handle's regions, as a snapshot needs it: where each is read from, the
 * device that holds some, the slot's plan. Closed by restore and begin, opened again
 * when the program names others.
 */
#ifndef DLR_CKPT_CLIENT_REGION_LAYOUT_H
#define DLR_CKPT_CLIENT_REGION_LAYOUT_H

#include "ckpt/client/client.h"

/* The list is final until dlr_layout_open(): ck->plan and what goes with it are made. 0
 * when it was closed before. Negative with ck->err.
 */
int dlr_layout_close(struct dlr_ckpt *ck);

/* The list may be changed: waits until no snapshot uses it, as long as a fence may
 * take, then -EBUSY.
 */
int dlr_layout_open(struct dlr_ckpt *ck);

/* How many threads copy: as it was set, else what the regions' memory is worth. */
unsigned dlr_layout_threads(const struct dlr_ckpt *ck);

/* Says why the copy of step's snapshot ended with rc, which it returns. */
int dlr_layout_given_up(const struct dlr_ckpt *ck, uint64_t step, int rc,
                        struct dlr_err *err);

/* The slot is being filled: the device that the regions are on may know its memory by
 * the next time. Does not block.
 */
void dlr_layout_pin(struct dlr_ckpt *ck, struct dlr_slot *slot);

/* Unmaps the slot (NULL: nothing), of which no snapshot is under way, when the device
 * no longer knows its memory. NULL.
 */
struct dlr_slot *dlr_layout_unmap(struct dlr_ckpt *ck, struct dlr_slot *slot);

/* Frees what dlr_layout_close() made. */
void dlr_layout_done(struct dlr_ckpt *ck);

#endif
