/* SPDX-License-Identifier: Apache-2.0 */
/* Watches who connects to a server's port: bounds connections that have not proven a key yet (a
 * descriptor each, for as long as a handshake may take) and counts those that never did. A thread of
 * its own, so that a late reactor does not let strangers in.
 */
#ifndef DLR_MPI_LAUNCHER_ENDPOINT_GUARD_H
#define DLR_MPI_LAUNCHER_ENDPOINT_GUARD_H

#include <czmq.h>
#include <stdint.h>

#include "common/err.h"

#define DLR_GUARD_HALF_OPEN 128 /* unproven connections at once; the oldest are cut */

struct dlr_guard; /* opaque */

/* Before sock is bound. */
int dlr_guard_new(zsock_t *sock, struct dlr_guard **ret_guard, struct dlr_err *err);
/* Before sock is destroyed. */
struct dlr_guard *dlr_guard_free(struct dlr_guard *guard); /* accepts NULL */

/* A message came over the connection fd, so it has proven its key. True for the first one. From any thread. */
bool dlr_guard_proven(struct dlr_guard *guard, int fd);

/* Connections so far that sent something else than a handshake of ours, sent nothing for as long
 * as one may take, or were cut for being too many. One that only came and went (a probe) is none.
 */
uint64_t dlr_guard_strangers(const struct dlr_guard *guard);

#endif
