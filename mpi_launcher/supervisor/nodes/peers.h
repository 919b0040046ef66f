/* SPDX-License-Identifier: Apache-2.0 */
/* Agents are told of each other. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_PEERS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_PEERS_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

/* Told soon, together with others: roster.h */
void dlr_sup_peers_came(struct dlr_sup_nodes *nodes, unsigned node);
void dlr_sup_peers_went(struct dlr_sup_nodes *nodes, unsigned node);
/* What stands beside the members has changed: told at once. */
void dlr_sup_send_peers(struct dlr_sup_nodes *nodes);
void dlr_sup_peers_known(struct dlr_sup_nodes *nodes, unsigned node); /* it is there */
void dlr_sup_peers_tick(struct dlr_sup_nodes *nodes, int64_t now_ms);

#endif
