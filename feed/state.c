/* SPDX-License-Identifier: Apache-2.0 */
/* Where sources stand is not in it: that follows from the changes, which a reader makes
 * again. So there is nothing that could be wrong but what a program may ask for, too.
 */
#include "feed/state.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt/base/crc32c.h"

#define MAGIC UINT64_C(0x646565662d726c64) /* "dlr-feed" */
#define VERSION 1u
#define CRC_AT 16

/* Writes as far as there is room, and counts on; reads zeros behind the end. */
struct cursor {
    unsigned char *to;
    const unsigned char *from;
    size_t at, size;
};

static void put(struct cursor *c, const void *le, size_t n)
{
    if (c->to && c->at + n <= c->size)
        memcpy(c->to + c->at, le, n);
    c->at += n;
}

static void put32(struct cursor *c, uint32_t value)
{
    value = htole32(value);
    put(c, &value, sizeof(value));
}

static void put64(struct cursor *c, uint64_t value)
{
    value = htole64(value);
    put(c, &value, sizeof(value));
}

static uint64_t get64(struct cursor *c)
{
    uint64_t le = 0;

    if (c->at + sizeof(le) <= c->size)
        memcpy(&le, c->from + c->at, sizeof(le));
    c->at += sizeof(le);
    return le64toh(le);
}

static uint32_t get32(struct cursor *c)
{
    uint32_t le = 0;

    if (c->at + sizeof(le) <= c->size)
        memcpy(&le, c->from + c->at, sizeof(le));
    c->at += sizeof(le);
    return le32toh(le);
}

/* --- writing --- */

static void put_source(struct cursor *c, const struct dlr_source *source)
{
    put64(c, source->length);
    put64(c, source->files);
    put64(c, source->id);
}

static void put_change(struct cursor *c, const struct dlr_change *change,
                       unsigned sources)
{
    put32(c, change->kind);
    put32(c, 0);
    put64(c, change->step);
    if (change->kind == DLR_CHANGE_BATCH) {
        put32(c, change->batch);
        put32(c, change->micro);
    }
    if (change->kind == DLR_CHANGE_SKIP)
        put64(c, change->skip);
    if (change->kind == DLR_CHANGE_EXTEND)
        put_source(c, &change->source);
    for (unsigned i = 0; change->kind == DLR_CHANGE_PARTS && i < sources; i++)
        put32(c, change->parts[i]);
}

static void put_all(struct cursor *c, const struct dlr_sequence *s)
{
    const struct dlr_sequence_conf *conf = dlr_sequence_conf(s);
    unsigned n;
    const struct dlr_change *changes = dlr_sequence_changes(s, &n);

    put64(c, MAGIC);
    put32(c, VERSION);
    put32(c, 0); /* bytes */
    put32(c, 0); /* CRC32C of what follows */
    put32(c, conf->sources);
    put64(c, conf->seed);
    put32(c, conf->order.kind);
    put32(c, conf->order.block);
    put32(c, conf->order.window);
    put32(c, conf->ends);
    put32(c, conf->batch);
    put32(c, conf->micro);
    put32(c, n);
    put32(c, 0);
    for (unsigned i = 0; i < conf->sources; i++) {
        put_source(c, &conf->source[i]);
        put32(c, conf->parts[i]);
        put32(c, 0);
    }
    for (unsigned i = 0; i < n; i++)
        put_change(c, &changes[i], conf->sources);
}

size_t dlr_feed_state_size(const struct dlr_sequence *s,
                           const struct dlr_change *change)
{
    struct cursor c = {0};

    put_all(&c, s);
    if (change)
        put_change(&c, change, dlr_sequence_conf(s)->sources);
    return c.at;
}

int dlr_feed_state_write(const struct dlr_sequence *s, void *ret, size_t room)
{
    struct cursor c = {.to = ret, .size = room};
    const size_t size = dlr_feed_state_size(s, NULL);

    if (size > room)
        return -ENOSPC;
    put_all(&c, s);
    c.at = CRC_AT - sizeof(uint32_t);
    put32(&c, (uint32_t)size);
    put32(&c, dlr_crc32c(0, c.to + CRC_AT + 4, size - CRC_AT - 4));
    return (int)size;
}

/* --- reading --- */

static void get_source(struct cursor *c, struct dlr_source *ret)
{
    ret->length = get64(c);
    ret->files = get64(c);
    ret->id = get64(c);
}

static void get_change(struct cursor *c, unsigned sources, struct dlr_change *ret)
{
    *ret = (struct dlr_change){.kind = (enum dlr_change_kind)get32(c)};
    get32(c);
    ret->step = get64(c);
    if (ret->kind == DLR_CHANGE_BATCH) {
        ret->batch = get32(c);
        ret->micro = get32(c);
    }
    if (ret->kind == DLR_CHANGE_SKIP)
        ret->skip = get64(c);
    if (ret->kind == DLR_CHANGE_EXTEND)
        get_source(c, &ret->source);
    for (unsigned i = 0; ret->kind == DLR_CHANGE_PARTS && i < sources; i++)
        ret->parts[i] = get32(c);
}

static int get_head(struct cursor *c, struct dlr_err *err)
{
    const uint64_t magic = get64(c);
    const uint32_t version = get32(c), bytes = get32(c), crc = get32(c);

    if (c->size < DLR_FEED_STATE_HEAD || magic != MAGIC)
        return dlr_fail(err, -EBADMSG, "what was saved is not the state of a feed");
    if (version != VERSION)
        return dlr_fail(err, -EPROTO,
                        "the state of the feed has version %u, this library reads %u",
                        version, VERSION);
    if (bytes < DLR_FEED_STATE_HEAD || bytes > c->size ||
        crc != dlr_crc32c(0, c->from + CRC_AT + 4, bytes - CRC_AT - 4))
        return dlr_fail(err, -EBADMSG, "the state of the feed is spoilt");
    c->size = bytes;
    return 0;
}

