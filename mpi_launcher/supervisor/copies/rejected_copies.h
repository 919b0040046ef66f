/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that the next plan does not take, and those that have a second chance. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REJECTED_COPIES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REJECTED_COPIES_H

#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/supervisor/copies/copies.h"

/* where: a node or a file, "*": all; rank: a slot's number, -1: all. */
void dlr_reject_copy(struct dlr_sup_copies *copies, const char *where, int rank,
                     struct dlr_version v);
/* All copies of it; lasting, later: as in struct dlr_plan_rejected. */
void dlr_sup_strike_version(struct dlr_sup_copies *copies, struct dlr_version v,
                            bool lasting, bool later);
const struct dlr_plan_rejected *dlr_sup_struck(const struct dlr_sup_copies *copies,
                                               unsigned *ret_n);
void dlr_sup_unstrike(struct dlr_sup_copies *copies, unsigned i); /* that one of them */

/* transfer_retry.c: that copy's transfer has failed with rc; true: it is to be struck
 * off. Of what the network has done to it the first time, false.
 */
bool dlr_transfer_is_rejected(struct dlr_sup_copies *copies, const char *where,
                              int rank, struct dlr_version v, int rc);

#endif
