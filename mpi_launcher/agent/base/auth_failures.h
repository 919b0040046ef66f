/* SPDX-License-Identifier: Apache-2.0 */
/* Who connected and may not, told to the supervisor. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_AUTH_FAILURES_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_AUTH_FAILURES_H

#include "mpi_launcher/agent/base/base.h"

/* One connected to the node's own socket; those to the peers' socket are counted there.
 */
void dlr_agent_auth_failures_add(struct dlr_agent_base *base);
/* Tells the supervisor of new ones, now and then: call it with every beat. */
void dlr_agent_auth_failures(struct dlr_agent_base *base);
/* Tells a supervisor that is new of a name of the memory that was taken; "": none was.
 */
void dlr_agent_auth_failures_resend(struct dlr_agent_base *base,
                                    const char *foreign_memory_name);

#endif
