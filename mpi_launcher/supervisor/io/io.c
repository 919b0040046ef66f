/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and those of what it lends to others. */
#include "mpi_launcher/supervisor/io/io.h"

#include <czmq.h>
#include <stdlib.h>

#include "mpi_launcher/supervisor/io/io_state.h"

struct dlr_sup_io *dlr_sup_io_new(const struct dlr_sup_io_ops *ops, void *arg)
{
    static const struct dlr_sup_io_ops none;
    struct dlr_sup_io *io = calloc(1, sizeof(*io));

    if (!io)
        return NULL;
    io->ops = ops ? ops : &none;
    io->arg = arg;
    io->files = (struct dlr_work_queue){.name = "dlrover-file", .fd = -1};
    io->say = (struct dlr_work_queue){
        .name = "dlrover-say", .outlives = true, .room = 1, .fd = -1};
    io->loop = zloop_new();
    if (!io->loop) {
        free(io);
        return NULL;
    }
    zloop_set_nonstop(io->loop, true);
    return io;
}

struct dlr_sup_io *dlr_sup_io_free(struct dlr_sup_io *io)
{
    if (!io)
        return NULL;
    zloop_destroy(&io->loop);
    dlr_work_queue_close(&io->files, 0);
    dlr_fork_server_free(io->fork_server);
    free(io);
    return NULL;
}

int dlr_sup_fork_server_start(struct dlr_sup_io *io, struct dlr_err *err)
{
    int rc = dlr_fork_server_new(&io->fork_server, err);

    io->files.fork_server = io->say.fork_server = io->fork_server;
    return rc;
}

int dlr_sup_journal_open(struct dlr_sup_io *io, int turns, const char *path,
                         struct dlr_err *err)
{
    return dlr_journal_open(io->fork_server, turns, path, &io->journal, err);
}

void dlr_sup_journal_close(struct dlr_sup_io *io, int64_t timeout_ms)
{
    io->journal = dlr_journal_close(io->journal, timeout_ms);
}
