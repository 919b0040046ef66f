/* SPDX-License-Identifier: Apache-2.0 */
/* The run's srun as a plan of its step, for so many places. Everybody reads it, at an
 * address that stays.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_STEP_OF_RUN_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_STEP_OF_RUN_H

#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/planning/planning.h"

const struct dlr_stepplan *dlr_sup_step(const struct dlr_sup_planning *planning);

/* An earlier incarnation, or the former supervisor, has fixed that. */
void dlr_sup_step_resume(struct dlr_sup_planning *planning, unsigned nplaces,
                         unsigned world);

#endif
