/* SPDX-License-Identifier: Apache-2.0 */
/* Committed versions written to the state directory while steps go on (--dlrover-persist).
 * One at a time: each rank's node writes its slot, a thread of the supervisor the manifest. What
 * fails or comes too late is told and counted, nothing waits for it. auto, the default, looks for the
 * directory when the first one is due, and leaves it at one line where that is no place for them.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_DISK_PERSIST_PERIODIC_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_DISK_PERSIST_PERIODIC_H

#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_periodic_start(struct dlr_sup *s); /* once the state was read */
/* A node's `ready`: whether its ranks have a slot for what is being written. */
void dlr_sup_periodic_ready(struct dlr_sup *s, unsigned node, const json_t *msg);
void dlr_sup_periodic_commit(struct dlr_sup *s, struct dlr_version v);
/* Its slots are being read: the version is the older one that is kept meanwhile (mpi_launcher/supervisor/versions/vetted_version.c). */
bool dlr_sup_periodic_writes(const struct dlr_sup *s);
void dlr_sup_periodic_stop(struct dlr_sup *s); /* before survivors write their state */
void dlr_sup_periodic_turn(
    struct dlr_sup *s); /* before the ranks change their places */
void dlr_sup_periodic_tick(struct dlr_sup *s);

#endif
