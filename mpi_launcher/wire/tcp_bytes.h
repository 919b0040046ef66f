/* SPDX-License-Identifier: Apache-2.0 */
/* How much has gone over a TCP connection. */
#ifndef DLR_MPI_LAUNCHER_WIRE_TCP_BYTES_H
#define DLR_MPI_LAUNCHER_WIRE_TCP_BYTES_H

#include <stdint.h>

/* Bytes of ours that the other side has confirmed, and bytes of its own that came.
 * Zeros where the kernel does not count (before 4.1). -errno.
 */
int dlr_tcp_bytes(int fd, uint64_t *ret_confirmed, uint64_t *ret_received);

#endif
