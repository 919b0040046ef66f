/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm suspends the job: the lease is held. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SUSPEND_H
#define DLR_MPI_LAUNCHER_AGENT_SUSPEND_H

#include <stdbool.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"

struct dlr_agent_lease;
struct dlr_agent_suspend; /* opaque */

/* All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_suspend *dlr_agent_suspend_new(struct dlr_agent_base *base,
                                                const struct dlr_agent_self *self,
                                                const struct dlr_agent_round *round,
                                                struct dlr_agent_lease *lease);
/* Accepts NULL, returns NULL. */
struct dlr_agent_suspend *dlr_agent_suspend_free(struct dlr_agent_suspend *u);

void dlr_agent_suspend(struct dlr_agent_suspend *u); /* SIGTSTP */
void dlr_agent_suspend_awake(
    struct dlr_agent_suspend *u); /* SIGCONT; without a SIGTSTP nothing */
bool dlr_agent_is_suspended(const struct dlr_agent_suspend *u);

#endif
