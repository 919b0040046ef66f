/* SPDX-License-Identifier: Apache-2.0 */
/* An srun that may end by itself, as dlr_srun_abandon() after a limit. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_SRUN_FLUSH_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_SRUN_FLUSH_H

#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/steps/steps.h"

/* *srun, which is watched, is the engine's from now on; without a pid it does no harm.
 */
void dlr_srun_flush(struct dlr_sup_steps *steps, struct dlr_proc *srun);
bool dlr_srun_is_flushed(const struct dlr_sup_steps *steps);
void dlr_srun_flush_end(struct dlr_sup_steps *steps); /* now */
void dlr_srun_flush_tick(struct dlr_sup_steps *steps, int64_t now_ms);

#endif
