/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's clock, and a suspended job, for which it stands still. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_SUSPEND_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_SUSPEND_H

#include "mpi_launcher/supervisor/nodes/nodes.h"

int64_t dlr_sup_now(void);  /* milliseconds; stands still while the job is suspended */
bool dlr_sup_is_held(void); /* it does now */

/* A node is about to be stopped, or is awake again. */
void dlr_sup_suspend(struct dlr_sup_nodes *nodes, unsigned node);
void dlr_sup_awake(struct dlr_sup_nodes *nodes, unsigned node);
void dlr_sup_end_hold(struct dlr_sup_nodes *nodes); /* if all are; with every tick */

#endif
