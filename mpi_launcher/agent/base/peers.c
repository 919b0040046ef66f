/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"

/* --- connections to them ---------------------------------------------------------- */

static int on_answer(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_agent_base *base = arg;
    const struct dlr_peer_list *list = &base->peers.list;
    struct dlr_packet p;

    for (unsigned i = 0; i < list->n; i++) {
        const struct dlr_agent_peer *peer = &list->all[i];

        if (!peer->client || dlr_client_sock(peer->client) != sock)
            continue;
        if (dlr_client_recv(peer->client, &p) <= 0)
            return 0;
        if (base->ops->answer)
            base->ops->answer(base->arg, peer->node, &p);
        dlr_packet_done(&p);
        return 0;
    }
    return 0;
}

static void connect_to(struct dlr_agent_base *base, struct dlr_agent_peer *peer)
{
    struct dlr_err err;

    if (dlr_client_new(base->peers.id, peer->key, peer->addr, &peer->client, &err) <
        0) {
        dlr_debug("%s", err.text);
        peer->client = NULL;
        return;
    }
    dlr_agent_watch_socket(base, dlr_client_sock(peer->client), on_answer, base);
}

static struct dlr_client *client_of(struct dlr_agent_base *base, const char *node)
{
    struct dlr_agent_peer *peer = dlr_peer_list_find(&base->peers.list, node);

    if (peer && !peer->client)
        connect_to(base, peer);
    return peer ? peer->client : NULL;
}

void dlr_agent_peers_send(struct dlr_agent_base *base, const char *node, json_t *msg)
{
    struct dlr_client *client = client_of(base, node);

    if (client && msg)
        dlr_client_send_json(client, msg);
    json_decref(msg);
}

bool dlr_agent_peers_send_bytes(struct dlr_agent_base *base, const char *node,
                                const void *data, size_t size)
{
    struct dlr_client *client = client_of(base, node);

    return client && dlr_client_send(client, data, size) == 0;
}

void dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but, json_t *msg)
{
    const struct dlr_peer_list *list = &base->peers.list;

    for (unsigned i = 0; i < list->n; i++)
        if (!dlr_streq(list->all[i].node, but))
            dlr_agent_peers_send(base, list->all[i].node, json_incref(msg));
    json_decref(msg);
}

/* --- who they are ----------------------------------------------------------------- */

static void forget(void *arg, struct dlr_client *client)
{
    dlr_agent_unwatch_socket(arg, dlr_client_sock(client));
    dlr_client_free(client);
}

int dlr_agent_peers_take(struct dlr_agent_base *base, const json_t *msg)
{
    int rc = dlr_peer_list_take(&base->peers.list, msg, forget, base);

    if (rc == 0)
        dlr_agent_server_expect(base, base->peers.list.n);
    return rc;
}

const struct dlr_peer_list *dlr_agent_peer_list(const struct dlr_agent_base *base)
{
    return &base->peers.list;
}

const char *dlr_agent_peer_of(const struct dlr_agent_base *base, const char *key)
{
    const struct dlr_peer_list *list = &base->peers.list;

    for (unsigned i = 0; i < list->n; i++)
        if (dlr_streq(list->all[i].key, key))
            return list->all[i].node;
    return NULL;
}

/* --- our own socket --------------------------------------------------------------- */

/* The address others reach us at: the one this host uses to speak to the supervisor's.
 */
static int own_address(const struct sockaddr_in *to, char *buf, size_t size)
{
    DLR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in mine;
    socklen_t len = sizeof(mine);

    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
        getsockname(fd, (struct sockaddr *)&mine, &len) < 0)
        return -errno;
    return inet_ntop(AF_INET, &mine.sin_addr, buf, size) ? 0 : -errno;
}

static int resolve(const char *hostport, int flags, struct sockaddr_in *ret,
                   struct dlr_err *err)
{
    struct addrinfo hints = {.ai_family = AF_INET,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = flags},
                    *found;
    const char *colon = strrchr(hostport, ':');
    char host[DLR_AGENT_ADDR];
    int rc;

    if (!colon ||
        dlr_format(host, sizeof(host), "%.*s", (int)(colon - hostport), hostport) < 0)
        return dlr_fail(err, -EINVAL, "--control='%s' is not HOST:PORT", hostport);
    rc = getaddrinfo(host, colon + 1, &hints, &found);
    if (rc != 0)
        return dlr_fail(err, -EINVAL, "--control='%s': %s", hostport, gai_strerror(rc));
    memcpy(ret, found->ai_addr, sizeof(*ret));
    freeaddrinfo(found);
    return 0;
}

int dlr_agent_peers_open(struct dlr_agent_base *base, const struct dlr_identity *id,
                         const struct dlr_agent_self *self, struct dlr_err *err)
{
    unsigned first, last;
    char host[64];
    int rc = resolve(self->conf.control, 0, &base->peers.control, err);

    if (rc < 0)
        return rc;
    if (dlr_parse_ports(self->conf.peer_ports, &first, &last) < 0)
        return dlr_fail(err, -EINVAL, "--peer-ports='%s' is not FIRST-LAST",
                        self->conf.peer_ports);
    rc = own_address(&base->peers.control, host, sizeof(host));
    if (rc < 0)
        return dlr_fail(err, rc, "no way to %s: %s", self->conf.control, strerror(-rc));
    dlr_open_files_raise(); /* an election speaks to all, and all speak to it */
    rc = dlr_agent_server_open(base, id, first, last, err);
    if (rc < 0)
        return rc;
    base->peers.id = id;
    return dlr_format(base->peers.addr, sizeof(base->peers.addr), "%s:%u", host,
                      dlr_agent_server_port(base));
}

int dlr_agent_control_moved(struct dlr_agent_base *base, const char *hostport,
                            struct dlr_err *err)
{
    return resolve(hostport, AI_NUMERICHOST | AI_NUMERICSERV, &base->peers.control,
                   err);
}

void dlr_agent_peers_close(struct dlr_agent_base *base)
{
    struct dlr_peer_list *list = &base->peers.list;

    for (unsigned i = 0; i < list->n; i++)
        if (list->all[i].client)
            forget(base, list->all[i].client);
    dlr_peer_list_done(list);
    dlr_agent_server_close(base);
}

const struct sockaddr_in *dlr_agent_control_addr(const struct dlr_agent_base *base)
{
    return &base->peers.control;
}

const char *dlr_agent_peers_addr(const struct dlr_agent_base *base)
{
    return base->peers.addr;
}
