/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor reads and writes: the reactor with the agents' socket, files of
 * the state directory, the journal, and lines for the user. The lowest of its engines:
 * it knows none of the others, and says by its events what has happened. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_IO_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_IO_H

#include <stdbool.h>

#include "common/base/err.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/process/fork_server.h"
#include "mpi_launcher/wire/endpoint.h"

struct dlr_sup_io; /* opaque */

/* What happened; arg is dlr_sup_io_new()'s. The first three are needed by the loop
 * alone, the others may be NULL.
 */
struct dlr_sup_io_ops {
    /* Somebody who has proven a key sent this; it is the engine's. */
    void (*message)(void *arg, const struct dlr_packet *packet);
    /* A message was handed over, or dropped as malformed. False: the loop is to end. */
    bool (*taken)(void *arg);
    /* Some time has passed: dlr_sup_loop_start(). False: the loop is to end. */
    bool (*tick)(void *arg);
    /* A file of the state directory takes too long, for the first time. */
    void (*late)(void *arg);
    /* Asked: would others have to wait when a reader of the user's lines is waited for?
     */
    bool (*busy)(void *arg);
};

/* Without sockets, processes or files: these come with the parts' own functions. ops
 * may be NULL; ops and arg must live as long. NULL when out of memory.
 */
struct dlr_sup_io *dlr_sup_io_new(const struct dlr_sup_io_ops *ops, void *arg);
/* After dlr_sup_journal_close(), dlr_user_output_end() and dlr_sup_outbox_close(), and
 * never once warnings go its way: dlr_user_output_start(). Accepts NULL, returns NULL.
 */
struct dlr_sup_io *dlr_sup_io_free(struct dlr_sup_io *io);

/* Forks what does all that the state directory may hold up: before there are threads or
 * much memory.
 */
int dlr_sup_fork_server_start(struct dlr_sup_io *io, struct dlr_err *err);
/* It, for works of others. The engine's; NULL before, and without an engine. */
struct dlr_fork_server *dlr_sup_fork_server(const struct dlr_sup_io *io);

/* dlr_journal_open() by that process. */
int dlr_sup_journal_open(struct dlr_sup_io *io, int turns, const char *path,
                         struct dlr_err *err);
/* Where events are written. The engine's; NULL, which takes none, before, and without
 * an engine.
 */
struct dlr_journal *dlr_sup_journal(const struct dlr_sup_io *io);
/* dlr_journal_close(): waits at most timeout_ms. */
void dlr_sup_journal_close(struct dlr_sup_io *io, int64_t timeout_ms);

#endif
