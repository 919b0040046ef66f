/* SPDX-License-Identifier: Apache-2.0 */
/* Orders about single versions, from the supervisor or from a peer: sent, loaded,
 * written, made of parity. Each is answered where it came from when it has ended.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_ORDERS_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_ORDERS_H

#include "mpi_launcher/agent/base/answers.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"

/* "send", "rebuild", "load" of this round, from the supervisor; key: where its text is.
 */
int dlr_agent_order(struct dlr_agent_snapshots *s, const json_t *msg,
                    enum dlr_local_type type, const char *key);
/* "send", from a peer that rebuilds, of any round. */
int dlr_agent_send(struct dlr_agent_snapshots *s, const json_t *msg,
                   const struct dlr_agent_origin *from);
/* "persist", of any round. */
void dlr_agent_persist(struct dlr_agent_snapshots *s, const json_t *msg,
                       const struct dlr_agent_origin *from);

/* "rebuild", from a successor: the rank is made of its set's parts. -EBADMSG, -ENOMEM.
 */
int dlr_agent_rebuild(struct dlr_agent_snapshots *s, const json_t *msg,
                      const struct dlr_agent_origin *from);
/* A rank's slots are there, or cannot be had. */
void dlr_agent_rebuild_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                                const char *why);
/* True when request id was a rebuilding's. */
bool dlr_agent_rebuild_done(struct dlr_agent_snapshots *s, uint64_t id, int rc,
                            const char *why);

#endif
