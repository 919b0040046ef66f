/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are lost, for later sruns of the same script: Slurm notices much later.
 * They stand in a file of the job's directory, .lost-INCARNATION.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_LOST_NODES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_LOST_NODES_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

void dlr_sup_save_lost(struct dlr_sup_nodes *nodes);
/* "lost_before" is told of each. Blocking: file system, unless it is known to hang. */
void dlr_sup_load_lost(struct dlr_sup_nodes *nodes);

#endif
