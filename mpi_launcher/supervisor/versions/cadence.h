/* SPDX-License-Identifier: Apache-2.0 */
/* What saves cost this run, and how often they are ordered for it (--dlrover-save). */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_CADENCE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_CADENCE_H

#include "mpi_launcher/supervisor/supervisor.h"

/* A supervisor without one (out of memory) saves as often as it can. */
void dlr_sup_cadence_start(struct dlr_sup *s);
void dlr_sup_cadence_stop(struct dlr_sup *s);
void dlr_sup_cadence_round(struct dlr_sup *s); /* what a save costs stays known */

/* What was learned goes into the run's state and comes from it, before dlr_sup_cadence_start(). */
void dlr_sup_cadence_state(const struct dlr_sup *s, json_t *state);
void dlr_sup_cadence_take(struct dlr_sup *s, const json_t *state);

/* The agents' words: what a rank's last saves cost it, and a copy that came to node. */
void dlr_sup_cadence_sealed(struct dlr_sup *s, const json_t *msg);
void dlr_sup_cadence_copied(struct dlr_sup *s, unsigned node, const json_t *msg);

/* The network devices of node's copies: told once, and of each node that has others. */
void dlr_sup_cadence_uses(struct dlr_sup *s, unsigned node, const json_t *msg);

/* A version is whole, so long after its first rank sealed it: the distance of the next ones follows
 * from what is known now.
 */
void dlr_sup_cadence_commit(struct dlr_sup *s, struct dlr_version v, int64_t took_ms);

/* The time of the run that would be lost with a failure now; -1: no step is known. */
int64_t dlr_sup_cadence_at_stake_ms(const struct dlr_sup *s, int64_t now_ms);

/* The round has reached step: the next save may be due sooner than steps said, and where no commit
 * comes one line says so.
 */
void dlr_sup_cadence_watch(struct dlr_sup *s, uint64_t step, int64_t now_ms);

#endif
