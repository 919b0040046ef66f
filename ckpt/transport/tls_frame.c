/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/tls_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/transport/wire.h"

/* A frame to send, and the request that it belongs to. That of an offer goes from the
 * queue to those that wait for an answer, and into the queue once more with the data.
 */
struct item {
    struct item *next;
    unsigned char head[sizeof(struct dlr_frame) + DLR_NET_HEAD_MAX];
    size_t head_bytes, at; /* at: of both, that went */
    struct dlr_net_part data;
    dlr_net_done_fn done;
    void *arg;
    uint32_t seq;
    enum dlr_frame_type type;
    bool asked; /* by our caller: not an answer to what the peer sent */
};

struct queue {
    struct item *first, **last;
};

struct taken {
    struct taken *next;
    uint32_t seq;
    void *buf;
    uint64_t bytes;
    dlr_net_done_fn done;
    void *arg;
};

struct dlr_frames {
    struct dlr_frames_ops ops;
    void *arg;
    struct queue out, offered;
    struct taken *taken; /* in the order of their answers */
    unsigned owed, count;
    uint32_t last_seq;
    /* what comes in */
    unsigned char head[sizeof(struct dlr_frame) + DLR_NET_HEAD_MAX];
    size_t have;
    struct dlr_frame frame;
    bool in_body;
    unsigned char *body;  /* where the body goes; a message's is ours */
    uint64_t got, room;   /* of body: bytes that are there, that it has */
    struct taken *filled; /* whose data comes */
};

int dlr_frame_read(const void *from, struct dlr_frame *ret)
{
    struct dlr_frame f;
    bool ok = false;

    memcpy(&f, from, sizeof(f));
    switch (f.type) {
    case DLR_FRAME_MESSAGE:
        ok = f.bytes <= dlr_wire_most(f.kind) && !f.head_bytes && !f.seq;
        break;
    case DLR_FRAME_OFFER:
        ok = f.head_bytes <= DLR_NET_HEAD_MAX && f.bytes <= SIZE_MAX / 2;
        break;
    case DLR_FRAME_TAKE:
    case DLR_FRAME_REFUSE:
        ok = !f.kind && !f.head_bytes && !f.bytes;
        break;
    case DLR_FRAME_DATA:
        ok = !f.kind && !f.head_bytes;
        break;
    default:
        break;
    }
    if (!ok)
        return -EBADMSG;
    *ret = f;
    return 0;
}

struct dlr_frames *dlr_frames_new(const struct dlr_frames_ops *ops, void *arg)
{
    struct dlr_frames *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->ops = *ops;
    f->arg = arg;
    f->out.last = &f->out.first;
    f->offered.last = &f->offered.first;
    return f;
}

static void push(struct queue *q, struct item *item)
{
    item->next = NULL;
    *q->last = item;
    q->last = &item->next;
}

static void unlink_item(struct queue *q, struct item **at)
{
    struct item *item = *at;

    *at = item->next;
    if (q->last == &item->next)
        q->last = at;
}

/* The request's end. */
static void finish(struct dlr_frames *f, struct item *item, int rc)
{
    f->count -= item->asked;
    f->owed -= !item->asked;
    if (item->done)
        item->done(item->arg, rc);
    free(item);
}

static void finish_taken(struct dlr_frames *f, struct taken *t, int rc)
{
    struct taken **at = &f->taken;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    f->count--;
    t->done(t->arg, rc);
    free(t);
}

void dlr_frames_cancel(struct dlr_frames *f, int rc)
{
    struct queue *const queues[] = {&f->out, &f->offered};

    for (unsigned i = 0; i < 2; i++) {
        while (queues[i]->first) {
            struct item *item = queues[i]->first;

            unlink_item(queues[i], &queues[i]->first);
            finish(f, item, rc);
        }
    }
    f->filled = NULL;
    while (f->taken)
        finish_taken(f, f->taken, rc);
}

struct dlr_frames *dlr_frames_free(struct dlr_frames *f)
{
    if (!f)
        return NULL;
    if (f->frame.type == DLR_FRAME_MESSAGE)
        free(f->body);
    free(f);
    return NULL;
}

static void set_head(struct item *item, enum dlr_frame_type type, unsigned kind,
                     struct dlr_net_part head, uint64_t bytes)
{
    struct dlr_frame frame = {
        .type = (uint8_t)type, .kind = (uint8_t)kind, .seq = item->seq, .bytes = bytes};

