/* SPDX-License-Identifier: Apache-2.0 */
/* One connection, from the first byte to the last. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckpt/transport/tls.h"
#include "common/base/caller.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"

/* bytes of one call and direction, before others have a turn */
#define BUDGET (512 * 1024)
#define PAUSE_MS 20 /* before one whose key was not known is tried again, doubled */
#define PAUSE_MAX_MS 200

void dlr_tls_over(struct dlr_tls_conn *c, int rc)
{
    if (c->state == DLR_TLS_OVER)
        return;
    c->state = DLR_TLS_OVER;
    c->failed = rc < 0;
    c->rc = rc < 0 ? rc : -ECANCELED;
}

void dlr_tls_shut(struct dlr_tls_conn *c)
{
    SSL_free(c->ssl);
    c->ssl = NULL;
    dlr_cleanup_close(&c->fd);
    c->fd = -1;
    c->can_read = c->can_write = false;
}

static int watch(struct dlr_tls_conn *c)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = c};
    int on = 1;

    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return epoll_ctl(c->net->fd, EPOLL_CTL_ADD, c->fd, &event) < 0 ? -errno : 0;
}

/* --- frames ----------------------------------------------------------------------- */

static void on_message(void *arg, unsigned kind, const void *data, size_t bytes)
{
    struct dlr_tls_conn *c = arg;
    struct dlr_net_in in = {.data = data,
                            .bytes = bytes,
                            .sealed = true,
                            .back = c->net->base.back,
                            .link = &c->net->base,
                            .from = c};

    if (!c->stale && c->state == DLR_TLS_OPEN)
        c->net->ops.in(c->net->arg, kind, &in);
}

static void on_offered(void *arg, unsigned kind, struct dlr_net_part head,
                       uint64_t bytes, uint32_t seq)
{
    struct dlr_tls_conn *c = arg;
    struct dlr_net_in in = {.offered = true,
                            .head = head.at,
                            .head_bytes = head.bytes,
                            .bytes = (size_t)bytes,
                            .sealed = true,
                            .back = c->net->base.back,
                            .link = &c->net->base,
                            .from = c,
                            .desc = &seq};

    if (!c->stale && c->state == DLR_TLS_OPEN)
        c->net->ops.in(c->net->arg, kind, &in);
}

static const struct dlr_frames_ops frames_ops = {on_message, on_offered};

/* --- beginning -------------------------------------------------------------------- */

static struct dlr_tls_conn *new_conn(struct dlr_tls *net, int fd)
{
    struct dlr_tls_conn *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->base.back = net->base.back;
    c->net = net;
    c->fd = fd;
    c->limit_ms = dlr_now_ms() + DLR_TLS_PROVE_MS;
    c->next = net->conns;
    net->conns = c;
    return c;
}

int dlr_tls_accepted(struct dlr_tls *net, int fd)
{
    struct dlr_tls_conn *c = new_conn(net, fd);
    int rc;

    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->called = true;
    c->group = dlr_caller_group(fd);
    rc = watch(c);
    if (rc < 0)
        dlr_tls_over(c, rc);
    return rc;
}

/* TCP to the next place; 0 or -errno. */
static int connect_place(struct dlr_tls_conn *c)
{
    const union dlr_tls_place *to = &c->to.places[c->place];

    c->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return -errno;
    if (connect(c->fd, &to->any, dlr_tls_place_bytes(to)) < 0 && errno != EINPROGRESS)
        return -errno;
    c->state = DLR_TLS_CALLING;
    c->try_ms = c->to.n > 1 ? dlr_now_ms() + DLR_TLS_PLACE_MS : INT64_MAX;
    return watch(c);
}

/* This place was nothing, with rc: the next one, or once more from the first. */
static void call_next(struct dlr_tls_conn *c, int rc)
{
    do {
        dlr_tls_shut(c);
        if (c->place + 1 >= c->to.n) {
            if (!c->answered && rc != -ETIMEDOUT) { /* nobody listens */
                dlr_tls_over(c, rc);
                return;
            }
            c->state = DLR_TLS_PAUSE;
            c->place = 0;
            c->answered = false;
            c->try_ms = dlr_now_ms() + c->pause_ms;
            c->pause_ms =
                c->pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : c->pause_ms * 2;
            return;
        }
        c->place++;
        rc = connect_place(c);
    } while (rc < 0);
}

