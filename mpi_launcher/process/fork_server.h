/* SPDX-License-Identifier: Apache-2.0 */
/* Processes for work that a dead file server may hold up for ever: who is killed while
 * one of its threads waits for such a server does not end, and keeps its ports and
 * locks. A small process, forked early, forks them; they have nothing of ours but one
 * end of a socket.
 */
#ifndef DLR_MPI_LAUNCHER_PROCESS_FORK_SERVER_H
#define DLR_MPI_LAUNCHER_PROCESS_FORK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"

#define DLR_FORK_SERVER_FDS 2 /* that one message carries at most */

struct dlr_fork_server;

/* What such a process does: it ends when this returns. fd is its end of the socket, the
 * only descriptor that it has; the standard ones are /dev/null. Signals are blocked as
 * ours were.
 */
typedef void (*dlr_fork_server_fn)(int fd);

/* Forks the process that forks the others: before the caller has threads or much
 * memory. It ends with the caller. *ret is the caller's: dlr_fork_server_free().
 */
int dlr_fork_server_new(struct dlr_fork_server **ret, struct dlr_err *err);

/* Starts fn in a process called name (15 letters), which is killed when we end or, with
 * outlives, goes on. Does not block. *ret_fd is our end of its socket (a stream,
 * close-on-exec), the caller's: end of file when the process has ended.
 */
int dlr_fork_server_start(struct dlr_fork_server *server, dlr_fork_server_fn fn,
                          const char *name, bool outlives, int *ret_fd);

/* Processes with outlives go on. Accepts NULL, returns NULL. */
struct dlr_fork_server *dlr_fork_server_free(struct dlr_fork_server *server);

/* Sends buf with descriptors (-1: none; still the caller's), never with SIGPIPE. The
 * number of bytes or -errno; -EAGAIN at once when the other side does not read.
 */
ssize_t dlr_fork_server_send(int fd, const void *buf, size_t size,
                             const int fds[DLR_FORK_SERVER_FDS]);

/* Receives at most size bytes; fds (-1 for each that did not come) are the caller's. 0
 * at the end of file, else their number or -errno. flags of recvmsg(2).
 */
ssize_t dlr_fork_server_recv(int fd, void *buf, size_t size,
                             int ret_fds[DLR_FORK_SERVER_FDS], int flags);

#endif
