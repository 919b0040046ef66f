/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be summed up, as D_SUM says it: "WORLD RANK*COEF ..". */
#ifndef DLR_CKPT_REDUNDANCY_PARITY_ORDER_H
#define DLR_CKPT_REDUNDANCY_PARITY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/stream/parity_sum.h"
#include "common/local/message.h"

struct dlr_sum_term {
    int32_t rank;
    unsigned char coef;
};

struct dlr_sum_order {
    struct dlr_sum_order *next;
    int32_t target;
    uint32_t world;
    bool any; /* every version: target is a parity shard */
    struct dlr_version version;
    uint64_t id; /* of the request that D_DONE answers; not for any */
    unsigned n;
    struct dlr_sum_term term[DLR_SUM_TERMS_MAX];
};

/* -EBADMSG. */
int dlr_sum_order_read(const struct dlr_local_msg *msg, struct dlr_sum_order *ret);
/* Whether slots of that number are of parity shards, in the order's world. */
bool dlr_sum_order_parity(const struct dlr_sum_order *o, int32_t rank);
/* Where rank is in term[], -1: nowhere. */
int dlr_sum_order_term(const struct dlr_sum_order *o, int32_t rank);

#endif
