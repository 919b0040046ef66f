/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding: protobuf.dev, "Encoding". A field is (number << 3 | kind), then a varint, or
 * a length and so many bytes.
 */
#include "mpi_launcher/trace/perfetto.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "mpi_launcher/trace/plain.h"

#define VARINT 0u
#define BYTES 2u
#define VARINT_MAX 10 /* bytes */
#define SMALL 64
#define TEXT_MAX 1024
#define ARGS_MAX 12
#define ARG_MAX (2 * (TEXT_MAX + 2 * VARINT_MAX))
#define EVENT_MAX (ARGS_MAX * (ARG_MAX + 2 * VARINT_MAX) + 2 * TEXT_MAX)

#define SEQUENCE 1 /* all packets have one writer */
#define CLOCK_WALL 1
#define CLOCK_BOOT 6

/* packet = 1 of Trace */
enum packet_field {
    PACKET_CLOCKS = 6,
    PACKET_NS = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_TRACK = 60,
};
enum event_field {
    EVENT_ARG = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNT = 30,
};
enum track_field {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8
};
enum arg_field { ARG_NUMBER = 4, ARG_TEXT = 6, ARG_NAME = 10 };
#define COUNTER_UNIT 6
#define TYPE_COUNTER 4

struct message {
    unsigned char *bytes;
    size_t n, room;
};

/* A message that is empty, with room for so many bytes. */
#define MESSAGE(name, size)                                                            \
    unsigned char name##_bytes[size];                                                  \
    struct message name = {.bytes = name##_bytes, .room = (size)}

static void put_varint(struct message *m, uint64_t value)
{
    assert(m->n + VARINT_MAX <= m->room);
    for (; value >= 0x80; value >>= 7)
        m->bytes[m->n++] = (unsigned char)(value | 0x80);
    m->bytes[m->n++] = (unsigned char)value;
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3 | VARINT);
    put_varint(m, value);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t n)
{
    put_varint(m, field << 3 | BYTES);
    put_varint(m, n);
    assert(m->n + n <= m->room);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_text(struct message *m, unsigned field, const char *text)
{
    char plain[TEXT_MAX];

    dlr_trace_plain(text, plain, sizeof(plain));
    put_bytes(m, field, plain, strlen(plain));
}

/* Of a packet all but its time is in m; a time is 0 where it has none. */
static void put_packet(FILE *out, int64_t ns, unsigned field, const struct message *m)
{
    MESSAGE(head, SMALL);
    MESSAGE(tail, SMALL);

    if (ns)
        put_number(&tail, PACKET_NS, (uint64_t)ns);
    put_number(&tail, PACKET_SEQUENCE, SEQUENCE);
    put_varint(&tail, field << 3 | BYTES);
    put_varint(&tail, m->n);
    put_varint(&head, 1 << 3 | BYTES);
    put_varint(&head, tail.n + m->n);
    fwrite(head.bytes, 1, head.n, out);
    fwrite(tail.bytes, 1, tail.n, out);
    fwrite(m->bytes, 1, m->n, out);
}

void dlr_perfetto_begin(FILE *out)
{
    static const uint64_t clocks[] = {CLOCK_WALL, CLOCK_BOOT};
    MESSAGE(all, 2 * SMALL);

    for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
        MESSAGE(clock, SMALL);

        put_number(&clock, 1, clocks[i]);
        put_number(&clock, 2, 1);
        put_bytes(&all, 1, clock.bytes, clock.n);
    }
    put_packet(out, 0, PACKET_CLOCKS, &all);
}

void dlr_perfetto_track(FILE *out, uint64_t uuid, uint64_t parent, const char *name,
                        const char *unit)
{
    MESSAGE(m, 3 * TEXT_MAX);
    MESSAGE(counter, TEXT_MAX + SMALL);

    put_number(&m, TRACK_UUID, uuid);
    put_text(&m, TRACK_NAME, name);
    if (parent)
        put_number(&m, TRACK_PARENT, parent);
    if (unit) {
        put_text(&counter, COUNTER_UNIT, unit);
        put_bytes(&m, TRACK_COUNTER, counter.bytes, counter.n);
    }
    put_packet(out, 0, PACKET_TRACK, &m);
}

static void put_arg(struct message *m, const struct dlr_trace_arg *arg)
{
    MESSAGE(one, ARG_MAX);

    put_text(&one, ARG_NAME, arg->name);
    if (arg->text)
        put_text(&one, ARG_TEXT, arg->text);
    else
        put_number(&one, ARG_NUMBER, (uint64_t)arg->number);
    put_bytes(m, EVENT_ARG, one.bytes, one.n);
}

void dlr_perfetto_event(FILE *out, enum dlr_perfetto_type type, uint64_t track,
                        int64_t ns, const char *name, const struct dlr_trace_arg *args)
{
    MESSAGE(m, EVENT_MAX);

    put_number(&m, EVENT_TYPE, type);
    put_number(&m, EVENT_TRACK, track);
    if (name)
        put_text(&m, EVENT_NAME, name);
    for (size_t i = 0; args && args[i].name && i < ARGS_MAX; i++)
        put_arg(&m, &args[i]);
    put_packet(out, ns, PACKET_EVENT, &m);
}

void dlr_perfetto_count(FILE *out, uint64_t track, int64_t ns, int64_t value)
{
    MESSAGE(m, SMALL);

    put_number(&m, EVENT_TYPE, TYPE_COUNTER);
    put_number(&m, EVENT_TRACK, track);
    put_number(&m, EVENT_COUNT, (uint64_t)value);
    put_packet(out, ns, PACKET_EVENT, &m);
}
