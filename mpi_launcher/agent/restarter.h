/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the agent again when it dies. */
#ifndef DLR_MPI_LAUNCHER_AGENT_RESTARTER_H
#define DLR_MPI_LAUNCHER_AGENT_RESTARTER_H

struct dlr_kept;

/* Returns 0 in the process that is to be the agent, a child of the caller, with what is
 * kept for it and by it, NULL when nothing can be; 1 in the caller itself, with the exit
 * code, when no agent is to be started any more; -errno.
 */
int dlr_agent_restarter(const char *node, int *ret_code, struct dlr_kept **ret_kept);

#endif
