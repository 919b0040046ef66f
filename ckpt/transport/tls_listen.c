/* SPDX-License-Identifier: Apache-2.0 */
/* Where streams are listened for, and those who call. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "ckpt/transport/tls.h"
#include "common/base/caller.h"
#include "common/base/cleanup.h"

#define BACKLOG 64

static void set_port(union dlr_tls_place *place, unsigned port)
{
    if (place->any.sa_family == AF_INET6)
        place->v6.sin6_port = htons((uint16_t)port);
    else
        place->v4.sin_port = htons((uint16_t)port);
}

static int bind_port(int fd, union dlr_tls_place *place, unsigned port)
{
    set_port(place, port);
    if (bind(fd, &place->any, dlr_tls_place_bytes(place)) < 0 ||
        listen(fd, BACKLOG) < 0)
        return -errno;
    return 0;
}

/* The first port of the range that is free; any where none is, which is better than no
 * copies.
 */
static int bind_place(int fd, union dlr_tls_place *place,
                      const struct dlr_net_conf *conf)
{
    socklen_t size = sizeof(*place);
    int on = 1, rc = -EADDRINUSE;

    if (place->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    for (unsigned port = conf->first_port; port <= conf->last_port && rc == -EADDRINUSE;
         port++)
        rc = bind_port(fd, place, port);
    if (rc == -EADDRINUSE)
        rc = bind_port(fd, place, 0);
    if (rc == 0 && getsockname(fd, &place->any, &size) < 0)
        rc = -errno;
    return rc;
}

static int listen_at(struct dlr_tls *net, union dlr_tls_place *place,
                     const struct dlr_net_conf *conf)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    struct dlr_tls_listener *l = &net->listeners[net->self.n];
    int rc;

    l->fd = socket(place->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    rc = l->fd < 0 ? -errno : bind_place(l->fd, place, conf);
    event.data.ptr = l;
    if (rc == 0 && epoll_ctl(net->fd, EPOLL_CTL_ADD, l->fd, &event) < 0)
        rc = -errno;
    if (rc < 0)
        dlr_cleanup_close(&l->fd);
    else
        net->self.places[net->self.n++] = *place;
    return rc;
}

int dlr_tls_listen(struct dlr_tls *net, const struct dlr_net_conf *conf,
                   struct dlr_err *err)
{
    union dlr_tls_place places[DLR_TLS_PLACES_MAX];
    unsigned n = dlr_tls_places(conf->devices, places);
    int rc = -EADDRNOTAVAIL;

    if (!n)
        return dlr_fail(err, -EADDRNOTAVAIL, "no IP address to listen at%s%s",
                        conf->devices[0] ? " on " : "", conf->devices);
    for (unsigned i = 0; i < n; i++) {
        int one = listen_at(net, &places[i], conf);

        rc = one < 0 && rc < 0 ? one : 0;
    }
    if (rc < 0)
        return dlr_fail(err, rc, "cannot listen on this node's addresses: %s",
                        strerror(-rc));
    return 0;
}

static bool is_unproven(const struct dlr_tls_conn *c)
{
    return c->called && c->state < DLR_TLS_OPEN;
}

/* Makes room for one more stranger: who floods the port from one host keeps no other
 * host out.
 */
static void cut_one(struct dlr_tls *net)
{
    unsigned of_group[DLR_CALLERS] = {0}, most = 0, n = 0;
    struct dlr_tls_conn *oldest = NULL;

    for (struct dlr_tls_conn *c = net->conns; c; c = c->next) {
        if (!is_unproven(c))
            continue;
        n++;
        if (++of_group[c->group] > of_group[most])
            most = c->group;
    }
    if (n < DLR_TLS_UNPROVEN_MAX)
        return;
    for (struct dlr_tls_conn *c = net->conns; c; c = c->next)
        if (is_unproven(c) && c->group == most)
            oldest = c;
    dlr_tls_over(oldest, 0);
    dlr_tls_shut(oldest);
}

unsigned dlr_tls_accept(struct dlr_tls *net)
{
    unsigned n = 0;

    net->can_accept = net->starved = false;
    for (unsigned i = 0; i < net->self.n; i++) {
        unsigned k = 0;
        int fd = -1;

        do {
            fd =
                accept4(net->listeners[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0)
                break;
            cut_one(net);
            (void)dlr_tls_accepted(net, fd);
            n++;
        } while (++k < DLR_TLS_UNPROVEN_MAX);
        if (fd >= 0)
            net->can_accept = true;
        else if (errno == EMFILE || errno == ENFILE)
            net->can_accept = net->starved = true; /* with the next event */
    }
    return n;
}
