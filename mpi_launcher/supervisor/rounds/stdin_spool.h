/* SPDX-License-Identifier: Apache-2.0 */
/* A run's standard input when it is a pipe: what has come is kept, so that each round
 * can read all of it from the beginning. A small process per round feeds the round's
 * srun; it lives as long as that, not as long as the supervisor.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_STDIN_SPOOL_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_STDIN_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_SPOOL_AT (128ll << 20) /* where it begins in its memory file */

/* True when in is one that is read once: a pipe or a socket. */
bool dlr_spool_is_for(int in);

/* Starts a process that writes all of in, from its first byte on, to *ret_out's other
 * end, and ends when in has or when nobody has *ret_out open any more. keep is a memory
 * file from DLR_SPOOL_AT on; at most limit bytes are kept there. A feeder of an earlier
 * round goes first: this one waits until its srun is gone. *ret_out is the caller's.
 * -ENOSPC: more than limit bytes have come, the first ones are gone.
 */
int dlr_spool_feed(int in, int keep, uint64_t limit, int *ret_out, struct dlr_err *err);

#endif
