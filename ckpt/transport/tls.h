/* SPDX-License-Identifier: Apache-2.0 */
/* The stream between data processes: what its parts share. TCP under TLS 1.3, keyed by
 * the round's secret; nothing that comes from a connection is looked at, and next to
 * nothing reserved for it, before its other end has proved that it has the key.
 */
#ifndef DLR_CKPT_TRANSPORT_TLS_H
#define DLR_CKPT_TRANSPORT_TLS_H

#include "ckpt/transport/net_backend.h"
#include "ckpt/transport/tls_frame.h"
#include "ckpt/transport/tls_key.h"

#define DLR_TLS_PROVE_MS 5000 /* for who calls to prove itself */
/* an address, before the next of the same process is tried */
#define DLR_TLS_PLACE_MS 1000
/* connections that have not; the oldest of the host that has most is cut */
#define DLR_TLS_UNPROVEN_MAX 64
/* under one key, by which no new transfer begins there */
#define DLR_TLS_RETIRE_BYTES (UINT64_C(1) << 37)

enum dlr_tls_state {
    DLR_TLS_HELLO,     /* called; nothing but bytes in the socket */
    DLR_TLS_CALLING,   /* TCP is being connected */
    DLR_TLS_HANDSHAKE, /* TLS is */
    DLR_TLS_PAUSE,     /* the other end has no such key: it is called again soon */
    DLR_TLS_OPEN,
    DLR_TLS_OVER,
};

struct dlr_tls;

struct dlr_tls_conn {
    struct dlr_net_peer base;
    struct dlr_tls_conn *next;
    struct dlr_tls *net;
    int fd;
    SSL *ssl;
    struct dlr_tls_who who;
    struct dlr_frames *frames;
    enum dlr_tls_state state;
    bool called;    /* by the other end */
    unsigned group; /* of that host, see common/base/caller.h */
    bool stale;     /* its key is a former round's */
    bool can_read, can_write, unflushed;
    bool failed, ended; /* to be told to our users; they have been called back */
    int rc;
    int64_t moved_ms, limit_ms;
    uint64_t moved_bytes;
    /* of one that calls */
    struct dlr_tls_address to;
    unsigned place;
    /* somebody who has not our key was there, in this turn of places ... */
    bool answered;
    bool met; /* ... or in any */
    int64_t try_ms, pause_ms;
};

struct dlr_tls_listener {
    int fd;
};

struct dlr_tls {
    struct dlr_net_link base;
    struct dlr_net_ops ops;
    void *arg;
    SSL_CTX *ctx;
    struct dlr_tls_key key;
    int fd, timer; /* epoll of all; when something is due */
    int64_t due_ms, answer_ms;
    bool can_accept, starved; /* starved: no descriptor was left for it */
    struct dlr_tls_listener listeners[DLR_TLS_PLACES_MAX];
    struct dlr_tls_address self;
    unsigned char address[DLR_TLS_ADDRESS_MAX];
    size_t address_bytes;
    struct dlr_tls_conn *conns; /* the newest first */
};

/* --- tls_listen.c */
int dlr_tls_listen(struct dlr_tls *net, const struct dlr_net_conf *conf,
                   struct dlr_err *err);
/* Accepts who calls, at most as many as may be unproven at once: what else goes on has
 * its turn between them.
 */
unsigned dlr_tls_accept(struct dlr_tls *net);

/* --- tls_conn.c */
/* A connection that was accepted; fd is its own from here on, even on failure. */
int dlr_tls_accepted(struct dlr_tls *net, int fd);
/* One that is made. */
int dlr_tls_call(struct dlr_tls *net, const struct dlr_tls_address *to,
                 struct dlr_tls_conn **ret);
/* Moves what can be moved without waiting, a bounded amount; how many things were done.
 */
unsigned dlr_tls_work(struct dlr_tls_conn *c);
/* Whether it has something to do without an event. */
bool dlr_tls_busy(const struct dlr_tls_conn *c);
/* Whether something waits to go out. */
bool dlr_tls_unsent(const struct dlr_tls_conn *c);
/* It is for nothing new: its key is a former round's, or has moved much. */
bool dlr_tls_outlived(const struct dlr_tls_conn *c);
/* Does what is due; when something will be, INT64_MAX: nothing. */
int64_t dlr_tls_tick(struct dlr_tls_conn *c, int64_t now_ms);
/* It is over; our users are told of it (down) unless rc is 0. */
void dlr_tls_over(struct dlr_tls_conn *c, int rc);
/* Closes what it has of the system. */
void dlr_tls_shut(struct dlr_tls_conn *c);

#endif
