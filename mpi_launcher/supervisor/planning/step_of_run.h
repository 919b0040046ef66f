/* SPDX-License-Identifier: Apache-2.0 */
/* The run's srun as a plan of its step, for so many places: read once before anything
 * is begun, made when it is known what an earlier incarnation has fixed. Everybody
 * reads it, at an address that stays.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_STEP_OF_RUN_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_STEP_OF_RUN_H

#include <sys/types.h>

#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/planning/planning.h"

/* The user's srun, and how many of its words stand before the program as srun has read
 * them (0: unknown). They must live as long. Does not return for one that runs as it
 * is. -EINVAL: a mistake in them.
 */
int dlr_sup_read_step(struct dlr_sup_planning *planning, int argc, char **argv,
                      int srun_words, struct dlr_err *err);
/* An earlier incarnation, or the former supervisor, has fixed that. */
void dlr_sup_step_resume(struct dlr_sup_planning *planning, unsigned nplaces,
                         unsigned world);
/* Of this allocation. Nodes that the run has for itself are held while holder lives.
 * -EINVAL with one line for the user.
 */
int dlr_sup_plan_step(struct dlr_sup_planning *planning, pid_t holder, bool took_over,
                      struct dlr_err *err);

const struct dlr_step_plan *dlr_sup_step(const struct dlr_sup_planning *planning);
/* Of a round that lacks no node, and its tasks. */
unsigned dlr_sup_full_places(const struct dlr_sup_planning *planning);
unsigned dlr_sup_full_world(const struct dlr_sup_planning *planning);
/* The user's srun; NULL-terminated. */
char *const *dlr_sup_srun_words(const struct dlr_sup_planning *planning);
uint32_t dlr_sup_job_number(const struct dlr_sup_planning *planning);
/* [*ret_n] the nodes that the script was shown, in rank order; of salloc all of them.
 * -1: none of the job's.
 */
const int *dlr_sup_shown(struct dlr_sup_planning *planning, unsigned *ret_n);

/* The plugin shows a batch script what it trains on; what the job has stands beside it,
 * marked with the job's id: a job submitted from this one inherits the marks.
 */
const char *dlr_sup_of_allocation(const char *all, const char *shown);
/* SLURM_JOB_CPUS_PER_NODE and SLURM_DISTRIBUTION as tasks of the plan in force should
 * see them. -ENOMEM.
 */
int dlr_sup_shape_env(const struct dlr_sup_planning *planning, struct dlr_env *env);

#endif
