/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer that comes in; private to recv*.c. */
#ifndef DLR_CKPT_STREAM_RECV_H
#define DLR_CKPT_STREAM_RECV_H

#include "ckpt/stream/parity_sum.h"
#include "ckpt/transport/mac.h"

struct dlr_recv {
    struct dlr_recv *next;
    struct dlr_data *d;
    uint64_t id, peer_id;
    int32_t rank;
    struct dlr_version version;
    uint32_t round;
    unsigned char token[DLR_WIRE_TOKEN];
    struct dlr_mac mac; /* off: the transport seals */
    struct dlr_net_peer *peer;
    void *meta; /* until there is a slot for it */
    size_t meta_bytes;
    uint64_t data_bytes;
    struct dlr_slot_table_slot *held; /* NULL: waits for a slot, or is part of a sum: */
    bool fetched;                     /* only read here */
    bool summed;
    struct dlr_parity_sum *sum; /* NULL: waits for its slot */
    unsigned char *got;         /* bitmap of blocks that came or are being fetched */
    uint32_t nblocks, ngot, want;
    unsigned inflight; /* being fetched into the slot, or checked there */
    int64_t start_ms, start_ns;
    int64_t moved_ms; /* it was opened, or a block landed */
    bool ending, cut;
    int rc;
    int64_t end_ms;
};

/* It has a place to put blocks. */
static inline bool dlr_recv_is_open(const struct dlr_recv *r)
{
    return r->held || r->sum;
}

/* Its version was decided against, or cannot become whole. */
static inline bool dlr_recv_is_rejected(const struct dlr_recv *r)
{
    return r->sum ? dlr_parity_sum_is_rejected(r->sum) : r->held && r->held->rejected;
}

/* The transfer's fate is known; it leaves when UCX has let go of the slot. */
void dlr_recv_end(struct dlr_recv *r, int rc);

#endif
