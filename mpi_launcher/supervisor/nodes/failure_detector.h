/* SPDX-License-Identifier: Apache-2.0 */
/* Looks every DLR_SUP_TICK_MS who is silent for too long. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_FAILURE_DETECTOR_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_FAILURE_DETECTOR_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

#define DLR_SUP_TICK_MS 50

void dlr_failure_detector_start(struct dlr_sup_nodes *nodes, int64_t now_ms);
void dlr_failure_detector_check(struct dlr_sup_nodes *nodes, int64_t now_ms);

/* The node is not heard from now on, until it comes back. why: for the user; reason:
 * for the journal. The policy knows already.
 */
void dlr_node_mark_dead(struct dlr_sup_nodes *nodes, unsigned node, const char *why,
                        const char *reason);
/* The same of one that was silent for so long: the policy is told. */
void dlr_node_lost(struct dlr_sup_nodes *nodes, unsigned node, int64_t silent_ms,
                   int64_t now_ms);

#endif
