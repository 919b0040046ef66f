/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/endpoint.h"

#include <czmq.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/cleanup.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/wire/curve_auth.h"
#include "mpi_launcher/wire/frame.h"
#include "mpi_launcher/wire/guard.h"

struct dlr_server {
    zsock_t *sock;
    struct dlr_guard *guard;
    unsigned port;
    char name[64];     /* of the port, as libzmq calls it */
    int64_t closed_ms; /* for want of descriptors; 0: it is open */
    int64_t opened_ms; /* again */
};

bool dlr_route_eq(const struct dlr_route *a, const struct dlr_route *b)
{
    return a->size == b->size && memcmp(a->id, b->id, a->size) == 0;
}

void dlr_packet_done(struct dlr_packet *packet)
{
    zmq_msg_close(&packet->msg_);
    packet->data = NULL;
    packet->size = 0;
}

struct dlr_server *dlr_server_free(struct dlr_server *server)
{
    if (!server)
        return NULL;
    server->guard = dlr_guard_free(server->guard);
    zsock_destroy(&server->sock);
    free(server);
    return NULL;
}

static void cleanup_server(struct dlr_server **server)
{
    dlr_server_free(*server);
}

static int bind_some(struct dlr_server *server, const char *host, unsigned first,
                     unsigned last, struct dlr_err *err)
{
    DLR_AUTO_FREE char *name = NULL;
    int port = -1;

    if (first == 0 && last == 0) {
        port = zsock_bind(server->sock, "tcp://%s:*", host);
    } else {
        for (unsigned p = first; p <= last && port < 0; p++)
            port = zsock_bind(server->sock, "tcp://%s:%u", host, p);
    }
    if (port < 0)
        return dlr_fail(err, -EADDRINUSE, "no port of %u-%u is free at '%s': %s", first,
                        last, host, zmq_strerror(zmq_errno()));
    server->port = port;
    name = zsock_last_endpoint(server->sock);
    return dlr_format(server->name, sizeof(server->name), "%s", name ? name : "");
}

void dlr_endpoint_prepare(void)
{
    zsys_set_max_sockets(0);
    zsys_set_io_threads(1);
}

void dlr_server_expect(struct dlr_server *server, unsigned clients)
{
    struct rlimit limit = {0};
    unsigned most = UINT_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < UINT_MAX)
        most = limit.rlim_cur > DLR_OPEN_FILES_OWN ? limit.rlim_cur - DLR_OPEN_FILES_OWN
                                                   : 1;
    dlr_guard_expect(server->guard, clients, most);
}

int dlr_server_new(const struct dlr_identity *id, const char *host, unsigned first,
                   unsigned last, unsigned clients, struct dlr_server **ret_server,
                   struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_server) struct dlr_server *server = calloc(1, sizeof(*server));
    int limit_ms = DLR_ENDPOINT_HANDSHAKE_MS + DLR_ENDPOINT_EACH_MS * (int)clients;
    int rc;

    if (!server)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = dlr_frame_socket(ZMQ_ROUTER, id, &server->sock, err);
    if (rc < 0)
        return rc;
    rc = dlr_curve_auth_start(err);
    if (rc < 0)
        return rc;
    zsock_set_router_mandatory(server->sock, 1);
    zsock_set_backlog(server->sock, SOMAXCONN); /* libzmq's own would be 100 */
    zsock_set_zap_domain(server->sock, "dlrover");
    zsock_set_curve_server(server->sock, 1);
    zsock_set_handshake_ivl(server->sock, limit_ms);
    rc = dlr_guard_new(server->sock, limit_ms, &server->guard, err);
    if (rc == 0)
        rc = bind_some(server, host, first, last, err);
    if (rc < 0)
        return rc;
    dlr_server_expect(server, clients);
    *ret_server = DLR_STEAL(server);
    return 0;
}

unsigned dlr_server_port(const struct dlr_server *server)
{
    return server->port;
}

/* What the guard hears late of the closed port would close the next one. That closing
 * it cut a connection is room once; not again and again where descriptors are too few.
 */
