/* SPDX-License-Identifier: Apache-2.0 */
/* What begin copies at once, so that the program may change it at any time: every BLOB,
 * and host memory so small that the copy costs less than a fence that waits for it.
 */
#ifndef DLR_CKPT_CLIENT_EARLY_COPY_H
#define DLR_CKPT_CLIENT_EARLY_COPY_H

#include "ckpt/client/client.h"

/* Decides what is copied, and makes ck->src, ck->views and ck->host_waits of it.
 * ck->on_device is known. -ENOMEM.
 */
int dlr_early_copy_make(struct dlr_ckpt *ck);

/* Takes the copy of what the regions hold now. */
void dlr_early_copy_take(struct dlr_ckpt *ck);

void dlr_early_copy_done(struct dlr_ckpt *ck);

#endif
