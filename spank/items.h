/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm says of a job, a step and a task, as the structs of the modules that know.
 */
#ifndef DLR_SPANK_ITEMS_H
#define DLR_SPANK_ITEMS_H

#include <stdbool.h>

#include <slurm/spank.h>

#include "spank/node/job_tmpfs.h"
#include "spank/task/step.h"
#include "spank/task/task_env.h"

/* Each is false when Slurm does not say: another context, or a release that cannot. */
bool dlr_items_job(spank_t sp, struct dlr_jobmem *ret);
bool dlr_items_place(spank_t sp, struct dlr_step_place *ret);

/* The step's environment, Slurm's own; NULL when it has none here. */
char **dlr_items_env(spank_t sp);

/* Makes the changes of vars to a task's environment. */
void dlr_items_put(spank_t sp, const struct dlr_task_env *vars);

#endif
