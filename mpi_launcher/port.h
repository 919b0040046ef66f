/* SPDX-License-Identifier: Apache-2.0 */
/* MASTER_PORT: which port the ranks of a round meet at. */
#ifndef DLR_MPI_LAUNCHER_PORT_H
#define DLR_MPI_LAUNCHER_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_PORT_FIRST 20000
#define DLR_PORT_SPAN 10000

/* One of [20000, 30000), another one for each run of a job and for each of its rounds. With is_free the
 * first from there on that it says is free, of a hundred; if none is, the one to begin with.
 */
unsigned dlr_port_choose(uint32_t job, const char *run, uint32_t round,
                         bool (*is_free)(unsigned port));

/* Whether a process of this host could listen at it. */
bool dlr_port_is_free(unsigned port);

#endif
