/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/tcp_bytes.h"

#include <errno.h>
#include <linux/tcp.h> /* <netinet/tcp.h>, which czmq.h includes, lacks the counts */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int dlr_tcp_bytes(int fd, uint64_t *ret_confirmed, uint64_t *ret_received)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return -errno;
    *ret_confirmed = info.tcpi_bytes_acked;
    *ret_received = info.tcpi_bytes_received;
    return 0;
}
