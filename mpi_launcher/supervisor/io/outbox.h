/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that agents connect to, and what is sent through it. Nothing here blocks:
 * a message that a connection has no room for, or whose connection is gone, is dropped.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_OUTBOX_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_OUTBOX_H

#include "mpi_launcher/supervisor/io/io.h"

/* dlr_server_new() on every network; id must live as long. */
int dlr_sup_outbox_open(struct dlr_sup_io *io, const struct dlr_identity *id,
                        unsigned first, unsigned last, unsigned clients,
                        struct dlr_err *err);
/* Also of one that was not opened; not before the loop has ended. */
void dlr_sup_outbox_close(struct dlr_sup_io *io);
unsigned dlr_sup_outbox_port(const struct dlr_sup_io *io);

/* To one connection, as dlr_server_send() and its kin: 0, -EAGAIN or -EHOSTUNREACH. */
int dlr_sup_outbox_send(struct dlr_sup_io *io, const struct dlr_route *to,
                        const void *data, size_t size);
int dlr_sup_outbox_send_json(struct dlr_sup_io *io, const struct dlr_route *to,
                             const json_t *msg);
int dlr_sup_outbox_send_shared(struct dlr_sup_io *io, const struct dlr_route *to,
                               struct dlr_shared *shared);

/* dlr_server_tend(): true when this call has closed the port for want of descriptors.
 */
bool dlr_sup_outbox_tend(struct dlr_sup_io *io, int64_t now_ms);
/* Connections so far that could not prove a key. */
uint64_t dlr_sup_outbox_auth_failures(const struct dlr_sup_io *io);

#endif
