/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that a rank reads though they are not its own. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_FETCH_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_FETCH_H

#include "mpi_launcher/supervisor/copies/copies.h"

/* A version of another number of ranks is to be restored, or one that is elsewhere. */
bool dlr_restore_changes_world_size(const struct dlr_sup_copies *copies);
json_t *
dlr_sup_restore_row(const struct dlr_sup_copies *copies); /* of the round message */
/* A worker of node reads another rank's copy: it is fetched there. */
void dlr_sup_on_fetch(struct dlr_sup_copies *copies, unsigned node, const json_t *msg);
void dlr_sup_on_room(struct dlr_sup_copies *copies, unsigned node, const json_t *msg);
void dlr_sup_fetch_lost(struct dlr_sup_copies *copies, unsigned node);
void dlr_sup_fetch_round(
    struct dlr_sup_copies *copies); /* none of a former round goes on */
/* In this round: how many came, and whether one could not: a version is not bad for
 * that.
 */
unsigned dlr_sup_fetched(const struct dlr_sup_copies *copies);
bool dlr_sup_bring_failed(const struct dlr_sup_copies *copies);

#endif
