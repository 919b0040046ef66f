/* SPDX-License-Identifier: Apache-2.0 */
/* Saves: the supervisor's orders and decisions, and what workers say of them. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SAVE_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SAVE_H

#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"

void dlr_agent_save_at(struct dlr_agent_snapshots *s, uint64_t step);
void dlr_agent_save_commit(struct dlr_agent_snapshots *s, uint64_t step);
/* Of a commit's message: which older version stays. */
void dlr_agent_save_vetted(struct dlr_agent_snapshots *s, const json_t *version);
void dlr_agent_save_abort(struct dlr_agent_snapshots *s, uint64_t step);

/* The newest that was ordered in this round, 0: none. */
uint64_t dlr_agent_save_ordered(const struct dlr_agent_snapshots *s);
bool dlr_agent_save_has_commit(const struct dlr_agent_snapshots *s);
/* Adds to "round_state" where this node stands: "committed", "ordered", "open". */
void dlr_agent_save_round_state(const struct dlr_agent_snapshots *s, json_t *msg);

/* With every beat: tells the supervisor what the programs here ask for that it was not
 * told; in a later step at most, so once for a step.
 */
void dlr_agent_save_wanted_look(struct dlr_agent_snapshots *s);

/* A worker has sealed a version; or what it sealed is not of one moment, as its audit
 * has found; or it has not saved it.
 */
void dlr_agent_save_sealed(struct dlr_agent_snapshots *s,
                           const struct dlr_local_msg *msg);
void dlr_agent_save_torn(struct dlr_agent_snapshots *s, int32_t rank, uint64_t step,
                         const char *why);
void dlr_agent_save_missed(struct dlr_agent_snapshots *s, int32_t rank, uint64_t step,
                           const char *why);
/* Tells the supervisor, and each that comes after it, that step and later ones are bad.
 */
void dlr_agent_bad(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c,
                   uint64_t step);

#endif
