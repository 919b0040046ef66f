/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ckpt/transport/net_backend.h"
#include "ckpt/transport/nic.h"
#include "ckpt/transport/tls_key.h"
#include "ckpt/transport/wire.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

#define BACKS 2 /* of which a process has so many at most */
/* an address: for each back end its id, 2 bytes of length, its own address */
#define PART 3

struct dlr_net {
    struct dlr_net_link *links[BACKS]; /* the one to prefer first */
    unsigned n;
    bool exposed;
    int fd; /* epoll of all */
    unsigned char address[DLR_WIRE_ADDRESS_MAX];
    size_t address_bytes;
};

static int add_address(struct dlr_net *net, const struct dlr_net_link *link,
                       struct dlr_err *err)
{
    unsigned char *to = net->address + net->address_bytes;
    const void *addr;
    size_t bytes;

    link->back->address(link, &addr, &bytes);
    if (bytes > sizeof(net->address) - PART - net->address_bytes)
        return dlr_fail(err, -EMSGSIZE,
                        "this node's address has %zu bytes: choose devices with "
                        "--dlrover-set=net",
                        bytes);
    to[0] = link->back->id;
    to[1] = (unsigned char)bytes;
    to[2] = (unsigned char)(bytes >> 8);
    memcpy(to + PART, addr, bytes);
    net->address_bytes += PART + bytes;
    return 0;
}

static int open_back(struct dlr_net *net, const struct dlr_net_back *back,
                     const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                     void *arg, struct dlr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct dlr_net_link *link;
    int rc = back->open(conf, ops, arg, &link, err);

    if (rc < 0)
        return rc;
    net->links[net->n++] = link;
    if (epoll_ctl(net->fd, EPOLL_CTL_ADD, back->fd(link), &event) < 0)
        return dlr_fail(err, -errno, "cannot watch the network: %m");
    return add_address(net, link, err);
}

/* UCX for RDMA, which it does over no TCP then; the stream for all else. */
static int open_auto(struct dlr_net *net, const struct dlr_net_conf *conf,
                     const struct dlr_net_ops *ops, void *arg, struct dlr_err *err)
{
    int rc;

    if (dlr_nic_rdma("", conf->devices)) {
        setenv("UCX_TLS", "^tcp", 0);
        if (open_back(net, &dlr_net_ucx, conf, ops, arg, err) < 0)
            dlr_warn("RDMA is not used: %s", err->text);
    }
    rc = open_back(net, &dlr_net_tls, conf, ops, arg, err);
    return net->n > 0 ? 0 : rc;
}

static int open_backs(struct dlr_net *net, const struct dlr_net_conf *conf,
                      const struct dlr_net_ops *ops, void *arg, struct dlr_err *err)
{
    switch (conf->transport) {
    case DLR_TRANSPORT_AUTO:
        return open_auto(net, conf, ops, arg, err);
    case DLR_TRANSPORT_UCX:
        net->exposed = !dlr_nic_rdma("", conf->devices);
        return open_back(net, &dlr_net_ucx, conf, ops, arg, err);
    default:
        return open_back(net, &dlr_net_tls, conf, ops, arg, err);
    }
}

int dlr_net_open(const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                 void *arg, struct dlr_net **ret, struct dlr_err *err)
{
    struct dlr_net *net = calloc(1, sizeof(*net));
    int rc = 0;

    if (!net)
        return dlr_fail(err, -ENOMEM, "out of memory");
    net->fd = epoll_create1(EPOLL_CLOEXEC);
    if (net->fd < 0)
        rc = dlr_fail(err, -errno, "epoll_create1: %m");
    if (rc == 0)
        rc = open_backs(net, conf, ops, arg, err);
    if (rc < 0) {
        dlr_net_close(net);
        return rc;
    }
    *ret = net;
    return 0;
}

struct dlr_net *dlr_net_close(struct dlr_net *net)
{
    if (!net)
        return NULL;
    for (unsigned i = 0; i < net->n; i++)
        net->links[i]->back->close(net->links[i]);
    dlr_cleanup_close(&net->fd);
    free(net);
    return NULL;
}

bool dlr_net_exposed(const struct dlr_net *net)
{
    return net->exposed;
}

