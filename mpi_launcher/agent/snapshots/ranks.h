/* SPDX-License-Identifier: Apache-2.0 */
/* The workers as ranks: pages, slots, restore. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_RANKS_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_RANKS_H

#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"

/* Ranks that the round has here, for D_CONFIG: the caller's. */
json_t *dlr_agent_ranks_own(const struct dlr_agent_snapshots *s);

/* --- their workers; who is welcomed is decided in tasks/rank_claims.c --- */

/* The round has the rank here, and nobody was welcomed to it in this turn. */
bool dlr_agent_ranks_expects(struct dlr_agent_snapshots *s, int32_t rank);
/* The process that closed it and had neither restored nor begun; 0: none. */
int dlr_agent_ranks_left(struct dlr_agent_snapshots *s, int32_t rank);
/* That process opens it again: as if nobody had been welcomed. What is open is missed.
 */
void dlr_agent_ranks_reopen(struct dlr_agent_snapshots *s, int32_t rank);
/* c gets its rank's page, and the slots to restore from. */
void dlr_agent_ranks_hello(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c);
/* c has its rank's page, of a former agent. False: there is none. */
bool dlr_agent_ranks_adopt(struct dlr_agent_snapshots *s,
                           const struct dlr_agent_conn *c);
/* Whether c is the worker of its rank. */
bool dlr_agent_ranks_serves(const struct dlr_agent_snapshots *s,
                            const struct dlr_agent_conn *c);
/* It is, and closes it; then, or when it never was, it is gone. */
void dlr_agent_ranks_leave(struct dlr_agent_snapshots *s,
                           const struct dlr_agent_conn *c);
void dlr_agent_ranks_gone(struct dlr_agent_snapshots *s,
                          const struct dlr_agent_conn *c);

/* What the page of a rank's worker says: the step that it has begun (DLR_PAGE_NEVER:
 * none), when that was, and whether it is still restoring. False: it has no page.
 */
bool dlr_agent_ranks_told(struct dlr_agent_snapshots *s, int32_t rank,
                          uint64_t *ret_step, uint64_t *ret_ns, bool *ret_restoring);

/* A worker has restored, or could not. */
void dlr_agent_ranks_restored(struct dlr_agent_snapshots *s,
                              const struct dlr_local_msg *msg);
/* Slots of so many bytes, for a worker or before it comes. */
void dlr_agent_ranks_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool worker);

#endif