static int get_conf(struct cursor *c, struct dlr_sequence_conf *conf,
                    uint32_t *ret_changes, struct dlr_err *err)
{
    conf->sources = get32(c);
    conf->seed = get64(c);
    conf->order.kind = (enum dlr_order_kind)get32(c);
    conf->order.block = get32(c);
    conf->order.window = get32(c);
    conf->ends = (enum dlr_ends)get32(c);
    conf->batch = get32(c);
    conf->micro = get32(c);
    *ret_changes = get32(c);
    get32(c);
    if (conf->sources > DLR_MIXTURE_SOURCES || *ret_changes > DLR_SEQUENCE_CHANGES)
        return dlr_fail(err, -EBADMSG,
                        "the state of the feed has %u sources, %u changes",
                        conf->sources, *ret_changes);
    for (unsigned i = 0; i < conf->sources; i++) {
        get_source(c, &conf->source[i]);
        conf->parts[i] = get32(c);
        get32(c);
    }
    return 0;
}

static int get_changes(struct cursor *c, struct dlr_sequence *s, uint32_t n,
                       struct dlr_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct dlr_change change;
        unsigned made;
        int rc;

        get_change(c, dlr_sequence_conf(s)->sources, &change);
        rc = dlr_sequence_change(s, &change, err);
        if (rc < 0)
            return rc;
        dlr_sequence_changes(s, &made);
        if (made != i + 1)
            return dlr_fail(err, -EBADMSG, "change %u of the feed changes nothing", i);
    }
    if (c->at != c->size)
        return dlr_fail(err, -EBADMSG, "the state of the feed has %zu bytes, not %zu",
                        c->size, c->at);
    return 0;
}

int dlr_feed_state_read(const void *bytes, size_t size, struct dlr_sequence **ret,
                        struct dlr_err *err)
{
    struct cursor c = {.from = bytes, .size = size};
    struct dlr_sequence_conf conf = {0};
    struct dlr_sequence *s = NULL;
    uint32_t changes = 0;
    int rc = get_head(&c, err);

    if (rc == 0)
        rc = get_conf(&c, &conf, &changes, err);
    if (rc == 0)
        rc = dlr_sequence_new(&conf, &s, err);
    if (rc == 0)
        rc = get_changes(&c, s, changes, err);
    if (rc < 0) {
        dlr_sequence_free(s);
        return rc == -EPROTO || rc == -ENOMEM ? rc : -EBADMSG;
    }
    *ret = s;
    return 0;
}

/* --- comparing --- */

static int differ(struct dlr_err *err, const char *what, uint64_t stored, uint64_t here)
{
    return dlr_fail(err, -EBADMSG, "%s %" PRIu64 " in the version, %" PRIu64 " here",
                    what, stored, here);
}

static int compare_way(const struct dlr_sequence_conf *a,
                       const struct dlr_sequence_conf *b, struct dlr_err *err)
{
    static const char *const ends[] = {"span", "keep", "drop"};
    char order[2][DLR_ORDER_TEXT];

    if (a->seed != b->seed)
        return differ(err, "seed", a->seed, b->seed);
    dlr_order_format(&a->order, order[0]);
    dlr_order_format(&b->order, order[1]);
    if (strcmp(order[0], order[1]) != 0)
        return dlr_fail(err, -EBADMSG, "order %s in the version, %s here", order[0],
                        order[1]);
    if (a->ends != b->ends)
        return dlr_fail(err, -EBADMSG, "ends %s in the version, %s here", ends[a->ends],
                        ends[b->ends]);
    if (a->batch != b->batch)
        return differ(err, "global_batch at the start:", a->batch, b->batch);
    if (a->micro != b->micro)
        return differ(err, "micro_batch at the start:", a->micro, b->micro);
    if (a->sources != b->sources)
        return differ(err, "sources:", a->sources, b->sources);
    for (unsigned i = 0; i < a->sources; i++)
        if (a->parts[i] != b->parts[i])
            return dlr_fail(
                err, -EBADMSG,
                "source %u at the start: %u of 65536 parts in the version, %u "
                "here",
                i, a->parts[i], b->parts[i]);
    return 0;
}

int dlr_feed_state_compare(const struct dlr_sequence *stored,
                           const struct dlr_sequence *here, struct dlr_err *err)
{
    const unsigned sources = dlr_sequence_conf(here)->sources;
    int rc = compare_way(dlr_sequence_conf(stored), dlr_sequence_conf(here), err);

    for (unsigned i = 0; rc == 0 && i < sources; i++) {
        const struct dlr_source *a = dlr_sequence_source(stored, i),
                                *b = dlr_sequence_source(here, i);

        if (sources == 1 && b->length > a->length && b->files >= a->files)
            return 1;
        if (a->length != b->length)
            return dlr_fail(err, -EBADMSG,
                            "source %u: %" PRIu64 " records in the version, %" PRIu64
                            " here",
                            i, a->length, b->length);
        if (a->files != b->files || a->id != b->id)
            return dlr_fail(err, -EBADMSG,
                            "source %u: %" PRIu64 " files in the version, %" PRIu64
                            " here with other numbers of records",
                            i, a->files, b->files);
    }
    return rc;
}
