/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/data_ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "ckpt/data_wire.h"
#include "common/cleanup.h"
#include "common/log.h"

struct dlr_net_peer {
    struct dlr_net_peer *next;
    struct dlr_net *net;
    ucp_ep_h ep; /* NULL once it is closed or closing */
    ucs_status_ptr_t closing;
    unsigned ops;  /* in flight */
    unsigned refs; /* of our callers */
    bool failed;
    ucs_status_t status;
    size_t bytes;
    unsigned char addr[];
};

struct dlr_net {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int fd;
    struct dlr_net_ops ops;
    void *arg;
    struct dlr_net_peer *peers;
    struct kind {
        struct dlr_net *net;
        unsigned kind;
    } kinds[DLR_WIRE_ACK + 1];
    unsigned failed, orphans; /* peers to report; requests in flight without a peer */
};

/* A request in flight. */
struct op {
    struct dlr_net *net;
    struct dlr_net_peer *peer; /* NULL: a reply or a receive */
    dlr_net_done_fn done;
    void *arg;
    size_t bytes;
    unsigned char head[DLR_NET_HEAD_MAX]; /* UCX reads it until the request ends */
};

static int net_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_ERR_NO_MEMORY:
        return -ENOMEM;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return -EINVAL;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
        return -EHOSTUNREACH;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
        return -ECONNRESET;
    case UCS_ERR_TIMED_OUT:
        return -ETIMEDOUT;
    case UCS_ERR_CANCELED:
        return -ECANCELED;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return -EMSGSIZE;
    case UCS_ERR_REJECTED:
        return -ECONNREFUSED;
    case UCS_ERR_BUSY:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

static int fail(struct dlr_err *err, ucs_status_t status, const char *what)
{
    return dlr_fail(err, net_errno(status), "%s: %s", what, ucs_status_string(status));
}

static int open_context(struct dlr_net *net, struct dlr_err *err)
{
    ucp_params_t params = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                           .name = "dlrover-data"};
    ucp_config_t *config;
    ucs_status_t status;

    /* A connect to a black hole must not block (133 s with the default of UCX 1.13). Only the
     * environment reaches a transport's settings: ucp_config_modify() calls it invalid.
     */
    setenv("UCX_TCP_CONN_NB", "y", 0);
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return fail(err, status, "cannot read UCX's configuration");
    status = ucp_init(&params, config, &net->context);
    ucp_config_release(config);
    return status == UCS_OK ? 0 : fail(err, status, "cannot start UCX");
}

static ucs_status_t on_message(void *arg, const void *head, size_t head_bytes,
                               void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    struct kind *kind = arg;
    struct dlr_net_in in = {.head = head,
                            .head_bytes = head_bytes,
                            .data = data,
                            .bytes = bytes,
                            .net = kind->net};

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
        in.reply_ep = param->reply_ep;
    kind->net->ops.in(kind->net->arg, kind->kind, &in);
    if (!in.offered)
        return UCS_OK;
    return in.taken ? UCS_INPROGRESS : UCS_ERR_REJECTED;
}

static int open_worker(struct dlr_net *net, struct dlr_err *err)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t status = ucp_worker_create(net->context, &params, &net->worker);

    if (status == UCS_OK)
        status = ucp_worker_get_efd(net->worker, &net->fd);
    if (status == UCS_OK)
        status =
            ucp_worker_get_address(net->worker, &net->address, &net->address_bytes);
    for (unsigned i = DLR_WIRE_BEGIN; status == UCS_OK && i <= DLR_WIRE_ACK; i++) {
        ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = i,
                                          .cb = on_message,
                                          .arg = &net->kinds[i]};

        net->kinds[i] = (struct kind){.net = net, .kind = i};
        status = ucp_worker_set_am_recv_handler(net->worker, &handler);
    }
    return status == UCS_OK ? 0 : fail(err, status, "cannot open a UCX worker");
}

