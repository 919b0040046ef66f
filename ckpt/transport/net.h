/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between data processes, over whichever back end a node and its peer have
 * (net_backend.h): cached connections and one descriptor to wait on. Nothing here
 * decides in time that a peer is dead: who knows it drops the peer. One thread at a
 * time.
 */
#ifndef DLR_CKPT_TRANSPORT_NET_H
#define DLR_CKPT_TRANSPORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/config/opt.h"

#define DLR_NET_HEAD_MAX 64

struct dlr_net;
struct dlr_net_peer;
struct dlr_net_back;
struct dlr_net_link;

/* A send or receive ended: 0 or -errno (-ECANCELED after a drop). From then on, and not
 * before, its buffer is the caller's again.
 */
typedef void (*dlr_net_done_fn)(void *arg, int rc);

struct dlr_net_part {
    const void *at;
    size_t bytes;
};

/* One message that came in; valid during the call only. */
struct dlr_net_in {
    bool offered; /* only its head is here; dlr_net_take() fetches the rest */
    const void *head;
    size_t head_bytes; /* 0 when it was sent, not offered */
    const void *data;  /* NULL when offered */
    size_t bytes;      /* of data, here or there */
    bool sealed; /* whoever sent it has the round's secret, and nobody has changed it */

    bool taken; /* from here on: of the back end that it came over */
    const struct dlr_net_back *back;
    struct dlr_net_link *link;
    void *from, *desc, *lane;
};

struct dlr_net_ops {
    void (*in)(void *arg, unsigned kind, struct dlr_net_in *in);
    /* The peer failed: its sends and receives end with errors, it cannot be used again.
     */
    void (*down)(void *arg, struct dlr_net_peer *peer, int rc);
};

struct dlr_net_conf {
    enum dlr_transport transport;
    /* for the other end of a connection to have our key, of the stream */
    int64_t answer_ms;
    const char *devices;            /* names with commas between, "" for all */
    unsigned first_port, last_port; /* to listen at, 0 for any; of the stream */
};

/* auto: the stream, and UCX too where there is an RDMA device that it can use; where
 * two processes have both they use UCX.
 */
int dlr_net_open(const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                 void *arg, struct dlr_net **ret, struct dlr_err *err);
/* The round's secret, from which the stream's key is made, and the token of its
 * messages, which goes over UCX as it is. Connections that had another one's end.
 */
int dlr_net_set_key(struct dlr_net *net, const void *secret, size_t bytes,
                    unsigned char ret_token[16]);
/* Whether anybody who reaches a port may have this process write into its memory, as
 * UCX's TCP does; and no RDMA card is used, which wants all memory that it moves from
 * to be writable.
 */
bool dlr_net_exposed(const struct dlr_net *net);
/* Connections are closed without a word; one that UCX does not let go of is left alone.
 */
struct dlr_net *dlr_net_close(struct dlr_net *net);

/* This process's address, of all its back ends; belongs to net. */
void dlr_net_address(const struct dlr_net *net, const void **ret_addr,
                     size_t *ret_bytes);

int dlr_net_fd(const struct dlr_net *net); /* readable: call dlr_net_progress() */
/* Calls back for what happened. The number of events, 0: nothing more now. */
unsigned dlr_net_progress(struct dlr_net *net);
/* A dropped connection still has requests. Their ends come from dlr_net_progress() and
 * are not seen on the descriptor.
 */
bool dlr_net_closing(const struct dlr_net *net);
/* To be called before waiting on the descriptor; -EAGAIN: progress first. */
int dlr_net_arm(struct dlr_net *net);

/* The connection for bulk to another process's address, made when there is none. Does
 * not block. *ret stays valid, if perhaps useless, until it is put back; the connection
 * is kept. The other side answers to dlr_net_own_address().
 */
int dlr_net_peer(struct dlr_net *net, const void *addr, size_t bytes,
                 struct dlr_net_peer **ret, struct dlr_err *err);
/* The connection to who sent in and wrote there that this is its own address. As
 * dlr_net_peer().
 */
int dlr_net_sender(struct dlr_net_in *in, const void *addr, size_t bytes,
                   struct dlr_net_peer **ret, struct dlr_err *err);
void dlr_net_own_address(const struct dlr_net_peer *peer, const void **ret_addr,
                         size_t *ret_bytes);
/* Whether what comes over it is sealed, as dlr_net_in.sealed. */
bool dlr_net_sealed(const struct dlr_net_peer *peer);
/* How it goes: "tls" or "ucx". */
const char *dlr_net_transport(const struct dlr_net_peer *peer);
/* The devices that it goes over, "eth0" or "mlx5_0:1,mlx5_1:1"; "" when they cannot be
 * told.
 */
void dlr_net_devices(const struct dlr_net_peer *peer, char *ret, size_t size);
void dlr_net_peer_put(struct dlr_net_peer *peer); /* accepts NULL */
/* When something that was given to it last ended well (CLOCK_MONOTONIC), 0: nothing
 * yet.
 */
int64_t dlr_net_moved_ms(const struct dlr_net_peer *peer);

/* Closes it at once; everything in flight there ends with -ECANCELED. */
void dlr_net_drop(struct dlr_net_peer *peer);
/* Closes those that nobody holds. */
void dlr_net_drop_idle(struct dlr_net *net);

/* Sends data. It stays the caller's until done (may be NULL) is called, never from
 * within this call. -errno: nothing was sent and done will not be called.
 */
int dlr_net_send(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data,
                 dlr_net_done_fn done, void *arg);

/* Sends head (copied, at most DLR_NET_HEAD_MAX bytes) and lets the receiver fetch data,
 * or refuse it. Otherwise as dlr_net_send(). (With UCX 1.13 over TCP a head before data
 * that is sent in several pieces arrived as the head of a later message; one that is
 * offered did not.)
 */
int dlr_net_offer(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part head,
                  struct dlr_net_part data, dlr_net_done_fn done, void *arg);

/* Sends at most DLR_NET_HEAD_MAX bytes, copied. */
int dlr_net_tell(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data);

/* The same to where a message came from, whoever that is; best effort. */
void dlr_net_reply(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data);

/* Fetches an offered message's data into buf. 0: done will be called; 1: it is there
 * already, done will not be called; -errno: it will not come.
 */
int dlr_net_take(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg);

#endif
