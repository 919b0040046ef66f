/* SPDX-License-Identifier: Apache-2.0 */
/* What is said inside a stream between two data processes (docs/protocol.md section 4):
 * frames, and which offers and receives are outstanding. Without I/O: the caller moves
 * the bytes. Little endian.
 */
#ifndef DLR_CKPT_TRANSPORT_TLS_FRAME_H
#define DLR_CKPT_TRANSPORT_TLS_FRAME_H

#include <assert.h>
#include <stdint.h>

#include "ckpt/transport/net.h"

enum dlr_frame_type {
    DLR_FRAME_MESSAGE = 1, /* bytes of it follow */
    /* its head follows; seq is the sender's, bytes what it offers */
    DLR_FRAME_OFFER = 2,
    DLR_FRAME_TAKE = 3,   /* the receiver wants what was offered as seq ... */
    DLR_FRAME_REFUSE = 4, /* ... or does not */
    DLR_FRAME_DATA = 5,   /* what was offered as seq and taken; bytes of it follow */
};

struct dlr_frame {
    uint8_t type, kind;
    uint16_t head_bytes; /* of an offer */
    uint32_t seq;
    uint64_t bytes;
};
static_assert(sizeof(struct dlr_frame) == 16, "stream layout");

/* bytes that a message is given before any came; then as many again as came */
#define DLR_FRAME_FIRST 65536
/* answers that a peer does not read, before it is read no more */
#define DLR_FRAME_OWED_MAX 4096

/* Takes the beginning of a frame apart: 0, or -EBADMSG for one that we never send, or a
 * message longer than any of its kind (dlr_wire_most()).
 * Foreign bytes: fuzz target data_stream.
 */
int dlr_frame_read(const void *from, struct dlr_frame *ret);

struct dlr_frames;

struct dlr_frames_ops {
    void (*message)(void *arg, unsigned kind, const void *data, size_t bytes);
    /* dlr_frames_take() within this call, else it is refused. */
    void (*offered)(void *arg, unsigned kind, struct dlr_net_part head, uint64_t bytes,
                    uint32_t seq);
};

struct dlr_frames *dlr_frames_new(const struct dlr_frames_ops *ops, void *arg);
/* After dlr_frames_cancel(). Accepts NULL. */
struct dlr_frames *dlr_frames_free(struct dlr_frames *f);
/* Ends all that is outstanding. */
void dlr_frames_cancel(struct dlr_frames *f, int rc);

/* Where the next bytes that come in are to be put, and at most how many: never 0. */
void dlr_frames_room(struct dlr_frames *f, void **ret_to, size_t *ret_bytes);
/* So many were put there. Calls back. -errno: the peer said what it never says; what is
 * outstanding stays.
 */
int dlr_frames_came(struct dlr_frames *f, size_t bytes);
/* The peer does not read the answers that it makes us give: nothing of it is to be
 * read.
 */
bool dlr_frames_full(const struct dlr_frames *f);

/* The next bytes to go out; false: none. */
bool dlr_frames_next(const struct dlr_frames *f, const void **ret_from,
                     size_t *ret_bytes);
/* So many of them went. Calls back. */
void dlr_frames_went(struct dlr_frames *f, size_t bytes);

/* Requests in flight whose ends will be called back. */
unsigned dlr_frames_inflight(const struct dlr_frames *f);

/* As those of net.h. */
int dlr_frames_send(struct dlr_frames *f, unsigned kind, struct dlr_net_part data,
                    dlr_net_done_fn done, void *arg);
int dlr_frames_offer(struct dlr_frames *f, unsigned kind, struct dlr_net_part head,
                     struct dlr_net_part data, dlr_net_done_fn done, void *arg);
int dlr_frames_tell(struct dlr_frames *f, unsigned kind, struct dlr_net_part data);
int dlr_frames_take(struct dlr_frames *f, uint32_t seq, void *buf, uint64_t bytes,
                    dlr_net_done_fn done, void *arg);

#endif
