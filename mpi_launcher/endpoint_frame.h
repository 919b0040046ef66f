/* SPDX-License-Identifier: Apache-2.0 */
/* What server and client share: the socket's limits, and taking in one frame. */
#ifndef DLR_MPI_LAUNCHER_ENDPOINT_FRAME_H
#define DLR_MPI_LAUNCHER_ENDPOINT_FRAME_H

#include "mpi_launcher/endpoint.h"

/* A socket of type with our keys and limits, not yet bound or connected. */
int dlr_frame_socket(int type, const struct dlr_identity *id, zsock_t **ret_sock,
                     struct dlr_err *err);

/* Takes one frame that must be the last of its message; the rest of a longer message is thrown
 * away. As dlr_server_recv(), key is filled when the connection has one.
 */
int dlr_frame_recv(zsock_t *sock, struct dlr_packet *ret_packet);

#endif
