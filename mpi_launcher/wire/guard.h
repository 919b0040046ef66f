/* SPDX-License-Identifier: Apache-2.0 */
/* Watches who connects to a server's port: bounds connections that have not proven a
 * key yet (a descriptor each, for as long as a handshake may take) and counts those
 * that never did. A thread of its own, so that a late reactor does not let
 * unauthenticated peers in.
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_GUARD_H
#define DLR_MPI_LAUNCHER_WIRE_GUARD_H

#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/wire/zmq_types.h"

/* unproven connections at once beside expected ones; the oldest of the host that has
 * most are cut
 */
#define DLR_GUARD_HALF_OPEN 128

struct dlr_guard; /* opaque */

/* Before sock is bound, whose limit of a handshake is handshake_ms. */
int dlr_guard_new(zsock_t *sock, int handshake_ms, struct dlr_guard **ret_guard,
                  struct dlr_err *err);
/* So many clients may connect at once, before any has proven its key; and so many
 * connections there may be in all: one more, and an unproven one is cut: the oldest of
 * the host that has most.
 */
void dlr_guard_expect(struct dlr_guard *guard, unsigned clients, unsigned connections);

/* No descriptor is left for a connection that waits: the port must be closed, libzmq
 * would try for ever.
 */
bool dlr_guard_is_full(const struct dlr_guard *guard);
/* Since it was full the port was closed, and all is heard that was said of it before.
 */
bool dlr_guard_is_closed(const struct dlr_guard *guard);
/* A connection has ended since the last call, or since the port was full. */
bool dlr_guard_has_room(struct dlr_guard *guard);
void dlr_guard_reopened(struct dlr_guard *guard); /* the port takes connections again */

/* Before sock is destroyed. */
struct dlr_guard *dlr_guard_free(struct dlr_guard *guard); /* accepts NULL */

/* A message came over the connection fd, so it has proven its key. True for the first
 * one. From any thread.
 */
bool dlr_guard_proven(struct dlr_guard *guard, int fd);

/* Connections so far that sent something else than a handshake of ours, sent nothing
 * for as long as one may take, or were cut for being too many. One that only came and
 * went (a probe) is none.
 */
uint64_t dlr_guard_auth_failures(const struct dlr_guard *guard);

#endif