static void call_first(struct dlr_tls_conn *c)
{
    int rc;

    c->place = 0;
    rc = connect_place(c);
    if (rc < 0)
        call_next(c, rc);
}

int dlr_tls_call(struct dlr_tls *net, const struct dlr_tls_address *to,
                 struct dlr_tls_conn **ret)
{
    struct dlr_frames *frames;
    struct dlr_tls_conn *c = new_conn(net, -1);

    if (!c)
        return -ENOMEM;
    frames = dlr_frames_new(&frames_ops, c);
    if (!frames) {
        net->conns = c->next;
        free(c);
        return -ENOMEM;
    }
    c->frames = frames;
    c->to = *to;
    c->pause_ms = PAUSE_MS;
    c->limit_ms = dlr_now_ms() + net->answer_ms;
    call_first(c);
    *ret = c;
    return 0;
}

/* --- the handshake ---------------------------------------------------------------- */

static void begin_tls(struct dlr_tls_conn *c)
{
    c->ssl = dlr_tls_new(c->net->ctx, c->fd, c->called, &c->net->key,
                         c->called ? c->net->self.id : c->to.id, &c->who);
    if (c->ssl)
        c->state = DLR_TLS_HANDSHAKE;
    else
        dlr_tls_over(c, -ENOMEM);
}

/* It was called: by somebody who speaks TLS, or it ends before anything is reserved for
 * it.
 */
static unsigned hear_hello(struct dlr_tls_conn *c)
{
    unsigned char first[DLR_TLS_HELLO_MAX];
    ssize_t n;
    int rc;

    if (!c->can_read)
        return 0;
    c->can_read = false; /* more of it comes with an event */
    n = recv(c->fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 1;
    rc = n > 0 && c->net->key.known ? dlr_tls_is_hello(first, (size_t)n) : -EBADMSG;
    if (rc < 0)
        dlr_tls_over(c, 0);
    else if (rc > 0)
        begin_tls(c);
    return 1;
}

static unsigned end_connect(struct dlr_tls_conn *c)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (!c->can_write && !c->can_read)
        return 0;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error)
        call_next(c, -error);
    else
        begin_tls(c);
    return 1;
}

static unsigned shake_hands(struct dlr_tls_conn *c)
{
    int rc;

    if (!c->can_write && !c->can_read && SSL_in_before(c->ssl) == 0)
        return 0;
    c->can_read = c->can_write = false; /* until the next event */
    rc = dlr_tls_handshake(c->ssl);
    if (rc == 0)
        return 1;
    if (rc < 0 && c->called) {
        dlr_debug("a connection could not prove who made it");
        dlr_tls_over(c, 0);
        return 1;
    }
    if (rc < 0) {
        c->answered = c->met = true;
        call_next(c, rc);
        return 1;
    }
    if (!c->frames)
        c->frames = dlr_frames_new(&frames_ops, c);
    if (!c->frames) {
        dlr_tls_over(c, -ENOMEM);
        return 1;
    }
    c->state = DLR_TLS_OPEN;
    c->can_read = c->can_write = true; /* what came with the handshake gives no event */
    c->moved_ms = dlr_now_ms();
    return 1;
}

/* --- data ------------------------------------------------------------------------- */

static unsigned read_some(struct dlr_tls_conn *c)
{
    unsigned times = 0;
    size_t all = 0;

    while (c->state == DLR_TLS_OPEN && c->can_read && all < BUDGET &&
           !dlr_frames_full(c->frames)) {
        size_t room;
        ssize_t n;
        void *to;
        int rc;

        dlr_frames_room(c->frames, &to, &room);
        n = dlr_tls_read(c->ssl, to, room);
        if (n == -EAGAIN) {
            c->can_read = false;
            break;
        }
        if (n < 0) {
            dlr_tls_over(c, (int)n);
            return times + 1;
        }
        times++;
        all += (size_t)n;
        rc = dlr_frames_came(c->frames, (size_t)n);
        if (rc < 0)
            dlr_tls_over(c, rc);
    }
    c->moved_bytes += all;
    return times;
}