int dlr_net_open(const struct dlr_net_ops *ops, void *arg, struct dlr_net **ret,
                 struct dlr_err *err)
{
    struct dlr_net *net = calloc(1, sizeof(*net));
    int rc;

    if (!net)
        return dlr_fail(err, -ENOMEM, "out of memory");
    net->ops = *ops;
    net->arg = arg;
    rc = open_context(net, err);
    if (rc == 0)
        rc = open_worker(net, err);
    if (rc < 0) {
        dlr_net_close(net);
        return rc;
    }
    *ret = net;
    return 0;
}

/* Starts closing; true when nothing of the peer is left in UCX. */
static bool close_ep(struct dlr_net_peer *peer)
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
    return peer->ops == 0 && peer->refs == 0;
}

/* Reports failed peers and frees those that are closed. */
static void reap(struct dlr_net *net)
{
    struct dlr_net_peer **at = &net->peers, *peer;

    while (net->failed) { /* a callback may drop others: begin again each time */
        for (peer = net->peers; peer && !(peer->failed && peer->ep); peer = peer->next)
            ;
        if (!peer)
            break;
        net->failed--;
        net->ops.down(net->arg, peer, net_errno(peer->status));
        close_ep(peer);
    }
    net->failed = 0;
    while ((peer = *at)) {
        if (!peer->ep && close_ep(peer)) {
            *at = peer->next;
            free(peer);
        } else {
            at = &peer->next;
        }
    }
}

struct dlr_net *dlr_net_close(struct dlr_net *net)
{
    if (!net)
        return NULL;
    for (struct dlr_net_peer *p = net->peers; p; p = p->next)
        close_ep(p);
    for (unsigned i = 0; net->peers && i < 1000; i++) {
        ucp_worker_progress(net->worker);
        reap(net);
    }
    if (net->peers || net->orphans)
        return NULL;
    if (net->address)
        ucp_worker_release_address(net->worker, net->address);
    if (net->worker)
        ucp_worker_destroy(net->worker);
    if (net->context)
        ucp_cleanup(net->context);
    free(net);
    return NULL;
}

void dlr_net_address(const struct dlr_net *net, const void **ret_addr,
                     size_t *ret_bytes)
{
    *ret_addr = net->address;
    *ret_bytes = net->address_bytes;
}

int dlr_net_fd(const struct dlr_net *net)
{
    return net->fd;
}

unsigned dlr_net_progress(struct dlr_net *net)
{
    unsigned n = ucp_worker_progress(net->worker);

    reap(net);
    return n;
}

int dlr_net_arm(struct dlr_net *net)
{
    return net_errno(ucp_worker_arm(net->worker));
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct dlr_net_peer *peer = arg;

    if (peer->failed)
        return;
    peer->failed = true;
    peer->status = status;
    peer->net->failed++;
}

int dlr_net_peer(struct dlr_net *net, const void *addr, size_t bytes,
                 struct dlr_net_peer **ret, struct dlr_err *err)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_error}};
    struct dlr_net_peer *p;
    ucs_status_t status;

    for (p = net->peers; p; p = p->next) {
        if (p->ep && !p->failed && p->bytes == bytes &&
            memcmp(p->addr, addr, bytes) == 0) {
            p->refs++;
            *ret = p;
            return 0;
        }
    }
    p = calloc(1, sizeof(*p) + bytes);
    if (!p)
        return dlr_fail(err, -ENOMEM, "out of memory");
    p->net = net;
    p->bytes = bytes;
    memcpy(p->addr, addr, bytes);
    params.address = (const ucp_address_t *)p->addr;
    params.err_handler.arg = p;
    status = ucp_ep_create(net->worker, &params, &p->ep);
    if (status != UCS_OK) {
        free(p);
        return fail(err, status, "cannot connect");
    }
    p->next = net->peers;
    net->peers = p;
    p->refs = 1;
    *ret = p;
    return 0;
}

void dlr_net_peer_put(struct dlr_net_peer *peer)
{
    if (peer)
        peer->refs--;
}

