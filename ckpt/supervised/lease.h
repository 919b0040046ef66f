/* SPDX-License-Identifier: Apache-2.0 */
/* The lease of a supervised process: a kernel timer that kills it when its node's agent
 * has not said in time that it may go on. It needs no instruction of the process: a
 * stopped or frozen one is killed where it stands.
 */
#ifndef DLR_CKPT_SUPERVISED_LEASE_H
#define DLR_CKPT_SUPERVISED_LEASE_H

#include "common/base/err.h"

/* From now on, and to its end, this process lives by the lease in the progress page
 * behind page_fd (still the caller's). While that lease was never set, nothing happens.
 * Called again, the new page takes the place of the old. A forked child has no lease
 * until it calls this.
 */
int dlr_lease_follow(int page_fd, struct dlr_err *err);

/* Until then this process, which waits for a round, lives without one. */
void dlr_lease_rest(void);

#endif
