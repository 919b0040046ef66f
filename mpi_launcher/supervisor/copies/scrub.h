/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that went bad in a node's memory. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_SCRUB_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_SCRUB_H

#include "mpi_launcher/supervisor/copies/copies.h"

/* Memory of a copy that this node holds went bad. */
void dlr_sup_on_copy_bad(struct dlr_sup_copies *copies, unsigned node,
                         const json_t *msg);
/* A copy is there now: it may be one of those. holder: the node's number among the
 * rank's holders.
 */
void dlr_sup_scrub_copied(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          int holder, struct dlr_version v);

#endif