static void flush(struct dlr_tls_conn *c)
{
    int rc = dlr_tls_flush(c->ssl);

    if (rc == 0)
        c->unflushed = false;
    else if (rc == -EAGAIN)
        c->can_write = false;
    else
        dlr_tls_over(c, rc);
}

static unsigned write_some(struct dlr_tls_conn *c)
{
    unsigned times = 0;
    const void *from;
    size_t all = 0, bytes;

    while (c->state == DLR_TLS_OPEN && c->can_write && all < BUDGET &&
           dlr_frames_next(c->frames, &from, &bytes)) {
        ssize_t n = dlr_tls_write(c->ssl, from, bytes);

        if (n == -EAGAIN) {
            c->can_write = false;
            break;
        }
        if (n < 0) {
            dlr_tls_over(c, (int)n);
            return times + 1;
        }
        times++;
        all += (size_t)n;
        c->unflushed = true;
        dlr_frames_went(c->frames, (size_t)n);
    }
    c->moved_bytes += all;
    if (c->state == DLR_TLS_OPEN && c->can_write && c->unflushed && all < BUDGET)
        flush(c);
    return times;
}

unsigned dlr_tls_work(struct dlr_tls_conn *c)
{
    unsigned n;

    switch (c->state) {
    case DLR_TLS_HELLO:
        return hear_hello(c);
    case DLR_TLS_CALLING:
        return end_connect(c);
    case DLR_TLS_HANDSHAKE:
        return shake_hands(c);
    case DLR_TLS_OPEN:
        n = read_some(c);
        n += write_some(c);
        if (n)
            c->moved_ms = dlr_now_ms();
        return n;
    default:
        return 0;
    }
}

bool dlr_tls_unsent(const struct dlr_tls_conn *c)
{
    const void *from;
    size_t bytes;

    return c->unflushed || dlr_frames_next(c->frames, &from, &bytes);
}

bool dlr_tls_busy(const struct dlr_tls_conn *c)
{
    if (c->state == DLR_TLS_OVER)
        return !c->ended;
    if (c->state == DLR_TLS_HANDSHAKE)
        return c->can_read || c->can_write || SSL_in_before(c->ssl);
    if (c->state != DLR_TLS_OPEN)
        return c->can_read;
    return (c->can_read && !dlr_frames_full(c->frames)) ||
           (c->can_write && dlr_tls_unsent(c));
}

bool dlr_tls_outlived(const struct dlr_tls_conn *c)
{
    return c->stale || (!c->called && c->moved_bytes >= DLR_TLS_RETIRE_BYTES);
}

/* Of a connection that is not made yet, or for nothing new. Whoever is met has so long
 * to have our key; where nobody answers it is tried until our users give it up.
 */
static int64_t limit_of(const struct dlr_tls_conn *c)
{
    return c->called || c->stale || c->met ? c->limit_ms : INT64_MAX;
}

int64_t dlr_tls_tick(struct dlr_tls_conn *c, int64_t now_ms)
{
    int64_t limit = limit_of(c);

    if ((c->state == DLR_TLS_OPEN && !c->stale) || c->state == DLR_TLS_OVER)
        return INT64_MAX;
    if (now_ms >= limit) {
        dlr_tls_over(c, c->called || c->stale ? 0 : -ESTALE);
        return INT64_MAX;
    }
    if (c->called || c->state == DLR_TLS_OPEN)
        return limit;
    if (now_ms >= c->try_ms && c->state == DLR_TLS_PAUSE)
        call_first(c);
    else if (now_ms >= c->try_ms)
        call_next(c, -ETIMEDOUT);
    limit = limit_of(c);
    return c->state == DLR_TLS_OVER ? INT64_MAX : c->try_ms < limit ? c->try_ms : limit;
}