static bool may_reopen(struct dlr_server *server, int64_t now_ms)
{
    if (!dlr_guard_is_closed(server->guard))
        return false;
    if (now_ms - server->closed_ms >= DLR_ENDPOINT_REOPEN_MS)
        return true;
    return now_ms - server->opened_ms >= DLR_ENDPOINT_REOPEN_MS &&
           dlr_guard_has_room(server->guard);
}

static void reopen(struct dlr_server *server, int64_t now_ms)
{
    server->closed_ms = now_ms;
    if (zsock_bind(server->sock, "%s", server->name) < 0)
        return;
    server->closed_ms = 0;
    server->opened_ms = now_ms;
    dlr_guard_reopened(server->guard);
}

bool dlr_server_tend(struct dlr_server *server, int64_t now_ms)
{
    if (!dlr_guard_is_full(server->guard))
        return false;
    if (!server->closed_ms) {
        if (zsock_unbind(server->sock, "%s", server->name) < 0)
            return false;
        server->closed_ms = now_ms;
        return true;
    }
    if (may_reopen(server, now_ms))
        reopen(server, now_ms);
    return false;
}

uint64_t dlr_server_auth_failures(const struct dlr_server *server)
{
    return dlr_guard_auth_failures(server->guard);
}

zsock_t *dlr_server_sock(struct dlr_server *server)
{
    return server->sock;
}

int dlr_server_recv(struct dlr_server *server, struct dlr_packet *ret_packet)
{
    void *sock = zsock_resolve(server->sock);
    zmq_msg_t id;
    int rc;

    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, sock, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&id);
        return zmq_errno() == EAGAIN ? 0 : -zmq_errno();
    }
    ret_packet->from.size = zmq_msg_size(&id);
    memcpy(ret_packet->from.id, zmq_msg_data(&id), ret_packet->from.size);
    rc = zmq_msg_more(&id) ? dlr_frame_recv(server->sock, ret_packet) : -EBADMSG;
    if (rc == 1 &&
        dlr_guard_proven(server->guard, zmq_msg_get(&ret_packet->msg_, ZMQ_SRCFD)))
        dlr_frame_urge(ret_packet);
    zmq_msg_close(&id);
    if (rc == 1 && ret_packet->key[0] == '\0') {
        dlr_packet_done(ret_packet); /* no key, no sender: our own checker failed */
        return -EBADMSG;
    }
    return rc;
}

int dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                    const void *data, size_t size)
{
    void *sock = zsock_resolve(server->sock);

    if (zmq_send(sock, to->id, to->size, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return -zmq_errno();
    /* The route was taken with room for the whole message: this part cannot wait. */
    return zmq_send(sock, data, size, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
}

struct dlr_shared {
    zmq_msg_t msg;
};

static void free_text(void *text, void *hint)
{
    free(text);
}

struct dlr_shared *dlr_shared_new(const json_t *msg)
{
    DLR_AUTO_FREE struct dlr_shared *shared = calloc(1, sizeof(*shared));
    DLR_AUTO_FREE char *text = dlr_msg_text(msg);

    if (!shared || !text ||
        zmq_msg_init_data(&shared->msg, text, strlen(text), free_text, NULL) < 0)
        return NULL;
    (void)DLR_STEAL(text);
    return DLR_STEAL(shared);
}

struct dlr_shared *dlr_shared_free(struct dlr_shared *shared)
{
    if (shared)
        zmq_msg_close(&shared->msg);
    free(shared);
    return NULL;
}

size_t dlr_shared_size(const struct dlr_shared *shared)
{
    return zmq_msg_size(&shared->msg);
}

int dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                           struct dlr_shared *shared)
{
    void *sock = zsock_resolve(server->sock);
    zmq_msg_t one;
    int rc;

    if (zmq_send(sock, to->id, to->size, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return -zmq_errno();
    zmq_msg_init(&one);
    zmq_msg_copy(&one, &shared->msg);
    rc = zmq_msg_send(&one, sock, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
    zmq_msg_close(&one);
    return rc;
}

int dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                         const json_t *msg)
{
    DLR_AUTO_FREE char *text = dlr_msg_text(msg);

    if (!text)
        return -ENOMEM;
    return dlr_server_send(server, to, text, strlen(text));
}
