/* SPDX-License-Identifier: Apache-2.0 */
/* What one agent knows of its round goes to the next when it is killed: tasks, pages and
 * connections stay as they are, and nobody is started again.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_ADOPT_H
#define DLR_MPI_LAUNCHER_AGENT_ADOPT_H

#include <stdbool.h>

#include "mpi_launcher/agent/agent.h"

/* Notes where we stand: of dlr_agent_base_ops. */
void dlr_agent_note(void *arg);

/* All engines are there, and none is started: goes on where a former agent died. False:
 * there is none, or its notes do not do, which is said; then this one begins anew.
 */
bool dlr_agent_adopt(struct dlr_agent *a);
/* It did: its lease is ours, and ends when it would have. Once ours is started. */
void dlr_agent_adopt_lease(struct dlr_agent *a);

#endif
