/* SPDX-License-Identifier: Apache-2.0 */
/* The back end that moves messages through streams (tls.h). */
#include "ckpt/transport/tls.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define EVENTS 64

/* --- opening and closing ---------------------------------------------------------- */

static void close_link(struct dlr_net_link *link)
{
    struct dlr_tls *net = (struct dlr_tls *)link;

    while (net->conns) {
        struct dlr_tls_conn *c = net->conns;

        net->conns = c->next;
        dlr_tls_shut(c);
        if (c->frames && !c->ended)
            dlr_frames_cancel(c->frames, -ECANCELED);
        dlr_frames_free(c->frames);
        free(c);
    }
    for (unsigned i = 0; i < net->self.n; i++)
        dlr_cleanup_close(&net->listeners[i].fd);
    dlr_cleanup_close(&net->timer);
    dlr_cleanup_close(&net->fd);
    SSL_CTX_free(net->ctx);
    dlr_tls_key_wipe(&net->key);
    free(net);
}

static int set_up(struct dlr_tls *net, const struct dlr_net_conf *conf,
                  struct dlr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    int rc;

    net->fd = epoll_create1(EPOLL_CLOEXEC);
    net->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (net->fd < 0 || net->timer < 0 ||
        epoll_ctl(net->fd, EPOLL_CTL_ADD, net->timer, &event) < 0)
        return dlr_fail(err, -errno, "cannot watch connections: %m");
    if (RAND_bytes(net->self.id, sizeof(net->self.id)) != 1)
        return dlr_fail(err, -EIO, "OpenSSL has no random bytes");
    rc = dlr_tls_context(&net->ctx, err);
    return rc < 0 ? rc : dlr_tls_listen(net, conf, err);
}

static int open_link(const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                     void *arg, struct dlr_net_link **ret, struct dlr_err *err)
{
    struct dlr_tls *net = calloc(1, sizeof(*net));
    int rc;

    if (!net)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *net = (struct dlr_tls){.base = {&dlr_net_tls},
                            .ops = *ops,
                            .arg = arg,
                            .fd = -1,
                            .timer = -1,
                            .due_ms = INT64_MAX,
                            .answer_ms = conf->answer_ms};
    rc = set_up(net, conf, err);
    if (rc < 0) {
        close_link(&net->base);
        return rc;
    }
    net->address_bytes = dlr_tls_address_write(&net->self, net->address);
    *ret = &net->base;
    return 0;
}

static void address(const struct dlr_net_link *link, const void **ret_addr,
                    size_t *ret_bytes)
{
    const struct dlr_tls *net = (const struct dlr_tls *)link;

    *ret_addr = net->address;
    *ret_bytes = net->address_bytes;
}

static int link_fd(const struct dlr_net_link *link)
{
    return ((const struct dlr_tls *)link)->fd;
}

/* --- driving ---------------------------------------------------------------------- */

static bool is_listener(const struct dlr_tls *net, const void *ptr)
{
    const struct dlr_tls_listener *l = ptr;

    return l >= net->listeners && l < net->listeners + DLR_TLS_PLACES_MAX;
}

static void note_events(struct dlr_tls *net)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(net->fd, events, EVENTS, 0);

    for (int i = 0; i < n; i++) {
        struct dlr_tls_conn *c = events[i].data.ptr;
        uint64_t times;

        if (!c) {
            (void)!read(net->timer, &times, sizeof(times));
            net->due_ms = 0;
        } else if (is_listener(net, c)) {
            net->can_accept = true;
        } else {
            c->can_read |= (events[i].events & ~(uint32_t)EPOLLOUT) != 0;
            c->can_write |= (events[i].events & ~(uint32_t)EPOLLIN) != 0;
        }
    }
}

/* Those that ended tell their users, who may end others. */
static unsigned end_over(struct dlr_tls *net)
{
    struct dlr_tls_conn *c;
    unsigned n = 0;

    for (;;) {
        for (c = net->conns; c && (c->state != DLR_TLS_OVER || c->ended); c = c->next)
            ;
        if (!c)
            return n;
        c->ended = true;
        dlr_tls_shut(c);
        n++;
        if (c->failed)
            net->ops.down(net->arg, &c->base, c->rc);
        if (c->frames)
            dlr_frames_cancel(c->frames, c->rc);
    }
}

