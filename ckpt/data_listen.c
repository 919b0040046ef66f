/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/data_listen.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

static atomic_bool local; /* processes of this host are admitted */

/* An IPv4 address that came to an IPv6 socket is one of IPv4. */
static struct in6_addr number_of(const struct sockaddr *addr)
{
    struct in6_addr number = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    if (addr->sa_family == AF_INET6)
        number = ((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
    else
        memcpy(&number.s6_addr[12],
               &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
    return number;
}

bool dlr_listen_is_local(const struct sockaddr *addr)
{
    struct in6_addr number = number_of(addr);
    struct ifaddrs *all = NULL, *at;

    if (IN6_IS_ADDR_LOOPBACK(&number) ||
        (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == 127))
        return true;
    if (getifaddrs(&all) < 0)
        return true; /* nobody knows */
    for (at = all; at; at = at->ifa_next) {
        struct in6_addr own;

        if (!at->ifa_addr ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        own = number_of(at->ifa_addr);
        if (IN6_ARE_ADDR_EQUAL(&own, &number))
            break;
    }
    freeifaddrs(all);
    return at != NULL;
}

void dlr_listen_local(bool admit)
{
    local = admit;
}

static bool is_admitted(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage room;
    } peer;
    socklen_t size = sizeof(peer);

    if (getpeername(fd, &peer.any, &size) < 0)
        return false;
    return (peer.any.sa_family != AF_INET && peer.any.sa_family != AF_INET6) || local ||
           !dlr_listen_is_local(&peer.any);
}

/* In place of the C library's, for libraries, too. */
int accept4(int fd, struct sockaddr *addr, socklen_t *size, int flags)
{
    socklen_t room = size ? *size : 0;
    int got;

    for (;;) {
        got = (int)syscall(SYS_accept4, fd, addr, size, flags);
        if (got < 0 || is_admitted(got))
            return got;
        dlr_debug("a process of this host wanted to connect");
        close(got);
        if (size)
            *size = room;
    }
}

int accept(int fd, struct sockaddr *addr, socklen_t *size)
{
    return accept4(fd, addr, size, 0);
}
