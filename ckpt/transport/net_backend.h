/* SPDX-License-Identifier: Apache-2.0 */
/* What a back end of net.h is made of; only net.c and the back ends see it. Each
 * function has the contract of the one of net.h that it is named like.
 */
#ifndef DLR_CKPT_TRANSPORT_NET_BACKEND_H
#define DLR_CKPT_TRANSPORT_NET_BACKEND_H

#include "ckpt/transport/net.h"

/* An open back end: the first member of what it keeps. */
struct dlr_net_link {
    const struct dlr_net_back *back;
};

/* A connection: the first member of what it keeps of one. */
struct dlr_net_peer {
    const struct dlr_net_back *back;
    unsigned refs; /* of our callers */
};

struct dlr_net_back {
    unsigned char id; /* before its part of an address */
    bool sealed;
    const char *name;
    int (*open)(const struct dlr_net_conf *conf, const struct dlr_net_ops *ops,
                void *arg, struct dlr_net_link **ret, struct dlr_err *err);
    void (*close)(struct dlr_net_link *link);
    int (*set_key)(struct dlr_net_link *link, const void *secret, size_t bytes);
    void (*address)(const struct dlr_net_link *link, const void **ret_addr,
                    size_t *ret_bytes);
    int (*fd)(const struct dlr_net_link *link);
    unsigned (*progress)(struct dlr_net_link *link);
    bool (*closing)(const struct dlr_net_link *link);
    int (*arm)(struct dlr_net_link *link);
    int (*peer)(struct dlr_net_link *link, const void *addr, size_t bytes,
                struct dlr_net_peer **ret, struct dlr_err *err);
    int (*sender)(struct dlr_net_in *in, const void *addr, size_t bytes,
                  struct dlr_net_peer **ret, struct dlr_err *err);
    void (*own_address)(const struct dlr_net_peer *peer, const void **ret_addr,
                        size_t *ret_bytes);
    void (*devices)(const struct dlr_net_peer *peer, char *ret, size_t size);
    int64_t (*moved_ms)(const struct dlr_net_peer *peer);
    void (*drop)(struct dlr_net_peer *peer);
    void (*drop_idle)(struct dlr_net_link *link);
    int (*send)(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data,
                dlr_net_done_fn done, void *arg);
    int (*offer)(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part head,
                 struct dlr_net_part data, dlr_net_done_fn done, void *arg);
    int (*tell)(struct dlr_net_peer *peer, unsigned kind, struct dlr_net_part data);
    void (*reply)(struct dlr_net_in *in, unsigned kind, struct dlr_net_part data);
    int (*take)(struct dlr_net_in *in, void *buf, dlr_net_done_fn done, void *arg);
};

extern const struct dlr_net_back dlr_net_ucx; /* ucx.c */
extern const struct dlr_net_back dlr_net_tls; /* tls.c */

#endif
