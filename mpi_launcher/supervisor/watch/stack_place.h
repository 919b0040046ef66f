/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank stands, in a few words, out of a tree of stacks. Pure. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_STACK_PLACE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_STACK_PLACE_H

#include <stdbool.h>

#include "mpi_launcher/stacks/stack_tree.h"

/* "; it is in read of /data/x, batch (data.py:31)": what the first thread of rank waits
 * in, and the innermost frame of its program. one: it is the only one that is named,
 * else "; rank 5 is in ..". "" where its stack is not known.
 */
void dlr_stack_place(const struct dlr_stack_tree *tree, uint32_t rank, bool one,
                     char *buf, size_t size);

#endif
