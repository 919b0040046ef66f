/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_IO_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_IO_STATE_H

#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/wire/zmq_types.h"

struct dlr_sup_io {
    const struct dlr_sup_io_ops *ops; /* never NULL */
    void *arg;
    zloop_t *loop;
    struct dlr_server *server; /* NULL: nobody can connect */
    struct dlr_journal *journal;
    /* has done what the state directory may hold up */
    struct dlr_fork_server *fork_server;
    struct dlr_work_queue files;
    bool files_late_reported;
    struct dlr_work_queue say; /* to the writer of our stderr, or we write it */
};

#endif