void dlr_net_drop(struct dlr_net *net, struct dlr_net_peer *peer)
{
    if (peer->ep)
        close_ep(peer);
}

static void finish(struct op *op, int rc)
{
    if (op->peer)
        op->peer->ops--;
    else
        op->net->orphans--;
    if (op->done)
        op->done(op->arg, rc);
    free(op);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    finish(arg, net_errno(status));
}

static int post(struct op op, ucp_ep_h ep, unsigned kind, uint32_t flags,
                struct dlr_net_part head, struct dlr_net_part data)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.send = on_sent,
        .flags = flags | UCP_AM_SEND_FLAG_REPLY};
    struct op *kept = malloc(sizeof(*kept));
    ucs_status_ptr_t request;

    if (!kept)
        return -ENOMEM;
    *kept = op;
    if (head.bytes)
        memcpy(kept->head, head.at, head.bytes);
    param.user_data = kept;
    request =
        ucp_am_send_nbx(ep, kind, kept->head, head.bytes, data.at, data.bytes, &param);
    if (UCS_PTR_IS_ERR(request)) {
        free(kept);
        return net_errno(UCS_PTR_STATUS(request));
    }
    if (op.peer)
        op.peer->ops++;
    else
        op.net->orphans++;
    return 0;
}

int dlr_net_send(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data,
                 dlr_net_done_fn done, void *arg)
{
    struct op op = {.net = peer->net, .peer = peer, .done = done, .arg = arg};

    if (!peer->ep || peer->failed)
        return -ENOTCONN;
    return post(op, peer->ep, kind, UCP_AM_SEND_FLAG_EAGER, (struct dlr_net_part){0},
                data);
}

int dlr_net_offer(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part head,
                  struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    struct op op = {.net = peer->net, .peer = peer, .done = done, .arg = arg};

    if (!peer->ep || peer->failed)
        return -ENOTCONN;
    if (head.bytes > DLR_NET_HEAD_MAX)
        return -EINVAL;
    return post(op, peer->ep, kind, UCP_AM_SEND_FLAG_RNDV, head, data);
}

int dlr_net_tell(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data)
{
    struct op op = {.net = peer->net, .peer = peer};

    if (!peer->ep || peer->failed)
        return -ENOTCONN;
    if (data.bytes > DLR_NET_HEAD_MAX)
        return -EINVAL;
    return post(op, peer->ep, kind, UCP_AM_SEND_FLAG_EAGER, data,
                (struct dlr_net_part){0});
}

void dlr_net_reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data)
{
    struct op op = {.net = in->net};

    if (in->reply_ep && data.bytes <= DLR_NET_HEAD_MAX)
        (void)post(op, in->reply_ep, kind, UCP_AM_SEND_FLAG_EAGER, data,
                   (struct dlr_net_part){0});
}

static void on_taken(void *request, ucs_status_t status, size_t length, void *arg)
{
    struct op *op = arg;

    if (status == UCS_OK && length != op->bytes)
        status = UCS_ERR_MESSAGE_TRUNCATED;
    ucp_request_free(request);
    finish(op, net_errno(status));
}

int dlr_net_take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv_am = on_taken};
    ucs_status_ptr_t request;
    struct op *op;

    if (!in->offered || in->taken)
        return -EINVAL;
    op = malloc(sizeof(*op));
    if (!op)
        return -ENOMEM;
    *op = (struct op){.net = in->net, .done = done, .arg = arg, .bytes = in->bytes};
    param.user_data = op;
    in->taken = true; /* the descriptor is UCX's again, whatever comes */
    in->net->orphans++;
    request = ucp_am_recv_data_nbx(in->net->worker, in->desc, buf, in->bytes, &param);
    if (UCS_PTR_IS_PTR(request))
        return 0;
    in->net->orphans--;
    free(op);
    return UCS_PTR_IS_ERR(request) ? net_errno(UCS_PTR_STATUS(request)) : 1;
}
