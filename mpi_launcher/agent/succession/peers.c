/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/policy/election.h"

#define PEERS_MAX 131072
#define STATE_MAX 4096 /* bytes of the policy's state as text */

static struct dlr_agent_peer *find_key(struct dlr_agent *a, const char *key)
{
    for (unsigned i = 0; i < a->peers.list.n; i++)
        if (dlr_streq(a->peers.list.all[i].key, key))
            return &a->peers.list.all[i];
    return NULL;
}

/* --- what a peer says on our socket ----------------------------------------------------- */

static void vote(struct dlr_agent *a, const struct dlr_agent_origin *to)
{
    bool silent = a->peers.election && dlr_election_is_silent(a->peers.election);

    dlr_agent_answer(a->base, to,
                     json_pack("{s:i, s:s, s:I, s:s, s:b}", "v", DLR_MSG_VERSION, "t",
                               "vote", "gen", (json_int_t)a->run.gen, "node", a->node,
                               "silent", silent));
}

/* A peer may order only what a successor needs, and only while we miss the supervisor too. */
static int on_order(struct dlr_agent *a, const struct dlr_agent_peer *peer,
                    const struct dlr_packet *p, const json_t *msg)
{
    struct dlr_agent_origin from = {.from = DLR_AGENT_PEER, .route = p->from};
    const char *type = dlr_msg_type(msg);
    uint64_t gen;

    if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != a->run.gen)
        return -EBADMSG;
    if (dlr_streq(type, "silent")) {
        vote(a, &from);
        if (a->peers.election)
            dlr_election_vote(a->peers.election, peer->node, true, dlr_now_ms());
        return 0;
    }
    if (dlr_streq(type, "over") && dlr_agent_in_grace(a)) {
        dlr_agent_grace_over(a);
        return 0;
    }
    if (dlr_streq(type, "writing") && dlr_agent_in_grace(a)) {
        a->grace.led_ns = dlr_now_ns();
        return 0;
    }
    if (dlr_streq(type, "over") && dlr_streq(peer->node, a->peers.batch)) {
        dlr_agent_end(a->base);
        return 0;
    }
    if (dlr_streq(type, "leave") && a->peers.election &&
        dlr_election_is_silent(a->peers.election)) {
        a->given = true;
        return 0;
    }
    if (dlr_msg_uint(msg, "id", INT64_MAX, &from.id) < 0)
        return -EBADMSG;
    if (!dlr_agent_in_grace(a) &&
        (!a->peers.election || !dlr_election_is_silent(a->peers.election))) {
        dlr_agent_done(a->base, &from, -EBUSY, "the supervisor answers here");
        return 0;
    }
    if (dlr_agent_in_grace(a))
        a->grace.led_ns = dlr_now_ns();
    if (dlr_streq(type, "report"))
        dlr_agent_report(a, &from);
    else if (dlr_streq(type, "persist"))
        dlr_agent_persist(a, msg, &from);
    else if (dlr_streq(type, "rebuild"))
        return dlr_agent_rebuild(a, msg, &from);
    else if (dlr_streq(type, "send"))
        return dlr_agent_send(a, msg, &from);
    else
        return -EBADMSG;
    return 0;
}

void dlr_agent_on_peer(struct dlr_agent *a, const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    struct dlr_agent_peer *peer = find_key(a, p->key);

    if (!peer || dlr_msg_parse(p->data, p->size, &msg, NULL) < 0 ||
        on_order(a, peer, p, msg) < 0)
        a->dropped++;
}

/* --- what it answers on the socket we made to it ------------------------------------------- */

static int on_answer(struct dlr_agent *a, struct dlr_agent_peer *peer,
                     const json_t *msg)
{
    const char *type = dlr_msg_type(msg), *why = "";
    uint64_t gen, id, rc;

    if (dlr_streq(type, "vote")) {
        const json_t *silent = json_object_get(msg, "silent");

        if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != a->run.gen ||
            !json_is_boolean(silent) || !a->peers.election)
            return -EBADMSG;
        dlr_election_vote(a->peers.election, peer->node, json_is_true(silent),
                          dlr_now_ms());
        return 0;
    }
    if (dlr_streq(type, "report")) {
        dlr_agent_succeed_report(a, peer->node, json_object_get(msg, "report"));
        return 0;
    }
    if (!dlr_streq(type, "done") || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "why", &why);
    dlr_agent_succeed_done(a, id, -(int)rc, why);
    return 0;
}

