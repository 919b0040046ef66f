/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's loop: descriptors that others wait for, messages and ticks. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_REACTOR_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_REACTOR_H

#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/wire/zmq_types.h"

/* Has fn(loop, item, arg) called while fd, still the caller's, is readable; what fn
 * returns below 0 ends the loop. 0, or below when out of memory.
 */
int dlr_sup_watch(struct dlr_sup_io *io, int fd, zloop_fn *fn, void *arg);
/* No more: before fd is closed. One that is not watched does no harm. */
void dlr_sup_unwatch(struct dlr_sup_io *io, int fd);

/* From now on the loop has messages to hand over, and a tick every so many
 * milliseconds: once there is an outbox.
 */
void dlr_sup_loop_start(struct dlr_sup_io *io, unsigned tick_ms);
/* One message that waits already is handed over now: 1. 0: none waits; -EBADMSG: one
 * was dropped.
 */
int dlr_sup_take_message(struct dlr_sup_io *io);
/* Waits for what happens and tells it, until somebody ends it. */
void dlr_sup_loop_run(struct dlr_sup_io *io);

#endif
