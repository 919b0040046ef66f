/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer that goes out; private to send*.c. */
#ifndef DLR_CKPT_STREAM_SEND_H
#define DLR_CKPT_STREAM_SEND_H

#include "ckpt/stream/state.h"

#define DLR_SEND_DECIDED "the version was decided against"

enum dlr_send_state {
    DLR_SEND_ASKING,
    DLR_SEND_RETRY,
    DLR_SEND_STREAMING,
    DLR_SEND_SENT,
    DLR_SEND_ENDING,
};

struct dlr_send {
    struct dlr_send *next;
    struct dlr_data *d;
    enum dlr_send_state state;
    uint64_t id, agent_id, peer_id;
    int32_t rank;
    struct dlr_version version;
    uint32_t round;
    unsigned char token[DLR_WIRE_TOKEN];
    struct dlr_mac mac; /* off: the transport seals */
    struct dlr_slot_table_slot *held;
    struct dlr_net_peer *peer;
    unsigned char *begin; /* BEGIN as it is sent: head, address, meta block, tag */
    size_t begin_bytes;
    uint32_t nblocks, sent;
    unsigned inflight;
    int rc;
    const char *why;
    int64_t start_ms, retry_ms, end_ms;
    int64_t refused_ms; /* first told to come again; 0: it was not */
    int64_t moved_ms;   /* something was given to or came from the receiver */
    bool rejected;      /* its version was decided against */
    bool paced;
    int64_t pace_ms; /* nothing goes out before; 0: not held back */
    bool cut;
};

/* Sends BEGIN; s may be gone after it. */
void dlr_send_ask(struct dlr_send *s);
/* s was held back: when it is to be looked at again, at if nothing holds it; s may be
 * gone then.
 */
int64_t dlr_send_resume(struct dlr_send *s, int64_t at);
/* The transfer's fate is known; it leaves when its buffers are its own again. why is a
 * literal.
 */
void dlr_send_end(struct dlr_send *s, int rc, const char *why);

#endif
