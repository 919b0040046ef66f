/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a socket of another process is connected to. */
#ifndef DLR_MPI_LAUNCHER_UNWIND_SOCKET_PEER_H
#define DLR_MPI_LAUNCHER_UNWIND_SOCKET_PEER_H

#include <stddef.h>
#include <sys/types.h>

/* Writes "TCP to 10.0.0.3:4711". -ENOENT for other sockets. */
int dlr_socket_peer(pid_t pid, unsigned long long inode, char *buf, size_t size);

/* The same of one line of /proc/net/tcp or tcp6; -ENOENT when it is of another socket.
 */
int dlr_socket_peer_line(const char *line, unsigned long long inode, char *buf,
                         size_t size);

#endif
