/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be summed up, as D_SUM says it, and the list of it: who wants a parity
 * term is asked here.
 */
#ifndef DLR_CKPT_REDUNDANCY_PARITY_ORDER_H
#define DLR_CKPT_REDUNDANCY_PARITY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "common/local/message.h"

/* Text of D_SUM: "WORLD RANK*COEF RANK*COEF ..", every slot that the sum is made of. */
#define DLR_PARITY_TERMS_MAX 32u

struct dlr_parity_term {
    int32_t rank;
    unsigned char coef;
};

struct dlr_parity_order {
    struct dlr_parity_order *next;
    int32_t target;
    uint32_t world;
    bool any; /* every version: target is a parity shard */
    struct dlr_version version;
    uint64_t id; /* of the request that D_DONE answers; not for any */
    unsigned n;
    struct dlr_parity_term term[DLR_PARITY_TERMS_MAX];
};

/* -EBADMSG. */
int dlr_parity_order_read(const struct dlr_local_msg *msg,
                          struct dlr_parity_order *ret);
/* Whether slots of that number are of parity shards, in the order's world. */
bool dlr_parity_order_is_shard(const struct dlr_parity_order *o, int32_t rank);
/* Where rank is in term[], -1: nowhere. */
int dlr_parity_order_term(const struct dlr_parity_order *o, int32_t rank);

/* The order of a list that what rank sends at v goes into, NULL: none. same_world: v
 * was made by as many ranks as there are in this round; nothing else is a term of an
 * order for every version.
 */
struct dlr_parity_order *dlr_parity_order_for(struct dlr_parity_order *list,
                                              int32_t rank, struct dlr_version v,
                                              bool same_world);
/* The order for that target and the like (any), NULL: none. */
struct dlr_parity_order *dlr_parity_order_of(struct dlr_parity_order *list,
                                             int32_t target, bool any);
/* Takes o out of the list and frees it. */
void dlr_parity_order_del(struct dlr_parity_order **list, struct dlr_parity_order *o);

#endif
