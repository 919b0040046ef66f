/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"

#define WAKERS 16
#define OWN 64

union place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static struct {
    pthread_mutex_t lock; /* UCX accepts in a thread of its own */
    bool known, local, said;
    struct in6_addr *hosts; /* NULL: every one */
    unsigned n;
    int parked[DLR_LISTEN_PARKED]; /* the oldest first */
    unsigned nparked;
    int wakers[WAKERS]; /* calls of our own, by which a library is told to accept */
    unsigned nwakers;
    int own[OWN]; /* sockets that this process has last called with, a ring */
    unsigned nown;
} ports = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* An IPv4 address that came to an IPv6 socket is one of IPv4. */
static struct in6_addr from_v4(struct in_addr v4)
{
    struct in6_addr number = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    memcpy(&number.s6_addr[12], &v4, sizeof(v4));
    return number;
}

static struct in6_addr number_of(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6
               ? ((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr
               : from_v4(((const struct sockaddr_in *)(const void *)addr)->sin_addr);
}

bool dlr_listen_number(const char *text, struct in6_addr *ret)
{
    struct in_addr v4;

    if (inet_pton(AF_INET6, text, ret) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    *ret = from_v4(v4);
    return true;
}

/* 127.0.0.0/8, ::1 or an address of a device. */
static bool is_local(const struct in6_addr *number)
{
    struct ifaddrs *all = NULL, *at;

    if (IN6_IS_ADDR_LOOPBACK(number) ||
        (IN6_IS_ADDR_V4MAPPED(number) && number->s6_addr[12] == 127))
        return true;
    if (getifaddrs(&all) < 0)
        return true; /* nobody knows */
    for (at = all; at; at = at->ifa_next) {
        struct in6_addr own;

        if (!at->ifa_addr ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        own = number_of(at->ifa_addr);
        if (IN6_ARE_ADDR_EQUAL(&own, number))
            break;
    }
    freeifaddrs(all);
    return at != NULL;
}

static bool is_host(const struct in6_addr *number)
{
    unsigned i = 0;

    while (i < ports.n && !IN6_ARE_ADDR_EQUAL(&ports.hosts[i], number))
        i++;
    return !ports.hosts || i < ports.n;
}

static bool same_place(const union place *a, const union place *b)
{
    struct in6_addr x = number_of(&a->any), y = number_of(&b->any);

    return a->v4.sin_port == b->v4.sin_port && /* where IPv6 has it, too */
           (IN6_ARE_ADDR_EQUAL(&x, &y) || IN6_IS_ADDR_UNSPECIFIED(&y) ||
            (b->any.sa_family == AF_INET && b->v4.sin_addr.s_addr == 0));
}

/* A copy that is made where a part of it lies goes from this process to itself. */
static bool is_own(const union place *peer)
{
    union place at;
    socklen_t size;

    for (unsigned i = 0; i < OWN && i < ports.nown; i++) {
        size = sizeof(at);
        if (getsockname(ports.own[i], &at.any, &size) == 0 &&
            (at.any.sa_family == AF_INET || at.any.sa_family == AF_INET6) &&
            same_place(&at, peer))
            return true;
    }
    return false;
}

static bool is_admitted(int fd)
{
    union place peer;
    socklen_t size = sizeof(peer);
    struct in6_addr number;

    if (getpeername(fd, &peer.any, &size) < 0)
        return false;
    if (peer.any.sa_family != AF_INET && peer.any.sa_family != AF_INET6)
        return true;
    number = number_of(&peer.any);
    return ports.known &&
           (is_local(&number) ? ports.local || is_own(&peer) : is_host(&number));
}

static void drop(int *list, unsigned *n, unsigned i)
{
    --*n;
    memmove(&list[i], &list[i + 1], (*n - i) * sizeof(*list));
}

static void park(int fd)
{
    union place peer = {.any = {0}};
    socklen_t size = sizeof(peer);
    char text[INET6_ADDRSTRLEN] = "";

    if (ports.nparked == DLR_LISTEN_PARKED) {
        close(ports.parked[0]);
        drop(ports.parked, &ports.nparked, 0);
    }
    ports.parked[ports.nparked++] = fd;
    if (!ports.known || ports.said || getpeername(fd, &peer.any, &size) < 0)
        return;
    ports.said = true;
    inet_ntop(peer.any.sa_family,
              peer.any.sa_family == AF_INET6 ? (void *)&peer.v6.sin6_addr
                                             : (void *)&peer.v4.sin_addr,
              text, sizeof(text));
    dlr_info("a connection from %s, which no other node of the job has said is its "
             "address: not heard",
             text);
}

/* One of those that wait at this listener and may be seen now; -1: none. */
static int admitted_meanwhile(int listener)
{
    union place at, there;
    socklen_t size = sizeof(at);

    if (getsockname(listener, &at.any, &size) < 0)
        return -1;
    for (unsigned i = 0; i < ports.nparked; i++) {
        int fd = ports.parked[i];

        size = sizeof(there);
        if (getsockname(fd, &there.any, &size) < 0 || !same_place(&there, &at) ||
            !is_admitted(fd))
            continue;
        drop(ports.parked, &ports.nparked, i);
        return fd;
    }
    return -1;
}

/* Our own call, which has done what it was for. */
static bool is_waker(int fd)
{
    union place ours, theirs;
    socklen_t size = sizeof(theirs);

    if (getpeername(fd, &theirs.any, &size) < 0)
        return false;
    for (unsigned i = 0; i < ports.nwakers; i++) {
        size = sizeof(ours);
        if (getsockname(ports.wakers[i], &ours.any, &size) < 0 ||
            !same_place(&theirs, &ours))
            continue;
        close(ports.wakers[i]);
        drop(ports.wakers, &ports.nwakers, i);
        return true;
    }
    return false;
}

/* Has the library that listens where fd was called accept once more. */
static void wake(int fd)
{
    union place at;
    socklen_t size = sizeof(at);
    int waker;

    if (ports.nwakers == WAKERS || getsockname(fd, &at.any, &size) < 0)
        return;
    waker = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (waker < 0)
        return;
    (void)!syscall(SYS_connect, waker, &at.any, size);
    ports.wakers[ports.nwakers++] = waker;
}

void dlr_listen_admit(bool local, struct in6_addr *hosts, unsigned n)
{
    pthread_mutex_lock(&ports.lock);
    free(ports.hosts);
    ports.hosts = hosts;
    ports.n = n;
    ports.local = local;
    ports.known = true;
    ports.said = false;
    for (unsigned i = 0; i < ports.nparked; i++)
        if (is_admitted(ports.parked[i]))
            wake(ports.parked[i]);
    pthread_mutex_unlock(&ports.lock);
}

static int accept_one(int listener, int flags)
{
    int fd = admitted_meanwhile(listener);

    while (fd < 0) {
        fd = (int)syscall(SYS_accept4, listener, NULL, NULL, flags);
        if (fd < 0)
            return fd;
        if (is_waker(fd)) {
            close(fd);
            fd = admitted_meanwhile(listener);
        } else if (!is_admitted(fd)) {
            park(fd);
            fd = -1;
        }
    }
    return fd;
}

/* In place of the C library's, for libraries, too. */
int accept4(int fd, struct sockaddr *addr, socklen_t *size, int flags)
{
    int got, saved;

    pthread_mutex_lock(&ports.lock);
    got = accept_one(fd, flags);
    saved = errno;
    pthread_mutex_unlock(&ports.lock);
    if (got >= 0 && addr)
        (void)getpeername(got, addr, size);
    errno = saved;
    return got;
}

int connect(int fd, const struct sockaddr *addr, socklen_t size)
{
    if (size >= sizeof(addr->sa_family) &&
        (addr->sa_family == AF_INET || addr->sa_family == AF_INET6)) {
        pthread_mutex_lock(&ports.lock);
        ports.own[ports.nown++ % OWN] = fd;
        pthread_mutex_unlock(&ports.lock);
    }
    return (int)syscall(SYS_connect, fd, addr, size);
}

int accept(int fd, struct sockaddr *addr, socklen_t *size)
{
    return accept4(fd, addr, size, 0);
}
