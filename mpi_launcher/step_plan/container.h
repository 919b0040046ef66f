/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a user has asked for his tasks to run in a container. A pure function. */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_CONTAINER_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_CONTAINER_H

/* The word by which: one of options (srun's own --container and those that plugins such
 * as pyxis add, before its program, NULL-terminated), or a variable of env that srun or
 * such a plugin reads. NULL: he has not.
 */
const char *dlr_srun_container(char *const options[], char *const env[]);

#endif
