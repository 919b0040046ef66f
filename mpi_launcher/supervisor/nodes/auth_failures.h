/* SPDX-License-Identifier: Apache-2.0 */
/* Who has no business with us, here or on a node: told in the journal. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_AUTH_FAILURES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_AUTH_FAILURES_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

void dlr_sup_auth_failures(struct dlr_sup_nodes *nodes, int64_t now_ms); /* here */
void dlr_sup_on_auth_failures(struct dlr_sup_nodes *nodes, unsigned node,
                              const json_t *msg);

#endif
