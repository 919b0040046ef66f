/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a supervised batch script: the nodes and sizes it trains on
 * instead of the allocation with its spares. dlrover-slurm chooses them, as the first
 * round will.
 */
#ifndef DLR_SPANK_TASK_BATCH_ENV_H
#define DLR_SPANK_TASK_BATCH_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "spank/base/options.h"
#include "spank/task/task_env.h"

/* of dlrover-slurm: it asks slurmctld for the switches */
#define DLR_BATCH_LIMIT_MS 5000

/* Whether this is the step of a batch script, or of salloc's shell where it runs on a
 * node.
 */
bool dlr_batch_is(uint32_t step_id);

/* In that step's only task, as the user: starts dlrover-slurm with env and makes its
 * lines the variables to set. SLURM_OPEN_MODE is as DLR_BATCH_OPEN_MODE (script_env.h)
 * has it, also when that program fails. Nothing is set when the job is not supervised.
 * 0, or -errno with text; *ret is the caller's: dlr_task_env_free(). Blocks for
 * DLR_BATCH_LIMIT_MS at most.
 */
int dlr_batch_env(const struct dlr_spank_conf *conf, char *const env[],
                  struct dlr_task_env *ret, struct dlr_err *err);

#endif
