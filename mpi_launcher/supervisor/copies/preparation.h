/* SPDX-License-Identifier: Apache-2.0 */
/* Copies go to where a round needs them. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_PREPARATION_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_PREPARATION_H

#include "mpi_launcher/supervisor/copies/transfers.h"

/* For the plan in force: a new list; what it lacks is asked for by the second one, once
 * the nodes know of the round. "prepared" is told by a later check.
 */
void dlr_sup_prepare_begin(struct dlr_sup_copies *copies, int64_t now_ms);
void dlr_sup_prepare_move(struct dlr_sup_copies *copies);
bool dlr_sup_is_preparing(const struct dlr_sup_copies *copies);
/* Copies that are asked for from now on are of the plan's version. */
void dlr_sup_transfers_of_plan(struct dlr_sup_copies *copies);
void dlr_sup_transfers_check(struct dlr_sup_copies *copies);

/* A node has slots of so many bytes for a rank, or a shard. */
void dlr_sup_on_ready(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                      uint32_t round, uint64_t bytes);

/* A node is lost: what it has or gets has failed. */
void dlr_sup_transfers_lost(struct dlr_sup_copies *copies, unsigned node);

#endif
