/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a user has asked Slurm to place his tasks on CPUs, memory or GPUs, or for
 * more tasks than CPUs. A pure function.
 */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_BINDING_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_BINDING_H

/* The word by which: one of options (srun's, before its program, NULL-terminated), or
 * the name of a variable of env that srun reads. NULL: he has not.
 */
const char *dlr_srun_binding(char *const options[], char *const env[]);

#endif