int dlr_net_set_key(struct dlr_net *net, const void *secret, size_t bytes,
                    unsigned char ret_token[16])
{
    int rc = dlr_tls_token(secret, bytes, ret_token);

    for (unsigned i = 0; i < net->n && rc == 0; i++)
        if (net->links[i]->back->set_key)
            rc = net->links[i]->back->set_key(net->links[i], secret, bytes);
    return rc;
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
    unsigned n = 0;

    for (unsigned i = 0; i < net->n; i++)
        n += net->links[i]->back->progress(net->links[i]);
    return n;
}

bool dlr_net_closing(const struct dlr_net *net)
{
    unsigned i = 0;

    while (i < net->n && !net->links[i]->back->closing(net->links[i]))
        i++;
    return i < net->n;
}

int dlr_net_arm(struct dlr_net *net)
{
    int rc = 0;

    for (unsigned i = 0; i < net->n && rc == 0; i++)
        rc = net->links[i]->back->arm(net->links[i]);
    return rc;
}

/* The part of an address that belongs to a back end, NULL: it has none. */
static const unsigned char *part_of(const unsigned char *at, size_t bytes,
                                    unsigned char id, size_t *ret_bytes)
{
    while (bytes >= PART) {
        size_t n = at[1] | (size_t)at[2] << 8;

        if (n > bytes - PART)
            return NULL;
        *ret_bytes = n;
        if (at[0] == id)
            return at + PART;
        at += PART + n;
        bytes -= PART + n;
    }
    return NULL;
}

int dlr_net_peer(struct dlr_net *net, const void *addr, size_t bytes,
                 struct dlr_net_peer **ret, struct dlr_err *err)
{
    for (unsigned i = 0; i < net->n; i++) {
        struct dlr_net_link *link = net->links[i];
        size_t n;
        const unsigned char *part = part_of(addr, bytes, link->back->id, &n);

        if (part)
            return link->back->peer(link, part, n, ret, err);
    }
    return dlr_fail(err, -EPROTONOSUPPORT, "the receiver has no transport of ours");
}

int dlr_net_sender(struct dlr_net_in *in, const void *addr, size_t bytes,
                   struct dlr_net_peer **ret, struct dlr_err *err)
{
    return in->back->sender(in, addr, bytes, ret, err);
}

void dlr_net_own_address(const struct dlr_net_peer *peer, const void **ret_addr,
                         size_t *ret_bytes)
{
    peer->back->own_address(peer, ret_addr, ret_bytes);
}

bool dlr_net_sealed(const struct dlr_net_peer *peer)
{
    return peer->back->sealed;
}

const char *dlr_net_transport(const struct dlr_net_peer *peer)
{
    return peer->back->name;
}

void dlr_net_devices(const struct dlr_net_peer *peer, char *ret, size_t size)
{
    peer->back->devices(peer, ret, size);
}

void dlr_net_peer_put(struct dlr_net_peer *peer)
{
    if (peer)
        peer->refs--;
}

int64_t dlr_net_moved_ms(const struct dlr_net_peer *peer)
{
    return peer->back->moved_ms(peer);
}

void dlr_net_drop(struct dlr_net_peer *peer)
{
    peer->back->drop(peer);
}

void dlr_net_drop_idle(struct dlr_net *net)
{
    for (unsigned i = 0; i < net->n; i++)
        net->links[i]->back->drop_idle(net->links[i]);
}

int dlr_net_send(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data,
                 dlr_net_done_fn done, void *arg)
{
    return peer->back->send(peer, kind, data, done, arg);
}

int dlr_net_offer(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part head,
                  struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    if (head.bytes > DLR_NET_HEAD_MAX)
        return -EINVAL;
    return peer->back->offer(peer, kind, head, data, done, arg);
}

int dlr_net_tell(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data)
{
    if (data.bytes > DLR_NET_HEAD_MAX)
        return -EINVAL;
    return peer->back->tell(peer, kind, data);
}

void dlr_net_reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data)
{
    if (data.bytes <= DLR_NET_HEAD_MAX)
        in->back->reply(in, kind, data);
}

int dlr_net_take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg)
{
    if (!in->offered || in->taken)
        return -EINVAL;
    return in->back->take(in, buf, done, arg);
}
