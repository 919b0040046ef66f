/* SPDX-License-Identifier: Apache-2.0 */
/* czmq's loop, and what it tells. */
#include <czmq.h>

#include "mpi_launcher/supervisor/io/reactor.h"

#include "mpi_launcher/supervisor/io/io_state.h"

int dlr_sup_watch(struct dlr_sup_io *io, int fd, zloop_fn *fn, void *arg)
{
    zmq_pollitem_t item = {.fd = fd, .events = ZMQ_POLLIN};

    return zloop_poller(io->loop, &item, fn, arg);
}

void dlr_sup_unwatch(struct dlr_sup_io *io, int fd)
{
    zmq_pollitem_t item = {.fd = fd, .events = ZMQ_POLLIN};

    zloop_poller_end(io->loop, &item);
}

int dlr_sup_take_message(struct dlr_sup_io *io)
{
    struct dlr_packet packet;
    int rc = dlr_server_recv(io->server, &packet);

    if (rc <= 0)
        return rc;
    io->ops->message(io->arg, &packet);
    dlr_packet_done(&packet);
    return 1;
}

static int on_message(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_sup_io *io = arg;

    dlr_sup_take_message(io);
    return io->ops->taken(io->arg) ? 0 : -1;
}

static int on_tick(zloop_t *loop, int timer, void *arg)
{
    struct dlr_sup_io *io = arg;

    return io->ops->tick(io->arg) ? 0 : -1;
}

void dlr_sup_loop_start(struct dlr_sup_io *io, unsigned tick_ms)
{
    zloop_reader(io->loop, dlr_server_sock(io->server), on_message, io);
    zloop_timer(io->loop, tick_ms, 0, on_tick, io);
}

void dlr_sup_loop_run(struct dlr_sup_io *io)
{
    zloop_start(io->loop);
}
