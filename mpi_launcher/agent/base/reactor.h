/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent waits for: descriptors, sockets, timers, the ends of children. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_REACTOR_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_REACTOR_H

#include <stdint.h>
#include <sys/types.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/wire/zmq_types.h"

/* Watches fd for input. fn as of zloop; dlr_agent_unwatch() before fd is closed. */
void dlr_agent_watch(struct dlr_agent_base *base, int fd, zloop_fn *fn, void *arg);
/* For room to write as well. */
void dlr_agent_watch_out(struct dlr_agent_base *base, int fd, zloop_fn *fn, void *arg);
void dlr_agent_unwatch(struct dlr_agent_base *base, int fd);

/* The same of a socket: dlr_agent_unwatch_socket() before it is freed. */
void dlr_agent_watch_socket(struct dlr_agent_base *base, zsock_t *sock,
                            zloop_reader_fn *fn, void *arg);
void dlr_agent_unwatch_socket(struct dlr_agent_base *base, zsock_t *sock);

/* One timer from now; -1 is never a timer. Ends *timer first when it runs. */
void dlr_agent_timer(struct dlr_agent_base *base, int *timer, int64_t after_ms,
                     zloop_timer_fn *fn, void *arg);
/* The same again and again, until its end. */
void dlr_agent_timer_every(struct dlr_agent_base *base, int *timer, int64_t every_ms,
                           zloop_timer_fn *fn, void *arg);
/* From here on fn is not called, even when it is due already. */
void dlr_agent_timer_end(struct dlr_agent_base *base, int *timer);

/* Kills a child that is not needed any more and reaps it, now or when it has ended.
 * pidfd is closed.
 */
void dlr_agent_kill_and_reap(struct dlr_agent_base *base, pid_t pid, int pidfd);

#endif
