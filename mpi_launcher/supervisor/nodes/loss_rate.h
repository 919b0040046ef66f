/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that the run has lost, in all its life: over its supervisors and requeues. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_LOSS_RATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_LOSS_RATE_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

void dlr_sup_losses_start(struct dlr_sup_nodes *nodes); /* counts from now on */
/* From now on so many nodes train. */
void dlr_sup_losses_count(struct dlr_sup_nodes *nodes, unsigned training);
unsigned dlr_sup_losses_nodes(const struct dlr_sup_nodes *nodes);
/* Of nodes, to lose them in. */
double dlr_sup_losses_hours(const struct dlr_sup_nodes *nodes);
/* For the next supervisor, and from the one before. */
void dlr_sup_losses_state(const struct dlr_sup_nodes *nodes, json_t *state);
void dlr_sup_losses_take(struct dlr_sup_nodes *nodes, const json_t *state);

#endif
