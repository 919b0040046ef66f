/* SPDX-License-Identifier: Apache-2.0 */
/* The back end that moves messages with UCX (active messages). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ckpt/transport/net_backend.h"
#include "ckpt/transport/nic.h"
#include "ckpt/transport/ucx_request.h"
#include "ckpt/transport/worker.h"
#include "common/base/cleanup.h"

/* progress calls until the process gives up closing in order */
#define CLOSE_TRIES 10000

struct peer {
    struct dlr_net_peer base;
    struct peer *next;
    struct ucx *net;
    struct dlr_lane *own; /* NULL: on the main lane */
    ucp_ep_h ep;          /* NULL once it is closed or closing */
    ucs_status_ptr_t closing;
    struct dlr_ucx_use use;
    bool failed;
    ucs_status_t status;
    size_t bytes;
    unsigned char addr[];
};

/* Bulk goes out on a lane of its own for each receiver. UCX 1.13 keeps the socket of a
 * closed endpoint open while the other side may still send on it, and crashes when such
 * a socket fails while it also waits for room to write; only the end of the worker ends
 * it.
 */
struct ucx {
    struct dlr_net_link base;
    ucp_context_h context;
    struct dlr_lane main;
    int fd; /* epoll of all lanes */
    struct dlr_net_ops ops;
    void *arg;
    struct peer *peers;
    unsigned failed;            /* peers to report */
    struct dlr_ucx_use orphans; /* requests without a peer: replies and receives */
};

static ucs_status_t on_message(void *arg, const void *head, size_t head_bytes,
                               void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    struct dlr_lane_kind *kind = arg;
    struct ucx *net = kind->lane->owner;
    struct dlr_net_in in = {.head = head,
                            .head_bytes = head_bytes,
                            .data = data,
                            .bytes = bytes,
                            .back = &dlr_net_ucx,
                            .link = &net->base,
                            .lane = kind->lane};

    if (!bytes && head_bytes) { /* told or replied */
        in.data = head;
        in.bytes = head_bytes;
        in.head_bytes = 0;
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        in.offered = true;
        in.desc = data;
        in.data = NULL;
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)
        in.from = param->reply_ep;
    net->ops.in(net->arg, kind->kind, &in);
    if (!in.offered)
        return UCS_OK;
    return in.taken ? UCS_INPROGRESS : UCS_ERR_REJECTED;
}

static int open_lane(struct ucx *net, struct dlr_lane *lane, struct dlr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    int rc = dlr_lane_open(lane, net->context, on_message, net, err);

    if (rc == 0 && epoll_ctl(net->fd, EPOLL_CTL_ADD, lane->fd, &event) < 0) {
        rc = dlr_fail(err, -errno, "cannot watch a UCX worker: %m");
        dlr_lane_close(lane);
    }
    return rc;
}

/* Starts closing; true when nothing of the peer is left in UCX. */
static bool close_ep(struct peer *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};

    if (peer->ep) {
        peer->closing = ucp_ep_close_nbx(peer->ep, &param);
        peer->ep = NULL;
    }
    if (peer->closing && UCS_PTR_IS_PTR(peer->closing)) {
        if (ucp_request_check_status(peer->closing) == UCS_INPROGRESS)
            return false;
        ucp_request_free(peer->closing);
    }
    peer->closing = NULL;
    return peer->use.inflight == 0;
}

static void report_failed(struct ucx *net)
{
    struct peer *peer;

    while (net->failed) { /* a callback may drop others: begin again each time */
        net->failed--;
        for (peer = net->peers; peer && !(peer->failed && peer->ep); peer = peer->next)
            ;
        if (!peer)
            continue;
        net->ops.down(net->arg, &peer->base, dlr_lane_errno(peer->status));
        close_ep(peer);
    }
}

/* Outside of UCX's callbacks: reports failed peers, lets go of those that are closed.
 */
static void reap(struct ucx *net)
{
    struct peer **at = &net->peers, *peer;

    report_failed(net);
    while ((peer = *at)) {
        if (!peer->ep && close_ep(peer) && peer->own) {
            dlr_lane_close(peer->own);
            free(peer->own);
            peer->own = NULL;
        }
        if (!peer->ep && !peer->closing && !peer->use.inflight && !peer->base.refs) {
            *at = peer->next;
            free(peer);
        } else {
            at = &peer->next;
        }
    }
}

