/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/guard.h"

#include <czmq.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/caller.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/tcp_bytes.h"

#define EVENTS                                                                         \
    (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |    \
     ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_DISCONNECTED |                   \
     ZMQ_EVENT_CLOSED | ZMQ_EVENT_CLOSE_FAILED)
#define FDS_MAX (128 << 10) /* connections above are cut */
#define SLACK_MS 500        /* a handshake's limit is noticed so much early, or late */
#define GREETING 64         /* bytes: all that who has not our key gets as an answer */
/* bytes: libzmq would hold as many as a message may have */
#define BEFORE_ANSWER (64 << 10)

/* A connection that has not proven its key; those form a list, oldest first. By
 * descriptor.
 */
struct half {
    bool is;
    unsigned group;    /* of its host */
    int before, after; /* -1: none */
    int64_t since_ms;
};

struct dlr_guard {
    zsock_t *sock; /* the server's */
    zactor_t *actor;
    void *events; /* a PAIR of libzmq's monitor */
    int arrivals; /* an epoll of the connections that have no answer yet */
    struct half *half;
    int handshake_ms;
    int oldest, newest;             /* -1: none */
    unsigned n, all;                /* unproven, and with those that have proven it */
    unsigned of_group[DLR_CALLERS]; /* unproven */
    atomic_uint n_max, all_max;
    bool left; /* the next connection that ends went by itself */
    /* handshakes that succeeded; of which connection, libzmq does not say */
    unsigned shaken;
    atomic_bool proven[FDS_MAX]; /* by a message that came */
    atomic_uint_fast64_t auth_failures;
    atomic_bool full, went, closed; /* see dlr_guard_is_full() */
};

static bool is_proven(const struct dlr_guard *g, int fd)
{
    return fd >= 0 && fd < FDS_MAX && atomic_load(&g->proven[fd]);
}

bool dlr_guard_proven(struct dlr_guard *guard, int fd)
{
    return fd >= 0 && fd < FDS_MAX && !atomic_exchange(&guard->proven[fd], true);
}

static void put_in(struct dlr_guard *g, int fd)
{
    unsigned group = dlr_caller_group(fd);

    g->half[fd] = (struct half){true, group, g->newest, -1, dlr_now_ms()};
    g->of_group[group]++;
    if (g->newest >= 0)
        g->half[g->newest].after = fd;
    else
        g->oldest = fd;
    g->newest = fd;
    g->n++;
}

/* Forgets a connection; -1 when it has proven its key, else for how long it was there.
 */
static int64_t take_out(struct dlr_guard *g, int fd)
{
    struct half *h = fd >= 0 && fd < FDS_MAX ? &g->half[fd] : NULL;

    if (!h || !h->is)
        return -1;
    if (h->before >= 0)
        g->half[h->before].after = h->after;
    else
        g->oldest = h->after;
    if (h->after >= 0)
        g->half[h->after].before = h->before;
    else
        g->newest = h->before;
    h->is = false;
    g->of_group[h->group]--;
    g->n--;
    return dlr_now_ms() - h->since_ms;
}

static void take_out_proven(struct dlr_guard *g)
{
    for (int fd = g->oldest, next; fd >= 0; fd = next) {
        next = g->half[fd].after;
        if (is_proven(g, fd)) {
            take_out(g, fd);
            g->shaken -= g->shaken > 0;
        }
    }
}

static bool is_crowded(const struct dlr_guard *g)
{
    return g->n > atomic_load(&g->n_max) || g->all > atomic_load(&g->all_max);
}

/* libzmq reads an end of file and closes. Should the number mean another connection by
 * now, that one is made again by its owner.
 */
static void cut(struct dlr_guard *g, int fd)
{
    shutdown(fd, SHUT_RDWR);
    take_out(g, fd);
    g->auth_failures++;
}

/* Of the host that has most of them. */
static int oldest_of_most(const struct dlr_guard *g)
{
    unsigned most = 0;
    int fd = g->oldest;

    for (unsigned i = 1; i < DLR_CALLERS; i++)
        if (g->of_group[i] > g->of_group[most])
            most = i;
    while (g->half[fd].group != most)
        fd = g->half[fd].after;
    return fd;
}

