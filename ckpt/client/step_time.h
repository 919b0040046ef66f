/* SPDX-License-Identifier: Apache-2.0 */
/* How long a program's steps take, beside a save and without one, as its page tells it.
 */
#ifndef DLR_CKPT_CLIENT_STEP_TIME_H
#define DLR_CKPT_CLIENT_STEP_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/client/client.h"

/* Makes the step known, which begins now, and how long the one before took; false when
 * it is not after the last one.
 */
bool dlr_step_announce(struct dlr_ckpt *ck, uint64_t step, int64_t now);

/* What a save holds the program up for, without what an audit of this one costs since
 * its time was audit_ns: how often to save is decided by what the others cost.
 */
uint64_t dlr_step_without_audit(const struct dlr_ckpt *ck, uint64_t took,
                                int64_t audit_ns);

#endif