static void address(const struct dlr_net_link *link, const void **ret_addr,
                    size_t *ret_bytes)
{
    const struct ucx *net = (const struct ucx *)link;

    *ret_addr = net->main.address;
    *ret_bytes = net->main.address_bytes;
}

static void own_address(const struct dlr_net_peer *base, const void **ret_addr,
                        size_t *ret_bytes)
{
    const struct peer *peer = (const struct peer *)base;
    const struct dlr_lane *lane = peer->own ? peer->own : &peer->net->main;

    *ret_addr = lane->address;
    *ret_bytes = lane->address_bytes;
}

static int link_fd(const struct dlr_net_link *link)
{
    return ((const struct ucx *)link)->fd;
}

static unsigned progress(struct dlr_net_link *link)
{
    struct ucx *net = (struct ucx *)link;
    unsigned n = ucp_worker_progress(net->main.worker);

    for (struct peer *p = net->peers; p; p = p->next)
        if (p->own)
            n += ucp_worker_progress(p->own->worker);
    reap(net);
    return n;
}

static void close_link(struct dlr_net_link *link)
{
    struct ucx *net = (struct ucx *)link;

    for (struct peer *p = net->peers; p; p = p->next)
        close_ep(p);
    for (unsigned i = 0; net->peers && i < CLOSE_TRIES; i++)
        progress(link);
    if (net->peers || net->orphans.inflight)
        return;
    dlr_lane_close(&net->main);
    if (net->context)
        ucp_cleanup(net->context);
    dlr_cleanup_close(&net->fd);
    free(net);
}

static int open_link(const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                     void *arg, struct dlr_net_link **ret, struct dlr_err *err)
{
    struct ucx *net = calloc(1, sizeof(*net));
    int rc = 0;

    if (!net)
        return dlr_fail(err, -ENOMEM, "out of memory");
    net->base.back = &dlr_net_ucx;
    net->ops = *ops;
    net->arg = arg;
    net->fd = epoll_create1(EPOLL_CLOEXEC);
    if (net->fd < 0)
        rc = dlr_fail(err, -errno, "epoll_create1: %m");
    if (rc == 0)
        rc = dlr_lane_context(&net->context, err);
    if (rc == 0)
        rc = open_lane(net, &net->main, err);
    if (rc < 0) {
        close_link(&net->base);
        return rc;
    }
    *ret = &net->base;
    return 0;
}

static bool closing(const struct dlr_net_link *link)
{
    const struct peer *p = ((const struct ucx *)link)->peers;

    while (p && (p->ep || !(p->closing || p->use.inflight)))
        p = p->next;
    return p != NULL;
}

static int arm(struct dlr_net_link *link)
{
    struct ucx *net = (struct ucx *)link;
    ucs_status_t status = ucp_worker_arm(net->main.worker);

    for (struct peer *p = net->peers; p && status == UCS_OK; p = p->next)
        if (p->own)
            status = ucp_worker_arm(p->own->worker);
    return dlr_lane_errno(status);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct peer *peer = arg;

    if (peer->failed)
        return;
    peer->failed = true;
    peer->status = status;
    peer->net->failed++;
}

static struct peer *known(struct ucx *net, const void *addr, size_t bytes, bool own)
{
    struct peer *p = net->peers;

    while (p && (!p->ep || p->failed || own != (p->own != NULL) || p->bytes != bytes ||
                 memcmp(p->addr, addr, bytes) != 0))
        p = p->next;
    return p;
}

static int connect_peer(struct peer *p, struct dlr_err *err)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_error, .arg = p},
                              .address = (const ucp_address_t *)p->addr};
    const struct dlr_lane *lane = p->own ? p->own : &p->net->main;
    ucs_status_t status = ucp_ep_create(lane->worker, &params, &p->ep);

    if (status == UCS_OK)
        return 0;
    return dlr_fail(err, dlr_lane_errno(status), "cannot connect: %s",
                    ucs_status_string(status));
}

