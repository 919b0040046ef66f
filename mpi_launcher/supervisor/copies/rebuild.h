/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that only parity has: each is made where it will run. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REBUILD_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REBUILD_H

#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/supervisor/copies/copies.h"

void dlr_sup_rebuild(struct dlr_sup_copies *copies, unsigned rank);
/* Of a plan without places; the transfer's number, 0: it cannot be. */
uint64_t dlr_sup_rebuild_anywhere(struct dlr_sup_copies *copies,
                                  const struct dlr_plan *plan, unsigned rank);
/* All that the plan in force lacks, when another number of ranks made its version. */
void dlr_sup_rebuild_lost(struct dlr_sup_copies *copies);
/* Node says whether it has room for one of these; false: none was to be made there. */
bool dlr_sup_rebuild_room(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          int rc, const char *why);
/* They are there: from now on those nodes have them. */
void dlr_sup_rebuild_known(struct dlr_sup_copies *copies);

#endif
