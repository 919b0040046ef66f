/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes did not start a step, from the words of its srun. Pure. */
#ifndef DLR_MPI_LAUNCHER_SLURM_SRUN_ERRORS_H
#define DLR_MPI_LAUNCHER_SLURM_SRUN_ERRORS_H

#include <stdbool.h>

#define DLR_SRUN_NODE 256
#define DLR_SRUN_WORDS 256

/* The next line of srun's in text that names a node on which the step could not be
 * started: the node's name (DLR_SRUN_NODE bytes), why (DLR_SRUN_WORDS bytes), and
 * whether the job has it no more. Returns where to go on; NULL: there is no more.
 */
const char *dlr_srun_end_node(const char *text, char *ret_name, char *ret_why,
                              bool *ret_gone);

#endif