static int find_peer(struct ucx *net, const void *addr, size_t bytes, bool own,
                     struct dlr_net_peer **ret, struct dlr_err *err)
{
    struct peer *p = known(net, addr, bytes, own);
    int rc = 0;

    if (p) {
        p->base.refs++;
        *ret = &p->base;
        return 0;
    }
    p = calloc(1, sizeof(*p) + bytes);
    if (!p)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *p = (struct peer){
        .base = {.back = &dlr_net_ucx, .refs = 1}, .net = net, .bytes = bytes};
    memcpy(p->addr, addr, bytes);
    if (own) {
        p->own = calloc(1, sizeof(*p->own));
        rc = p->own ? open_lane(net, p->own, err)
                    : dlr_fail(err, -ENOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = connect_peer(p, err);
        if (rc < 0 && own)
            dlr_lane_close(p->own);
    }
    if (rc < 0) {
        free(p->own);
        free(p);
        return rc;
    }
    p->next = net->peers;
    net->peers = p;
    *ret = &p->base;
    return 0;
}

static int bulk_peer(struct dlr_net_link *link, const void *addr, size_t bytes,
                     struct dlr_net_peer **ret, struct dlr_err *err)
{
    return find_peer((struct ucx *)link, addr, bytes, true, ret, err);
}

static int sender(struct dlr_net_in *in, const void *addr, size_t bytes,
                  struct dlr_net_peer **ret, struct dlr_err *err)
{
    return find_peer((struct ucx *)in->link, addr, bytes, false, ret, err);
}

static void devices(const struct dlr_net_peer *base, char *ret, size_t size)
{
    const struct peer *peer = (const struct peer *)base;
    DLR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = peer->ep ? open_memstream(&text, &bytes) : NULL;

    if (out) {
        ucp_ep_print_info(peer->ep, out);
        fclose(out);
    }
    dlr_nic_parse(text ? text : "", ret, size);
}

static int64_t moved_ms(const struct dlr_net_peer *base)
{
    return ((const struct peer *)base)->use.moved_ms;
}

static void drop(struct dlr_net_peer *base)
{
    close_ep((struct peer *)base);
}

static void drop_idle(struct dlr_net_link *link)
{
    for (struct peer *p = ((struct ucx *)link)->peers; p; p = p->next)
        if (!p->base.refs && !p->use.inflight)
            close_ep(p);
}

static int post_peer(struct dlr_net_peer *base, unsigned kind, uint32_t flags,
                     struct dlr_net_part head, struct dlr_net_part data,
                     dlr_net_done_fn done, void *arg)
{
    struct peer *peer = (struct peer *)base;

    if (!peer->ep || peer->failed)
        return -ENOTCONN;
    return dlr_ucx_send(&peer->use, peer->ep, kind, flags, head, data, done, arg);
}

static int send_whole(struct dlr_net_peer *peer, unsigned kind,
                      struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    return post_peer(peer, kind, UCP_AM_SEND_FLAG_EAGER, (struct dlr_net_part){0}, data,
                     done, arg);
}

static int offer(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part head,
                 struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    return post_peer(peer, kind, UCP_AM_SEND_FLAG_RNDV, head, data, done, arg);
}

static int tell(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data)
{
    return post_peer(peer, kind, UCP_AM_SEND_FLAG_EAGER, data, (struct dlr_net_part){0},
                     NULL, NULL);
}

static void reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data)
{
    struct ucx *net = (struct ucx *)in->link;

    if (in->from)
        (void)dlr_ucx_send(&net->orphans, in->from, kind, UCP_AM_SEND_FLAG_EAGER, data,
                           (struct dlr_net_part){0}, NULL, NULL);
}

static int take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg)
{
    return dlr_ucx_take(&((struct ucx *)in->link)->orphans, in, buf, done, arg);
}

const struct dlr_net_back dlr_net_ucx = {.id = 1,
                                         .name = "ucx",
                                         .open = open_link,
                                         .close = close_link,
                                         .address = address,
                                         .fd = link_fd,
                                         .progress = progress,
                                         .closing = closing,
                                         .arm = arm,
                                         .peer = bulk_peer,
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
