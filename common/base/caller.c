/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/caller.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/base/hash.h"

unsigned dlr_caller_group(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } from = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof(from);
    const unsigned char *at = from.v6.sin6_addr.s6_addr;
    uint32_t hash;
    size_t n = 16;

    if (getpeername(fd, &from.any, &size) < 0)
        return 0;
    if (from.any.sa_family == AF_INET) {
        at = (const unsigned char *)&from.v4.sin_addr;
        n = 4;
    } else if (IN6_IS_ADDR_V4MAPPED(&from.v6.sin6_addr)) {
        at += 12;
        n = 4;
    }
    if (n == 4 && at[0] == IN_LOOPBACKNET)
        n = 1;
    hash = dlr_hash(at, n);
    return (hash ^ hash >> 16) % DLR_CALLERS;
}
