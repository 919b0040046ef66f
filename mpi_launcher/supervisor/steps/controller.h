/* SPDX-License-Identifier: Apache-2.0 */
/* Is slurmctld away? */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_CONTROLLER_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_CONTROLLER_H

#include "mpi_launcher/supervisor/steps/steps.h"

/* What failed, and code or why of it: told as failed when slurmctld answers, else as
 * away. Returns at once. launch_ms: of DLR_QUERY_STEP and DLR_QUERY_LAUNCH, when the
 * workers' srun was started.
 */
void dlr_sup_ask_controller(struct dlr_sup_steps *steps, enum dlr_controller_query what,
                            int code, const char *why, int64_t launch_ms);
/* DLR_QUERY_LAUNCH; srun: not 0 when that one may have to wait for resources, which
 * slurmctld is asked then.
 */
void dlr_sup_ask_launch(struct dlr_sup_steps *steps, const char *why, int64_t launch_ms,
                        pid_t srun);
bool dlr_sup_is_asked(const struct dlr_sup_steps *steps); /* an answer is awaited */
/* It is away: it is asked again and again, and "back" is told once. */
void dlr_sup_controller_wait(struct dlr_sup_steps *steps, const char *why,
                             int64_t now_ms);
void dlr_sup_controller_started(struct dlr_sup_steps *steps); /* a task has */
void dlr_sup_controller_tick(struct dlr_sup_steps *steps, int64_t now_ms);

#endif
