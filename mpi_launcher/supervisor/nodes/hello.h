/* SPDX-License-Identifier: Apache-2.0 */
/* Agents speak: who they are and that they live is taken here, the rest is handed on.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_HELLO_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_HELLO_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

/* Somebody who has proven a key sent this. */
void dlr_sup_hear(struct dlr_sup_nodes *nodes, const struct dlr_packet *packet);
/* A lost node is there again: it is clean. */
void dlr_sup_node_up(struct dlr_sup_nodes *nodes, unsigned node);

#endif