static int on_client(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_agent *a = arg;
    DLR_AUTO_JSON json_t *msg = NULL;
    struct dlr_packet p;

    for (unsigned i = 0; i < a->peers.list.n; i++) {
        struct dlr_agent_peer *peer = &a->peers.list.all[i];

        if (!peer->client || dlr_client_sock(peer->client) != sock)
            continue;
        if (dlr_client_recv(peer->client, &p) <= 0)
            return 0;
        if (dlr_msg_parse(p.data, p.size, &msg, NULL) < 0 ||
            on_answer(a, peer, msg) < 0)
            a->dropped++;
        dlr_packet_done(&p);
        return 0;
    }
    return 0;
}

void dlr_agent_peers_say(struct dlr_agent *a, const char *node, json_t *msg)
{
    struct dlr_agent_peer *peer = dlr_peer_list_find(&a->peers.list, node);
    struct dlr_err err;

    if (peer && !peer->client) {
        if (dlr_client_new(a->id, peer->key, peer->addr, &peer->client, &err) < 0) {
            dlr_debug("%s", err.text);
            peer->client = NULL;
        } else {
            dlr_agent_watch_socket(a->base, dlr_client_sock(peer->client), on_client,
                                   a);
        }
    }
    if (peer && peer->client && msg)
        dlr_client_send_json(peer->client, msg);
    json_decref(msg);
}

/* --- who they are ----------------------------------------------------------------------- */

static void forget(void *arg, struct dlr_client *client)
{
    struct dlr_agent *a = arg;

    dlr_agent_unwatch_socket(a->base, dlr_client_sock(client));
    dlr_client_free(client);
}

static void forget_all(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->peers.list.n; i++)
        if (a->peers.list.all[i].client)
            forget(a, a->peers.list.all[i].client);
    dlr_peer_list_done(&a->peers.list);
}

static void take_state(struct dlr_agent *a, const json_t *state)
{
    uint64_t places = 0, nodes = 0, world = 0;
    DLR_AUTO_FREE char *text = json_is_object(state) ? dlr_msg_text(state) : NULL;

    if (!text || strlen(text) > STATE_MAX)
        return;
    dlr_msg_uint(state, "places", PEERS_MAX, &places);
    dlr_msg_uint(state, "nodes", PEERS_MAX, &nodes);
    dlr_msg_uint(state, "world", INT32_MAX, &world);
    a->peers.world = (unsigned)world;
    a->peers.min_nodes = (unsigned)places;
    a->peers.max_nodes = (unsigned)nodes;
}

void dlr_agent_peers_set(struct dlr_agent *a, const json_t *msg)
{
    const char *batch;

    if (dlr_msg_str(msg, "batch", &batch) < 0 || strlen(batch) >= DLR_AGENT_NODE ||
        dlr_peer_list_take(&a->peers.list, msg, forget, a) < 0) {
        a->dropped++;
        return;
    }
    dlr_format(a->peers.batch, sizeof(a->peers.batch), "%s", batch);
    take_state(a, json_object_get(msg, "state"));
    dlr_agent_server_expect(a->base, a->peers.list.n);
    dlr_agent_watchdog_peers(a);
    dlr_agent_data_peers(a);
    if (json_is_true(json_object_get(msg, "whole")))
        dlr_agent_say(a->base, dlr_msg_new("peers_known"));
}

/* --- our own socket --------------------------------------------------------------------- */

/* The address others reach us at: the one this host uses to speak to the supervisor's. */
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

static int resolve(const char *hostport, struct sockaddr_in *ret, struct dlr_err *err)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
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

int dlr_agent_peers_start(struct dlr_agent *a, struct dlr_err *err)
{
    unsigned first, last;
    char host[64];
    int rc = resolve(a->conf.control, &a->control_addr, err);

    if (rc < 0)
        return rc;
    if (dlr_parse_ports(a->conf.peer_ports, &first, &last) < 0)
        return dlr_fail(err, -EINVAL, "--peer-ports='%s' is not FIRST-LAST",
                        a->conf.peer_ports);
    rc = own_address(&a->control_addr, host, sizeof(host));
    if (rc < 0)
        return dlr_fail(err, rc, "no way to %s: %s", a->conf.control, strerror(-rc));
    dlr_open_files_raise(); /* an election speaks to all, and all speak to it */
    rc = dlr_agent_server_open(a->base, a->id, first, last, err);
    if (rc < 0)
        return rc;
    return dlr_format(a->peers.addr, sizeof(a->peers.addr), "%s:%u", host,
                      dlr_agent_server_port(a->base));
}

void dlr_agent_peers_stop(struct dlr_agent *a)
{
    dlr_agent_watchdog_stop(a);
    forget_all(a);
    dlr_agent_server_close(a->base);
}