    if (type == DLR_FRAME_OFFER)
        frame.head_bytes = (uint16_t)head.bytes;
    memcpy(item->head, &frame, sizeof(frame));
    if (head.bytes)
        memcpy(item->head + sizeof(frame), head.at, head.bytes);
    item->type = type;
    item->head_bytes = sizeof(frame) + head.bytes;
    item->at = 0;
}

static int add(struct dlr_frames *f, const struct item *given, enum dlr_frame_type type,
               unsigned kind, struct dlr_net_part head, uint64_t bytes)
{
    struct item *item = malloc(sizeof(*item));

    if (!item)
        return -ENOMEM;
    *item = *given;
    set_head(item, type, kind, head, bytes);
    f->count += item->asked;
    f->owed += !item->asked;
    push(&f->out, item);
    return 0;
}

int dlr_frames_send(struct dlr_frames *f, unsigned kind, struct dlr_net_part data,
                    dlr_net_done_fn done, void *arg)
{
    struct item item = {.data = data, .done = done, .arg = arg, .asked = true};

    if (data.bytes > dlr_wire_most(kind))
        return -EMSGSIZE;
    return add(f, &item, DLR_FRAME_MESSAGE, kind, (struct dlr_net_part){0}, data.bytes);
}

int dlr_frames_offer(struct dlr_frames *f, unsigned kind, struct dlr_net_part head,
                     struct dlr_net_part data, dlr_net_done_fn done, void *arg)
{
    struct item item = {
        .data = data, .done = done, .arg = arg, .seq = ++f->last_seq, .asked = true};

    return add(f, &item, DLR_FRAME_OFFER, kind, head, data.bytes);
}

int dlr_frames_tell(struct dlr_frames *f, unsigned kind, struct dlr_net_part data)
{
    struct item item = {0};

    return add(f, &item, DLR_FRAME_MESSAGE, kind, data, data.bytes);
}

static int answer(struct dlr_frames *f, enum dlr_frame_type type, uint32_t seq)
{
    struct item item = {.seq = seq};

    return add(f, &item, type, 0, (struct dlr_net_part){0}, 0);
}

int dlr_frames_take(struct dlr_frames *f, uint32_t seq, void *buf, uint64_t bytes,
                    dlr_net_done_fn done, void *arg)
{
    struct taken *t = malloc(sizeof(*t)), **last = &f->taken;

    if (!t || answer(f, DLR_FRAME_TAKE, seq) < 0) {
        free(t);
        return -ENOMEM;
    }
    *t = (struct taken){NULL, seq, buf, bytes, done, arg};
    while (*last)
        last = &(*last)->next;
    *last = t;
    f->count++;
    return 0;
}

bool dlr_frames_full(const struct dlr_frames *f)
{
    return f->owed > DLR_FRAME_OWED_MAX;
}

unsigned dlr_frames_inflight(const struct dlr_frames *f)
{
    return f->count;
}

/* --- what goes out ---------------------------------------------------------------- */

bool dlr_frames_next(const struct dlr_frames *f, const void **ret_from,
                     size_t *ret_bytes)
{
    const struct item *item = f->out.first;
    size_t at;

    if (!item)
        return false;
    if (item->at < item->head_bytes) {
        *ret_from = item->head + item->at;
        *ret_bytes = item->head_bytes - item->at;
        return true;
    }
    at = item->at - item->head_bytes;
    *ret_from = (const unsigned char *)item->data.at + at;
    *ret_bytes = item->data.bytes - at;
    return true;
}

void dlr_frames_went(struct dlr_frames *f, size_t bytes)
{
    struct item *item = f->out.first;
    size_t all = item->head_bytes;

    if (item->type != DLR_FRAME_OFFER)
        all += item->data.bytes;
    item->at += bytes;
    if (item->at < all)
        return;
    unlink_item(&f->out, &f->out.first);
    if (item->type == DLR_FRAME_OFFER)
        push(&f->offered, item);
    else
        finish(f, item, 0);
}

/* --- what comes in ---------------------------------------------------------------- */

