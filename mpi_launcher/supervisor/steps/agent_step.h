/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' step. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_AGENT_STEP_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_AGENT_STEP_H

#include "mpi_launcher/supervisor/steps/steps.h"

/* False: those of a supervisor that died go on, and nothing has changed. */
bool dlr_sup_agents_start(struct dlr_sup_steps *steps);
bool dlr_sup_agents_there(const struct dlr_sup_steps *steps); /* their step goes on */
/* The run has ended: a step of our own may end, and is waited for until deadline_ms. */
void dlr_sup_agents_shutdown(struct dlr_sup_steps *steps, int64_t deadline_ms);
void dlr_sup_agents_left(struct dlr_sup_steps *steps, unsigned node);  /* after it */
void dlr_sup_agents_wait(struct dlr_sup_steps *steps, int64_t now_ms); /* likewise */
/* Whether these nodes, named by a sum, met by MPI when a run of this job used this step of
 * agents; and that they have. False, and nothing, for a step that is the run's own.
 */
bool dlr_sup_agents_have_met(const struct dlr_sup_steps *steps, uint64_t nodes);
void dlr_sup_agents_met(const struct dlr_sup_steps *steps, uint64_t nodes);
/* The run has ended under a former supervisor: without a word over the network. */
void dlr_shared_agent_step_end_run(struct dlr_sup_steps *steps);

#endif
