/* SPDX-License-Identifier: Apache-2.0 */
/* What others are to keep of the version that a round begins with. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REPROTECT_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REPROTECT_H

#include "mpi_launcher/supervisor/copies/copies.h"

/* For the plan in force: what is lacking. Every rank has it: its copies are made. */
void dlr_reprotect_plan(struct dlr_sup_copies *copies);
void dlr_reprotect_start(struct dlr_sup_copies *copies);
void dlr_reprotect_stop(struct dlr_sup_copies *copies);
/* The round has a new token, and ranks and version are the same: what is not there is
 * sent once more. Where ranks have moved their copies are where they were until the
 * next commit, and their holders are others: nothing is made then.
 */
void dlr_reprotect_turn(struct dlr_sup_copies *copies);
/* A node has slots; it has a copy; it is gone. */
void dlr_reprotect_ready(struct dlr_sup_copies *copies, unsigned node, unsigned slot);
void dlr_reprotect_copied(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          struct dlr_version v);
void dlr_reprotect_lost(struct dlr_sup_copies *copies, unsigned node);
void dlr_reprotect_tick(struct dlr_sup_copies *copies, int64_t now_ms);

#endif
