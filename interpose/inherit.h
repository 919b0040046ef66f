/* SPDX-License-Identifier: Apache-2.0 */
/* What a program with MPI starts does not get this library: it may be linked statically
 * or for another loader, run in a container, or have nothing to do with MPI.
 */
#ifndef DLR_INTERPOSE_INHERIT_H
#define DLR_INTERPOSE_INHERIT_H

#include <stdbool.h>

/* Takes this library out of a value of LD_PRELOAD, in place. False when nothing is left
 * of it.
 */
bool dlr_mpi_not_inherited(char *preloaded);

#endif
