/* SPDX-License-Identifier: Apache-2.0 */
/* What is done about each call of MPI: counted once, put on the watch page while it
 * waits, and handed on.
 */
#ifndef DLR_INTERPOSE_TRACK_H
#define DLR_INTERPOSE_TRACK_H

#include <stdbool.h>
#include <stdint.h>

/* The call of this number with its arguments, made as PMPI_X or as MPI_X: what the next
 * definition of that name returns. Without a page nothing else is done. frame: of the
 * function that was called.
 */
uintptr_t dlr_mpi_run(unsigned number, bool profiling, const uintptr_t *a,
                      const void *frame);

#endif