/* CURVE: whoever has our key gets an answer to his first bytes, and sends no message
 * before.
 */
static void look(struct dlr_guard *g, int fd)
{
    uint64_t confirmed, received;

    if (dlr_tcp_bytes(fd, &confirmed, &received) == 0 && confirmed <= GREETING + 1) {
        if (received <= BEFORE_ANSWER)
            return;
        if (g->half[fd].is)
            cut(g, fd);
    }
    epoll_ctl(g->arrivals, EPOLL_CTL_DEL, fd, NULL);
}

/* Its bytes wake us until it is known whether it had an answer; libzmq may have read
 * all there are before.
 */
static void watch(struct dlr_guard *g, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

    (void)epoll_ctl(g->arrivals, EPOLL_CTL_ADD, fd, &event);
    look(g, fd);
}

static void look_at_arrivals(struct dlr_guard *g)
{
    struct epoll_event some[64];
    int n = epoll_wait(g->arrivals, some, sizeof(some) / sizeof(*some), 0);

    for (int i = 0; i < n; i++)
        look(g, some[i].data.fd);
}

static void came(struct dlr_guard *g, int fd)
{
    g->all++;
    if (fd >= FDS_MAX) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    take_out(g, fd);
    put_in(g, fd);
    watch(g, fd);
    if (!is_crowded(g))
        return;
    take_out_proven(g);
    if (is_crowded(g) && g->oldest >= 0)
        cut(g, oldest_of_most(g));
}

/* libzmq says first that a handshake failed without a reason when the other side went
 * away or took too long; what broke the protocol ends without that.
 */
static void went(struct dlr_guard *g, int fd)
{
    bool proven = is_proven(g, fd);
    int64_t age = take_out(g, fd);

    g->all -= g->all > 0;
    atomic_store(&g->went, true);
    if (age >= 0 && !g->left && g->shaken > 0) {
        g->shaken--;
        proven = true;
    }
    if (fd >= 0 && fd < FDS_MAX)
        atomic_store(&g->proven[fd], false);
    if (age >= 0 && !proven && (!g->left || age > g->handshake_ms - SLACK_MS))
        g->auth_failures++;
    g->left = false;
}

/* libzmq tries again at once, and for as long as one waits to be accepted. */
static void failed(struct dlr_guard *g, int error)
{
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
        return;
    if (!atomic_load(&g->full)) {
        atomic_store(&g->went, false);
        atomic_store(&g->closed, false);
    }
    atomic_store(&g->full, true);
}

/* libzmq cuts all connections of a port that it closes, and says nothing of each. */
static void forget_all(struct dlr_guard *g)
{
    while (g->oldest >= 0)
        take_out(g, g->oldest);
    for (int fd = 0; g->all > 0 && fd < FDS_MAX; fd++)
        atomic_store(&g->proven[fd], false);
    if (g->all > 0)
        atomic_store(&g->went, true);
    g->all = g->shaken = 0;
    g->left = false;
    atomic_store(&g->closed, true);
}

bool dlr_guard_is_full(const struct dlr_guard *guard)
{
    return atomic_load(&guard->full);
}

bool dlr_guard_is_closed(const struct dlr_guard *guard)
{
    return atomic_load(&guard->closed);
}

bool dlr_guard_has_room(struct dlr_guard *guard)
{
    return atomic_exchange(&guard->went, false);
}

void dlr_guard_reopened(struct dlr_guard *guard)
{
    atomic_store(&guard->full, false);
}

void dlr_guard_expect(struct dlr_guard *guard, unsigned clients, unsigned connections)
{
    atomic_store(&guard->n_max, clients + DLR_GUARD_HALF_OPEN);
    atomic_store(&guard->all_max, connections);
}

