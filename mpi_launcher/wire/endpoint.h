/* SPDX-License-Identifier: Apache-2.0 */
/* Control sockets: a server (ROUTER) that knows the public key of each message's
 * sender, and a client (DEALER) that reconnects by itself. Both speak CURVE, carry
 * one-frame messages of at most DLR_MSG_MAX bytes, and never block.
 *
 * A process that makes its first endpoint must have blocked its signals before (the
 * threads of libzmq and the key checker inherit the mask) and installs its own
 * handlers: CZMQ's are off. Endpoints are made and freed by one thread.
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_ENDPOINT_H
#define DLR_MPI_LAUNCHER_WIRE_ENDPOINT_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/err.h"
#include "mpi_launcher/wire/identity.h"
#include "mpi_launcher/wire/zmq_types.h"

#define DLR_ENDPOINT_HWM 4096 /* messages waiting per peer; more are dropped */
/* a connection that has not proven its key by then is cut; and */
#define DLR_ENDPOINT_HANDSHAKE_MS 5000
#define DLR_ENDPOINT_EACH_MS 5 /* more for each client that is expected */
/* a client tries again when no server has taken its handshake by then */
#define DLR_ENDPOINT_SERVED_MS 120000

/* a port that was closed for want of descriptors is tried again */
#define DLR_ENDPOINT_REOPEN_MS 5000

struct dlr_server; /* opaque */
struct dlr_client; /* opaque */

/* Where an answer goes: one connection of a server. Copied freely; a route whose
 * connection is gone leads nowhere and harms nothing. Equal bytes, same connection.
 */
struct dlr_route {
    unsigned char size;
    unsigned char id[255];
};
bool dlr_route_eq(const struct dlr_route *a, const struct dlr_route *b);

/* A received message. */
struct dlr_packet {
    struct dlr_route from;  /* server only */
    char key[DLR_KEY_TEXT]; /* server only: the key the connection was made with */
    const void *data;       /* belongs to the packet */
    size_t size;
    zmq_msg_t msg_; /* private */
};
void dlr_packet_done(struct dlr_packet *packet);

/* --- server ----------------------------------------------------------------------- */

/* Before the first socket of the process: as many sockets as libzmq has, in place of
 * czmq's 1,024 (an election has one for each agent), and one of libzmq's threads: with
 * more of them the guard would hear of a connection's end before its beginning.
 */
void dlr_endpoint_prepare(void);

/* Binds host ("*": all; IPv4) at the first free port of [first, last], or at any when
 * both are 0. So many clients will come, perhaps all at once: a handshake may take as
 * much longer. *ret_server: dlr_server_free(). -EADDRINUSE when none is free.
 */
int dlr_server_new(const struct dlr_identity *id, const char *host, unsigned first,
                   unsigned last, unsigned clients, struct dlr_server **ret_server,
                   struct dlr_err *err);
struct dlr_server *dlr_server_free(struct dlr_server *server); /* accepts NULL */

unsigned dlr_server_port(const struct dlr_server *server);
zsock_t *dlr_server_sock(struct dlr_server *server); /* for zloop_reader() */

/* So many clients belong to it by now; they may come all at once. Call
 * dlr_open_files_raise() before.
 */
void dlr_server_expect(struct dlr_server *server, unsigned clients);

/* Call now and then: a port for which no descriptor is left is closed, and its
 * connections with it, so that who waits does not cost a core; it is opened again when
 * a connection has ended, at once but not twice in DLR_ENDPOINT_REOPEN_MS, or after
 * that time. True when it was closed by this call.
 */
bool dlr_server_tend(struct dlr_server *server, int64_t now_ms);

/* Connections so far that could not prove a key: see guard.h. */
uint64_t dlr_server_auth_failures(const struct dlr_server *server);

/* Takes one message. 1: *ret_packet is the caller's (dlr_packet_done()); 0: none waits;
 * -EBADMSG: one was dropped because it was malformed. zloop's readers are
 * level-triggered: one call per event is enough.
 */
int dlr_server_recv(struct dlr_server *server, struct dlr_packet *ret_packet);

/* Sends to one connection. -EAGAIN: it is full, -EHOSTUNREACH: it is gone; the message
 * is dropped either way.
 */
int dlr_server_send(struct dlr_server *server, const struct dlr_route *to,
                    const void *data, size_t size);
int dlr_server_send_json(struct dlr_server *server, const struct dlr_route *to,
                         const json_t *msg);

/* A message for many: its text is made once, and its bytes are not copied for each. */
struct dlr_shared;                                    /* opaque */
struct dlr_shared *dlr_shared_new(const json_t *msg); /* NULL when out of memory */
struct dlr_shared *dlr_shared_free(struct dlr_shared *shared); /* accepts NULL */
size_t dlr_shared_size(const struct dlr_shared *shared);
int dlr_server_send_shared(struct dlr_server *server, const struct dlr_route *to,
                           struct dlr_shared *shared);

/* --- client ----------------------------------------------------------------------- */

/* Connects to "host:port", whose server must own server_key. Returns at once;
 * connecting, again and again, is libzmq's. Messages sent meanwhile wait,
 * DLR_ENDPOINT_HWM of them.
 */
int dlr_client_new(const struct dlr_identity *id, const char *server_key,
                   const char *hostport, struct dlr_client **ret_client,
                   struct dlr_err *err);
/* How long what was sent may still be on its way after dlr_client_free(); 0 from the
 * start.
 */
void dlr_client_linger(struct dlr_client *client, int ms);
struct dlr_client *dlr_client_free(struct dlr_client *client); /* accepts NULL */

zsock_t *dlr_client_sock(struct dlr_client *client);
int dlr_client_recv(struct dlr_client *client, struct dlr_packet *ret_packet);
int dlr_client_send(struct dlr_client *client, const void *data, size_t size);
int dlr_client_send_json(struct dlr_client *client, const json_t *msg);

#endif
