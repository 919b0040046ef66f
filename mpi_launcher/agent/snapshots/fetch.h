/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that workers here want: of this node, or of others.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_FETCH_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_FETCH_H

#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"

/* Answers a worker that wants another rank's slot, now or when it is here. */
void dlr_agent_peek(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                    uint64_t rank);
/* c is gone, and waits for none any more. */
void dlr_agent_fetch_gone(struct dlr_agent_snapshots *s,
                          const struct dlr_agent_conn *c);
/* Ranks whose copies may come, for D_CONFIG; the caller's. */
json_t *dlr_agent_fetch_ranks(const struct dlr_agent_snapshots *s);

/* As the supervisor says: "reserve" with "fetch", and with make: it will be made here,
 * for whoever wants it.
 */
void dlr_agent_fetch_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool make);
int dlr_agent_fetched(struct dlr_agent_snapshots *s, const json_t *msg);
/* Nobody reads them any more, and the data process gives them up. */
void dlr_agent_fetch_end(struct dlr_agent_snapshots *s, const char *why);

#endif
