/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's commands and sruns that nobody waits for. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_SLURM_COMMAND_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_SLURM_COMMAND_H

#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/steps/steps.h"

/* "dlrover-slurm VERB [JOB]" */
void dlr_sup_slurm_words(const struct dlr_sup_steps *steps, struct dlr_words *words,
                         const char *verb, bool job);
int dlr_sup_start_slurm(struct dlr_words *words, int out, struct dlr_proc *ret,
                        struct dlr_err *err); /* out: its stdout, -1: none */
void dlr_sup_cancel_steps(struct dlr_sup_steps *steps, pid_t srun_pid); /* 0: none */
/* Ends an srun and its step and forgets it; it is reaped when it is gone, whenever that
 * is. One without a pid does no harm.
 */
void dlr_srun_abandon(struct dlr_sup_steps *steps, struct dlr_proc *proc);
/* A former supervisor's: ret is written when it is the keeper's child, as we are. A pid
 * that is not is somebody else's by now.
 */
void dlr_sup_adopt_child(pid_t pid, struct dlr_proc *ret);

#endif
