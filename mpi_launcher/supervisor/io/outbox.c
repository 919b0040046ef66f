/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's socket. */
#include "mpi_launcher/supervisor/io/outbox.h"

#include "mpi_launcher/supervisor/io/io_state.h"

int dlr_sup_outbox_open(struct dlr_sup_io *io, const struct dlr_identity *id,
                        unsigned first, unsigned last, unsigned clients,
                        struct dlr_err *err)
{
    return dlr_server_new(id, "*", first, last, clients, &io->server, err);
}

void dlr_sup_outbox_close(struct dlr_sup_io *io)
{
    io->server = dlr_server_free(io->server);
}

unsigned dlr_sup_outbox_port(const struct dlr_sup_io *io)
{
    return dlr_server_port(io->server);
}

int dlr_sup_outbox_send(struct dlr_sup_io *io, const struct dlr_route *to,
                        const void *data, size_t size)
{
    return dlr_server_send(io->server, to, data, size);
}

int dlr_sup_outbox_send_json(struct dlr_sup_io *io, const struct dlr_route *to,
                             const json_t *msg)
{
    return dlr_server_send_json(io->server, to, msg);
}

int dlr_sup_outbox_send_shared(struct dlr_sup_io *io, const struct dlr_route *to,
                               struct dlr_shared *shared)
{
    return dlr_server_send_shared(io->server, to, shared);
}

bool dlr_sup_outbox_tend(struct dlr_sup_io *io, int64_t now_ms)
{
    return dlr_server_tend(io->server, now_ms);
}

uint64_t dlr_sup_outbox_auth_failures(const struct dlr_sup_io *io)
{
    return dlr_server_auth_failures(io->server);
}
