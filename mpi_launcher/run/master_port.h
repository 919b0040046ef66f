/* SPDX-License-Identifier: Apache-2.0 */
/* MASTER_PORT: which port the ranks of a round meet at. */
#ifndef DLR_MPI_LAUNCHER_RUN_MASTER_PORT_H
#define DLR_MPI_LAUNCHER_RUN_MASTER_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_PORT_FIRST 20000
#define DLR_PORT_SPAN 10000

/* One of [20000, 30000), another one for each run of a job and for each of its rounds.
 */
unsigned dlr_port_choose(uint32_t job, const char *run, uint32_t round);

/* The first from there on, of a hundred in that range, that is_free says is free; if
 * none is, the one to begin with. first is in the range.
 */
unsigned dlr_port_free_from(unsigned first, bool (*is_free)(unsigned port));

/* Whether a process of this host could listen at it. */
bool dlr_port_is_free(unsigned port);

#endif
