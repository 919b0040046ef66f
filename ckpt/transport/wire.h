/* SPDX-License-Identifier: Apache-2.0 */
/* The active messages between data processes (docs/protocol.md section 4). Little
 * endian. All begin the same way; the token is the round's, 16 bytes.
 */
#ifndef DLR_CKPT_TRANSPORT_WIRE_H
#define DLR_CKPT_TRANSPORT_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_WIRE_MAGIC 0x31574c44u /* "DLW1" */
#define DLR_WIRE_VERSION 2
#define DLR_WIRE_TOKEN 16
#define DLR_WIRE_SALT 16
#define DLR_WIRE_TAG 16 /* mac.h; zeros, and nobody looks, where the transport seals */
#define DLR_WIRE_ADDRESS_MAX 4096

enum dlr_wire_kind {
    DLR_WIRE_BEGIN = 1,  /* sender: begin, its address, the meta block, a tag */
    DLR_WIRE_ANSWER = 2, /* receiver: error 0 is ACCEPT, else REFUSE */
    DLR_WIRE_BLOCK = 3,  /* sender: head of an offer; the data is the block */
    DLR_WIRE_ACK = 4,    /* receiver: error 0: whole and SEALED */
};

struct dlr_wire_begin {
    uint32_t magic;
    uint16_t version;
    uint16_t address_bytes;
    unsigned char token[DLR_WIRE_TOKEN];
    uint32_t round;
    int32_t rank;
    uint32_t vround;
    uint32_t meta_bytes;
    uint64_t step;
    uint64_t data_bytes;
    uint64_t id; /* the sender's for this transfer */
    unsigned char salt[DLR_WIRE_SALT];
};
static_assert(sizeof(struct dlr_wire_begin) == 80, "wire layout");

struct dlr_wire_answer { /* ANSWER and ACK */
    uint32_t magic;
    uint16_t version;
    uint16_t kind;                       /* which of them */
    unsigned char token[DLR_WIRE_TOKEN]; /* as it came in BEGIN */
    uint32_t error;                      /* errno */
    uint32_t zero2;
    uint64_t id;      /* the sender's */
    uint64_t peer_id; /* the receiver's, for the blocks */
    unsigned char tag[DLR_WIRE_TAG];
};
static_assert(sizeof(struct dlr_wire_answer) == 64, "wire layout");

struct dlr_wire_block {
    uint32_t magic;
    uint16_t version;
    uint16_t zero;
    unsigned char token[DLR_WIRE_TOKEN];
    uint64_t id; /* the receiver's */
    uint32_t index;
    uint32_t zero2;
    unsigned char tag[DLR_WIRE_TAG]; /* of the fields before, and of the data */
};
static_assert(sizeof(struct dlr_wire_block) == 56, "wire layout");

#define DLR_WIRE_META_MAX (UINT64_C(1) << 30) /* of a slot (ckpt/slot/meta.h) */

/* The longest message of a kind, 0: there is none. Blocks are offered. */
static inline uint64_t dlr_wire_most(unsigned kind)
{
    switch (kind) {
    case DLR_WIRE_BEGIN:
        return sizeof(struct dlr_wire_begin) + DLR_WIRE_ADDRESS_MAX +
               DLR_WIRE_META_MAX + DLR_WIRE_TAG;
    case DLR_WIRE_ANSWER:
    case DLR_WIRE_ACK:
        return sizeof(struct dlr_wire_answer);
    default:
        return 0;
    }
}

/* Take a message apart that came from outside: 0, or -EBADMSG for one that we never
 * send. They know lengths, magic and version; whose it is and what it asks for is for
 * the caller to judge.
 */

/* *ret_address (head's address_bytes) and *ret_meta (its meta_bytes) point into the
 * message. Foreign bytes: fuzz target data.
 */
int dlr_wire_read_begin(const void *msg, size_t bytes, struct dlr_wire_begin *ret,
                        const void **ret_address, const void **ret_meta);
/* Foreign bytes: fuzz target data. */
int dlr_wire_read_answer(const void *msg, size_t bytes, struct dlr_wire_answer *ret);
/* msg: the head of an offer. Foreign bytes: fuzz target data. */
int dlr_wire_read_block(const void *msg, size_t bytes, struct dlr_wire_block *ret);

#endif
