/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the data process by those who keep slots: one that a request reads is not
 * marked before the request has ended.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SLOT_REQUESTS_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SLOT_REQUESTS_H

#include "mpi_launcher/agent/data/requests.h"

struct dlr_agent;

/* q and from are as they were given, but for what was to be read at once: NULL. */
typedef void dlr_agent_ended_fn(struct dlr_agent *a, const struct dlr_agent_request *q,
                                const struct dlr_agent_origin *from, int rc,
                                const char *why);

/* ended is told once, perhaps at once; q's done and arg are not used. */
void dlr_agent_request(struct dlr_agent *a, const struct dlr_agent_request *q,
                       const struct dlr_agent_origin *from, dlr_agent_ended_fn *ended);

#endif