/* The peer answers an offer. */
static int on_answer(struct dlr_frames *f, const struct dlr_frame *frame)
{
    struct item **at = &f->offered.first, *item;

    while (*at && (*at)->seq != frame->seq)
        at = &(*at)->next;
    item = *at;
    if (!item)
        return -EBADMSG;
    unlink_item(&f->offered, at);
    if (frame->type == DLR_FRAME_REFUSE) {
        finish(f, item, -ECONNREFUSED);
        return 0;
    }
    set_head(item, DLR_FRAME_DATA, 0, (struct dlr_net_part){0}, item->data.bytes);
    push(&f->out, item);
    return 0;
}

static int on_offer(struct dlr_frames *f)
{
    const struct dlr_frame *frame = &f->frame;
    const struct taken *t;

    f->ops.offered(f->arg, frame->kind,
                   (struct dlr_net_part){f->head + sizeof(*frame), frame->head_bytes},
                   frame->bytes, frame->seq);
    for (t = f->taken; t && t->next; t = t->next)
        ;
    if (t && t->seq == frame->seq)
        return 0;
    return answer(f, DLR_FRAME_REFUSE, frame->seq);
}

/* The frame is here, with its body if it has one. */
static int on_frame(struct dlr_frames *f)
{
    struct taken *t = f->filled;
    unsigned char *body = f->body;
    unsigned kind = f->frame.kind;
    size_t bytes = (size_t)f->frame.bytes;

    f->have = 0;
    f->got = 0;
    f->in_body = false;
    f->body = NULL;
    f->filled = NULL;
    switch (f->frame.type) {
    case DLR_FRAME_MESSAGE:
        f->ops.message(f->arg, kind, body, bytes);
        free(body);
        return 0;
    case DLR_FRAME_OFFER:
        return on_offer(f);
    case DLR_FRAME_DATA:
        finish_taken(f, t, 0);
        return 0;
    default:
        return on_answer(f, &f->frame);
    }
}

/* A peer that says that much will come has not sent it yet. */
static int grow_body(struct dlr_frames *f)
{
    uint64_t room = f->room ? 2 * f->room : DLR_FRAME_FIRST;
    unsigned char *body;

    if (room > f->frame.bytes)
        room = f->frame.bytes;
    body = realloc(f->body, (size_t)room + 1);
    if (!body)
        return -ENOMEM;
    f->body = body;
    f->room = room;
    return 0;
}

/* Where the body of the frame goes. */
static int place_body(struct dlr_frames *f)
{
    f->in_body = true;
    f->room = 0;
    if (f->frame.type == DLR_FRAME_MESSAGE)
        return grow_body(f);
    f->filled = f->taken;
    while (f->filled && f->filled->seq != f->frame.seq)
        f->filled = f->filled->next;
    if (!f->filled || f->filled->bytes != f->frame.bytes)
        return -EBADMSG;
    f->body = f->filled->buf;
    f->room = f->frame.bytes;
    return 0;
}

void dlr_frames_room(struct dlr_frames *f, void **ret_to, size_t *ret_bytes)
{
    size_t want = sizeof(struct dlr_frame);

    if (f->in_body) {
        *ret_to = f->body + f->got;
        *ret_bytes = (size_t)(f->room - f->got);
        return;
    }
    if (f->have >= sizeof(struct dlr_frame))
        want += f->frame.head_bytes;
    *ret_to = f->head + f->have;
    *ret_bytes = want - f->have;
}

int dlr_frames_came(struct dlr_frames *f, size_t bytes)
{
    int rc;

    if (f->in_body) {
        f->got += bytes;
        if (f->got == f->frame.bytes)
            return on_frame(f);
        return f->got == f->room ? grow_body(f) : 0;
    }
    f->have += bytes;
    if (f->have < sizeof(struct dlr_frame))
        return 0;
    if (f->have == sizeof(struct dlr_frame)) {
        rc = dlr_frame_read(f->head, &f->frame);
        if (rc < 0) {
            f->frame = (struct dlr_frame){0};
            return rc;
        }
    }
    if (f->have < sizeof(struct dlr_frame) + f->frame.head_bytes)
        return 0;
    if (f->frame.type == DLR_FRAME_MESSAGE || f->frame.type == DLR_FRAME_DATA) {
        rc = place_body(f);
        if (rc < 0)
            return rc;
        return f->frame.bytes ? 0 : on_frame(f);
    }
    return on_frame(f);
}