static void forget_ended(struct dlr_tls *net)
{
    struct dlr_tls_conn **at = &net->conns, *c;

    while ((c = *at)) {
        bool idle = !c->base.refs && !(c->frames && dlr_frames_inflight(c->frames));

        if (idle && dlr_tls_outlived(c) && c->state == DLR_TLS_OPEN &&
            !dlr_tls_unsent(c))
            dlr_tls_over(c, 0);
        if (!c->ended || !idle) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        dlr_frames_free(c->frames);
        free(c);
    }
}

static void set_timer(struct dlr_tls *net, int64_t due_ms)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = due_ms / 1000, .tv_nsec = due_ms % 1000 * 1000000}};

    if (due_ms == net->due_ms)
        return;
    if (due_ms == INT64_MAX)
        when = (struct itimerspec){{0, 0}, {0, 0}};
    net->due_ms = due_ms;
    timerfd_settime(net->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static unsigned progress(struct dlr_net_link *link)
{
    struct dlr_tls *net = (struct dlr_tls *)link;
    int64_t due = INT64_MAX, now;
    unsigned n = 0;

    note_events(net);
    if (net->can_accept)
        n += dlr_tls_accept(net);
    for (struct dlr_tls_conn *c = net->conns; c; c = c->next)
        n += dlr_tls_work(c);
    now = dlr_now_ms();
    for (struct dlr_tls_conn *c = net->conns; c; c = c->next) {
        int64_t at = dlr_tls_tick(c, now);

        due = at < due ? at : due;
    }
    n += end_over(net);
    forget_ended(net);
    set_timer(net, due);
    return n;
}

static bool closing(const struct dlr_net_link *link)
{
    return false; /* what is closed ends with the next call */
}

static int arm(struct dlr_net_link *link)
{
    const struct dlr_tls *net = (const struct dlr_tls *)link;
    const struct dlr_tls_conn *c = net->conns;

    while (c && !dlr_tls_busy(c))
        c = c->next;
    return c || (net->can_accept && !net->starved) ? -EAGAIN : 0;
}

/* A connection that was made with a former key carries nothing new. */
static int set_key(struct dlr_net_link *link, const void *secret, size_t bytes)
{
    struct dlr_tls *net = (struct dlr_tls *)link;
    int64_t now = dlr_now_ms();
    struct dlr_tls_key key;
    int rc;

    memset(&key, 0, sizeof(key));
    rc = dlr_tls_key_make(&key, secret, bytes);
    if (rc == 0 && net->key.known &&
        CRYPTO_memcmp(key.key, net->key.key, sizeof(key.key)) == 0) {
        dlr_tls_key_wipe(&key);
        return 0;
    }
    for (struct dlr_tls_conn *c = net->conns; c; c = c->next) {
        c->stale = true;
        c->limit_ms = now + DLR_TLS_PROVE_MS;
        if (c->state < DLR_TLS_OPEN)
            dlr_tls_over(c, c->called ? 0 : -ECANCELED);
    }
    net->key = key;
    dlr_tls_key_wipe(&key);
    return rc;
}

/* --- connections ------------------------------------------------------------------ */

static struct dlr_tls_conn *known(struct dlr_tls *net, const struct dlr_tls_address *to)
{
    struct dlr_tls_conn *c = net->conns;

    while (c && (c->called || c->state == DLR_TLS_OVER || dlr_tls_outlived(c) ||
                 memcmp(c->to.id, to->id, sizeof(to->id)) != 0))
        c = c->next;
    return c;
}

static int peer(struct dlr_net_link *link, const void *addr, size_t bytes,
                struct dlr_net_peer **ret, struct dlr_err *err)
{
    struct dlr_tls *net = (struct dlr_tls *)link;
    struct dlr_tls_address to;
    struct dlr_tls_conn *c;
    int rc = dlr_tls_address_read(addr, bytes, &to);

    if (rc < 0)
        return dlr_fail(err, -EINVAL, "the receiver's address is malformed");
    c = known(net, &to);
    if (!c) {
        rc = dlr_tls_call(net, &to, &c);
        if (rc < 0)
            return dlr_fail(err, rc, "cannot connect: %s", strerror(-rc));
    }
    c->base.refs++;
    *ret = &c->base;
    return 0;
}

/* Answers go back where the question came from. */
static int sender(struct dlr_net_in *in, const void *addr, size_t bytes,
                  struct dlr_net_peer **ret, struct dlr_err *err)
{
    struct dlr_tls_conn *c = in->from;

    c->base.refs++;
    *ret = &c->base;
    return 0;
}

static void own_address(const struct dlr_net_peer *base, const void **ret_addr,
                        size_t *ret_bytes)
{
    address(&((const struct dlr_tls_conn *)base)->net->base, ret_addr, ret_bytes);
}

static void devices(const struct dlr_net_peer *base, char *ret, size_t size)
{
    union dlr_tls_place own;
    socklen_t bytes = sizeof(own);

    ret[0] = '\0';
    if (getsockname(((const struct dlr_tls_conn *)base)->fd, &own.any, &bytes) == 0)
        dlr_tls_device_of(&own, ret, size);
}

static int64_t moved_ms(const struct dlr_net_peer *base)
{
    return ((const struct dlr_tls_conn *)base)->moved_ms;
}

static void drop(struct dlr_net_peer *base)
{
    dlr_tls_over((struct dlr_tls_conn *)base, 0);
}

static void drop_idle(struct dlr_net_link *link)
{
    struct dlr_tls *net = (struct dlr_tls *)link;

    for (struct dlr_tls_conn *c = net->conns; c; c = c->next)
        if (!c->called && !c->base.refs && !dlr_frames_inflight(c->frames))
            dlr_tls_over(c, 0);
}

/* 0, or why nothing can be sent. */
static int frames_of(struct dlr_net_peer *base, struct dlr_frames **ret)
{
    struct dlr_tls_conn *c = (struct dlr_tls_conn *)base;

    *ret = c->frames;
    return c->state == DLR_TLS_OVER ? c->rc : 0;
}

static int send_whole(struct dlr_net_peer *base, unsigned kind,
                      struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    struct dlr_frames *frames;
    int rc = frames_of(base, &frames);

    return rc < 0 ? rc : dlr_frames_send(frames, kind, data, done, arg);
}

static int offer(struct dlr_net_peer *base, unsigned kind, struct dlr_net_part head,
                 struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    struct dlr_frames *frames;
    int rc = frames_of(base, &frames);

    return rc < 0 ? rc : dlr_frames_offer(frames, kind, head, data, done, arg);
}

static int tell(struct dlr_net_peer *base, unsigned kind, struct dlr_net_part data)
{
    struct dlr_frames *frames;
    int rc = frames_of(base, &frames);

    return rc < 0 ? rc : dlr_frames_tell(frames, kind, data);
}

static void reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data)
{
    (void)tell(in->from, kind, data);
}

static int take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg)
{
    const uint32_t *seq = in->desc;
    struct dlr_frames *frames;
    int rc = frames_of(in->from, &frames);

    if (rc == 0)
        rc = dlr_frames_take(frames, *seq, buf, in->bytes, done, arg);
    in->taken = rc == 0;
    return rc;
}

const struct dlr_net_back dlr_net_tls = {.id = 2,
                                         .sealed = true,
                                         .name = "tls",
                                         .open = open_link,
                                         .close = close_link,
                                         .set_key = set_key,
                                         .address = address,
                                         .fd = link_fd,
                                         .progress = progress,
                                         .closing = closing,
                                         .arm = arm,
                                         .peer = peer,
                                         .sender = sender,
                                         .own_address = own_address,
                                         .devices = devices,
                                         .moved_ms = moved_ms,
                                         .drop = drop,
                                         .drop_idle = drop_idle,
                                         .send = send_whole,
                                         .offer = offer,
                                         .tell = tell,
                                         .reply = reply,
                                         .take = take};
