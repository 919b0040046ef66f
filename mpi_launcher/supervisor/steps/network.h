/* SPDX-License-Identifier: Apache-2.0 */
/* The switches above the job's nodes: each supervisor asks for them once, at its start,
 * as the batch script's view does, so both are made of one tree. Where there is none,
 * what each node's own slurmd says counts (SLURM_TOPOLOGY_ADDR).
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_NETWORK_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_NETWORK_H

#include "mpi_launcher/supervisor/steps/steps.h"

/* Does not block. ops->mapped follows, at once when nobody can be asked. */
void dlr_sup_network_start(struct dlr_sup_steps *steps);
void dlr_sup_network_tick(struct dlr_sup_steps *steps, int64_t now_ms);
/* The answer is still out. */
bool dlr_sup_network_is_asked(const struct dlr_sup_steps *steps);
/* Says once where the tree comes from and what is odd about it. */
void dlr_sup_network_tell(struct dlr_sup_steps *steps);

#endif
