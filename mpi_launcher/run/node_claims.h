/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes runs of a job that run at once begin on: each its own while there are
 * enough.
 */
#ifndef DLR_MPI_LAUNCHER_RUN_NODE_CLAIMS_H
#define DLR_MPI_LAUNCHER_RUN_NODE_CLAIMS_H

#include <sys/types.h>

#include "common/base/err.h"

/* Chooses want of the n nodes called names, those first that no run alive has chosen,
 * in their order (may[i] 0: not this one), and says so in the file path, under a lock,
 * in the name of keeper: the choice holds as long as that process lives, and is given
 * again to the same one. ret_chosen[want]: places in names. Their number, less than
 * want when there are not enough, or -errno. Blocking: file system.
 */
int dlr_node_claims_take(const char *path, pid_t keeper, char *const *names,
                         const unsigned char *may, unsigned n, unsigned want,
                         unsigned *ret_chosen, struct dlr_err *err);

#endif
