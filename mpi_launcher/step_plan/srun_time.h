/* SPDX-License-Identifier: Apache-2.0 */
/* The limit that srun --time sets to a step: srun(1). */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_SRUN_TIME_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_SRUN_TIME_H

#include <stdint.h>

/* "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
 * "days-hours:minutes" or "days-hours:minutes:seconds", in milliseconds and rounded up
 * to minutes, as Slurm's time_str2mins() does. 0: no limit ("0", "-1", "infinite",
 * "unlimited"), or a text of which srun itself complains.
 */
int64_t dlr_srun_time_ms(const char *text);

#endif
