/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/sockets.h"

#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/reactor.h"

/* --- the supervisor --- */

static int on_supervisor(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_agent_base *base = arg;
    struct dlr_packet p;

    if (dlr_client_recv(base->supervisor, &p) <= 0)
        return 0;
    if (base->ops->supervisor)
        base->ops->supervisor(base->arg, &p);
    dlr_packet_done(&p);
    return 0;
}

int dlr_agent_supervisor_open(struct dlr_agent_base *base,
                              const struct dlr_identity *id, const char *key,
                              const char *hostport, struct dlr_err *err)
{
    int rc = dlr_client_new(id, key, hostport, &base->supervisor, err);

    if (rc < 0)
        return rc;
    dlr_agent_watch_socket(base, dlr_client_sock(base->supervisor), on_supervisor,
                           base);
    return 0;
}

bool dlr_agent_supervisor_is_open(const struct dlr_agent_base *base)
{
    return base->supervisor;
}

void dlr_agent_supervisor_close(struct dlr_agent_base *base, int linger_ms)
{
    if (!base->supervisor)
        return;
    if (linger_ms > 0)
        dlr_client_linger(base->supervisor, linger_ms);
    dlr_agent_unwatch_socket(base, dlr_client_sock(base->supervisor));
    base->supervisor = dlr_client_free(base->supervisor);
}

void dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
{
    if (msg && base->supervisor)
        dlr_client_send_json(base->supervisor, msg);
    json_decref(msg);
}

void dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base, const void *data,
                                     size_t size)
{
    dlr_client_send(base->supervisor, data, size);
}

/* --- peers --- */

static int on_peer(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_agent_base *base = arg;
    struct dlr_packet p;

    if (dlr_server_recv(base->server, &p) <= 0)
        return 0;
    if (base->ops->peer)
        base->ops->peer(base->arg, &p);
    dlr_packet_done(&p);
    return 0;
}

int dlr_agent_server_open(struct dlr_agent_base *base, const struct dlr_identity *id,
                          unsigned first, unsigned last, struct dlr_err *err)
{
    int rc = dlr_server_new(id, "*", first, last, 0, &base->server, err);

    if (rc < 0)
        return rc;
    dlr_agent_watch_socket(base, dlr_server_sock(base->server), on_peer, base);
    return 0;
}

unsigned dlr_agent_server_port(const struct dlr_agent_base *base)
{
    return dlr_server_port(base->server);
}

void dlr_agent_server_expect(struct dlr_agent_base *base, unsigned peers)
{
    if (base->server)
        dlr_server_expect(base->server, peers);
}

void dlr_agent_server_tend(struct dlr_agent_base *base, int64_t now_ms)
{
    if (base->server)
        dlr_server_tend(base->server, now_ms);
}

void dlr_agent_peer_send_back(struct dlr_agent_base *base, const struct dlr_route *to,
                              const void *data, size_t size)
{
    if (base->server)
        dlr_server_send(base->server, to, data, size);
}

void dlr_agent_server_close(struct dlr_agent_base *base)
{
    if (!base->server)
        return;
    dlr_agent_unwatch_socket(base, dlr_server_sock(base->server));
    base->server = dlr_server_free(base->server);
}
