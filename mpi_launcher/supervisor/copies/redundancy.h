/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes keep a snapshot. Holder 0 is the rank's own node, 1 to copies are the
 * others, or with parity those of its set's shards.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REDUNDANCY_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REDUNDANCY_H

#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/supervisor/copies/copies.h"

unsigned dlr_sup_copies(const struct dlr_sup_copies *copies);
/* -EINVAL with one line when the step has not the places for it. */
int dlr_sup_redundancy_check(struct dlr_sup_copies *copies, struct dlr_err *err);
/* The step has another number of places: what was kept where is of no use any more. */
int dlr_sup_redundancy_replanned(struct dlr_sup_copies *copies, struct dlr_err *err);
/* The plan in force has other seats. -ENOMEM. */
int dlr_sup_redundancy_reseated(struct dlr_sup_copies *copies, const unsigned *tasks,
                                const unsigned *ranks);
const struct dlr_parity_sets *dlr_sup_sets(const struct dlr_sup_copies *copies);

int dlr_sup_holders_make(struct dlr_sup_copies *copies); /* for the plan in force */
unsigned dlr_sup_holder(const struct dlr_sup_copies *copies, unsigned place,
                        unsigned holder);
int dlr_sup_holder_node(const struct dlr_sup_copies *copies, unsigned place,
                        unsigned holder);
/* Which holder node is to the ranks of place, -1: none. */
int dlr_sup_holder_of(const struct dlr_sup_copies *copies, unsigned place,
                      unsigned node);
/* "survives": any one node, or what else (hwloc_topo/holders.h), when that is not what
 * was told last. Nothing where nobody else keeps anything.
 */
void dlr_sup_put_survival(struct dlr_sup_copies *copies, json_t *row);
json_t *dlr_sup_holder_names(const struct dlr_sup_copies *copies, unsigned place);

/* The rank's holders are asked for slots as its own node has them; not before all nodes
 * of a round that is taken over have come back, then those of all ranks.
 */
void dlr_sup_holders_ask(struct dlr_sup_copies *copies, unsigned rank);
void dlr_sup_holders_ask_all(struct dlr_sup_copies *copies);
/* What the rank has reserved in this round. */
uint64_t dlr_sup_slot_bytes(const struct dlr_sup_copies *copies, unsigned rank);

/* --- what is where ---------------------------------------------------------------- */

/* The holders of this round are those whom the next one asks about. */
void dlr_sup_holders_keep(struct dlr_sup_copies *copies);
/* They have all of the newest version: known so far, or once more after a turn. */
bool dlr_sup_kept_whole(const struct dlr_sup_copies *copies);
void dlr_sup_set_kept_whole(struct dlr_sup_copies *copies);
/* True when that holder of place is known to have its part of the version to restore.
 */
bool dlr_sup_holder_has(const struct dlr_sup_copies *copies, unsigned place,
                        unsigned holder);
/* A node is lost: while it kept something, a second loss may cost committed steps.
 * Until every holder has its part of a version again.
 */
void dlr_redundancy_degraded(struct dlr_sup_copies *copies, unsigned node);
bool dlr_sup_is_bare(const struct dlr_sup_copies *copies);
void dlr_redundancy_restored(
    struct dlr_sup_copies *copies); /* they have: all of the newest */

/* --- parity ----------------------------------------------------------------------- */

/* What is made where; a shard has its slot. */
json_t *dlr_sup_round_parity(const struct dlr_sup_copies *copies);
void dlr_sup_shard_ready(struct dlr_sup_copies *copies, unsigned node, unsigned slot);
/* The slot of shard number row of rank's group, and its bytes for the version to
 * restore.
 */
unsigned dlr_sup_shard_of(const struct dlr_sup_copies *copies, unsigned rank,
                          unsigned row);
uint64_t dlr_sup_shard_room(const struct dlr_sup_copies *copies, unsigned rank);

#endif
