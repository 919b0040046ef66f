/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that were lost and are alive again. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_REJOIN_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_REJOIN_H

#include "mpi_launcher/supervisor/steps/steps.h"

void dlr_sup_rejoin_lost(struct dlr_sup_steps *steps, unsigned node); /* is silent */
/* may_ask: slurmctld, for nodes that are due. */
void dlr_sup_rejoin_tick(struct dlr_sup_steps *steps, int64_t now_ms, bool may_ask);

#endif