/* An event: number and value in one frame, the address in the next. */
static void take(struct dlr_guard *g)
{
    uint16_t event = 0;
    uint32_t value = 0;
    zmq_msg_t frame;

    for (bool first = true, more = true; more; first = false) {
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, g->events, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            return;
        }
        if (first && zmq_msg_size(&frame) >= sizeof(event) + sizeof(value)) {
            memcpy(&event, zmq_msg_data(&frame), sizeof(event));
            memcpy(&value, (char *)zmq_msg_data(&frame) + sizeof(event), sizeof(value));
        }
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    if (event == ZMQ_EVENT_ACCEPTED)
        came(g, (int)value);
    else if (event == ZMQ_EVENT_ACCEPT_FAILED)
        failed(g, (int)value);
    else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
        g->shaken++;
    else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        g->left = true;
    else if (event == ZMQ_EVENT_DISCONNECTED)
        went(g, (int)value);
    else if (event == ZMQ_EVENT_CLOSED || event == ZMQ_EVENT_CLOSE_FAILED)
        forget_all(g);
}

static void run(zsock_t *pipe, void *arg)
{
    struct dlr_guard *g = arg;
    zpoller_t *poller = zpoller_new(pipe, g->events, &g->arrivals, NULL);
    void *which;

    zsock_signal(pipe, 0);
    while ((which = zpoller_wait(poller, -1)) && which != pipe) {
        if (which == g->events)
            take(g);
        look_at_arrivals(g);
    }
    zpoller_destroy(&poller);
}

struct dlr_guard *dlr_guard_free(struct dlr_guard *guard)
{
    if (!guard)
        return NULL;
    zactor_destroy(&guard->actor);
    /* First this: libzmq's thread would wait for one who reads what it says. */
    if (guard->events)
        zmq_socket_monitor(zsock_resolve(guard->sock), NULL, 0);
    if (guard->events)
        zmq_close(guard->events);
    if (guard->arrivals >= 0)
        close(guard->arrivals);
    free(guard->half);
    free(guard);
    return NULL;
}

static void cleanup_guard(struct dlr_guard **guard)
{
    dlr_guard_free(*guard);
}

int dlr_guard_new(zsock_t *sock, int handshake_ms, struct dlr_guard **ret_guard,
                  struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_guard) struct dlr_guard *g = calloc(1, sizeof(*g));
    int no_limit = 0;
    uint64_t random; /* libzmq frees a name some time after its socket */
    char name[64];

    if (!g)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return dlr_fail(err, -errno, "getrandom: %s", strerror(errno));
    dlr_format(name, sizeof(name), "inproc://guard-%016" PRIx64, random);
    g->sock = sock;
    g->handshake_ms = handshake_ms;
    g->oldest = g->newest = -1;
    dlr_guard_expect(g, 0, UINT_MAX);
    g->half = calloc(FDS_MAX, sizeof(*g->half));
    g->arrivals = -1;
    if (!g->half)
        return dlr_fail(err, -ENOMEM, "out of memory");
    g->arrivals = epoll_create1(EPOLL_CLOEXEC);
    if (g->arrivals < 0)
        return dlr_fail(err, -errno, "cannot watch a port: %s", strerror(errno));
    g->events = zmq_socket(zsys_init(), ZMQ_PAIR);
    /* libzmq's own thread waits when this queue is full. */
    if (!g->events ||
        zmq_setsockopt(g->events, ZMQ_RCVHWM, &no_limit, sizeof(no_limit)) < 0 ||
        zmq_socket_monitor(zsock_resolve(sock), name, EVENTS) < 0 ||
        zmq_connect(g->events, name) < 0)
        return dlr_fail(err, -zmq_errno(), "cannot watch a port: %s",
                        zmq_strerror(zmq_errno()));
    g->actor = zactor_new(run, g);
    if (!g->actor)
        return dlr_fail(err, -EAGAIN, "cannot start a thread");
    *ret_guard = DLR_STEAL(g);
    return 0;
}

uint64_t dlr_guard_auth_failures(const struct dlr_guard *guard)
{
    return atomic_load(&guard->auth_failures);
}
