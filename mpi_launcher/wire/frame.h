/* SPDX-License-Identifier: Apache-2.0 */
/* What server and client share: the socket's limits, and taking in one frame. */
#ifndef DLR_MPI_LAUNCHER_WIRE_FRAME_H
#define DLR_MPI_LAUNCHER_WIRE_FRAME_H

#include "mpi_launcher/wire/endpoint.h"

/* A socket of type with our keys and limits, not yet bound or connected. */
int dlr_frame_socket(int type, const struct dlr_identity *id, zsock_t **ret_sock,
                     struct dlr_err *err);

/* The connection that packet came by passes bulk data on its way out of this node, and
 * what is lost of it is sent again after a timeout that does not double each time: on a
 * full link a beat would come too late for a lease.
 */
void dlr_frame_urge(struct dlr_packet *packet);

/* Takes one frame that must be the last of its message; the rest of a longer message is
 * thrown away. As dlr_server_recv(), key is filled when the connection has one.
 */
int dlr_frame_recv(zsock_t *sock, struct dlr_packet *ret_packet);

#endif
