/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to agents. Each function takes msg over, which may be NULL: out of memory.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_SEND_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_SEND_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

/* Nothing is sent to a node that is not here. */
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg);
void dlr_sup_send_all(struct dlr_sup_nodes *nodes, json_t *msg);

#endif
