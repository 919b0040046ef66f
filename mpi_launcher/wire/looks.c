/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/looks.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/json/message.h"

#define RANKS_MAX (DLR_LOOKS_ROWS * 8) /* of one message */

/* Words of a struct in the order in which they travel, each as a signed number. */
struct word {
    uint16_t at;
    uint8_t size;
    bool is_signed;
};
#define WORD(type, field)                                                              \
    {                                                                                  \
        offsetof(struct type, field), sizeof(((struct type *)0)->field), false         \
    }
#define NUMBER(type, field)                                                            \
    {                                                                                  \
        offsetof(struct type, field), sizeof(((struct type *)0)->field), true          \
    }
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const struct word of_look[] = {
    WORD(dlr_look, step),       WORD(dlr_look, total),
    WORD(dlr_look, step_ns),    WORD(dlr_look, moved_ns),
    WORD(dlr_look, phase_ns),   WORD(dlr_look, phase_limit_ns),
    WORD(dlr_look, steps_ns),   WORD(dlr_look, waited_ns),
    WORD(dlr_look, calls),      WORD(dlr_look, bytes),
    WORD(dlr_look, lost),       WORD(dlr_look, garbage),
    WORD(dlr_look, torn),       NUMBER(dlr_look, pid),
    WORD(dlr_look, more_comms), WORD(dlr_look, more_calls),
};
static const struct word of_comm[] = {
    WORD(dlr_look_comm, id),      WORD(dlr_look_comm, parent),
    WORD(dlr_look_comm, size),    WORD(dlr_look_comm, my_rank),
    WORD(dlr_look_comm, op),      WORD(dlr_look_comm, type),
    WORD(dlr_look_comm, root),    WORD(dlr_look_comm, lost),
    WORD(dlr_look_comm, entered), WORD(dlr_look_comm, left),
    WORD(dlr_look_comm, bytes),   WORD(dlr_look_comm, entered_ns),
    WORD(dlr_look_comm, left_ns),
};
static const struct word of_call[] = {
    WORD(dlr_look_call, comm),       NUMBER(dlr_look_call, peer),
    NUMBER(dlr_look_call, tag),      WORD(dlr_look_call, tid),
    WORD(dlr_look_call, call),       WORD(dlr_look_call, bytes),
    WORD(dlr_look_call, entered_ns),
};

static json_t *pack_words(const struct word *words, size_t n, const void *from)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)from + words[i].at;
        uint64_t wide;
        uint32_t narrow;
        json_int_t value;

        if (words[i].size == sizeof(wide)) {
            memcpy(&wide, at, sizeof(wide));
            value = (json_int_t)wide;
        } else {
            memcpy(&narrow, at, sizeof(narrow));
            value = words[i].is_signed ? (int32_t)narrow : (json_int_t)narrow;
        }
        json_array_append_new(list, json_integer(value));
    }
    return list;
}

static int unpack_words(const json_t *list, const struct word *words, size_t n,
                        void *to)
{
    if (json_array_size(list) != n)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t v = json_integer_value(value);
        char *at = (char *)to + words[i].at;
        const uint64_t wide = (uint64_t)v;
        const uint32_t narrow = (uint32_t)v;

        if (!json_is_integer(value))
            return -EBADMSG;
        if (words[i].size == sizeof(wide))
            memcpy(at, &wide, sizeof(wide));
        else if (words[i].is_signed ? v != (int32_t)v : v < 0 || v > UINT32_MAX)
            return -EBADMSG;
        else
            memcpy(at, &narrow, sizeof(narrow));
    }
    return 0;
}

static unsigned flags_of(const struct dlr_look *look)
{
    return look->paused | look->finished << 1 | look->handler << 2;
}

static json_t *pack_row(const struct dlr_look *look)
{
    const unsigned ncomms =
        look->ncomms < DLR_LOOK_COMMS ? look->ncomms : DLR_LOOK_COMMS;
    const unsigned ncalls =
        look->ncalls < DLR_LOOK_CALLS ? look->ncalls : DLR_LOOK_CALLS;
    json_t *comms = json_array(), *calls = json_array();
    json_t *phase = json_stringn(look->phase, strnlen(look->phase, DLR_LOOK_NAME));

    for (unsigned i = 0; i < ncomms; i++)
        json_array_append_new(comms,
                              pack_words(of_comm, COUNT(of_comm), &look->comms[i]));
    for (unsigned i = 0; i < ncalls; i++)
        json_array_append_new(calls, pack_words(of_call, COUNT(of_call), &look->in[i]));
    return json_pack("{s:[],s:i,s:i,s:i,s:o,s:o,s:o,s:o}", "ranks", "data",
                     (int)look->data, "state", (int)look->state, "flags",
                     (int)flags_of(look), "phase",
                     phase ? phase : json_string("?"), /* it is not UTF-8 */
                     "words", pack_words(of_look, COUNT(of_look), look), "comms", comms,
                     "calls", calls);
}

/* Whether they differ in nothing but the number. */
static bool are_alike(const struct dlr_look *a, const struct dlr_look *b)
{
    return a->data == DLR_LOOK_NONE && b->data == DLR_LOOK_NONE && a->state == b->state;
}

json_t *dlr_looks_pack(const struct dlr_look *looks, unsigned n)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < n && rows; i++) {
        json_t *row;

        if ((i == 0 || !are_alike(&looks[i - 1], &looks[i])) &&
            json_array_append_new(rows, pack_row(&looks[i])) < 0) {
            json_decref(rows);
            return NULL;
        }
        row = json_array_get(rows, json_array_size(rows) - 1);
        json_array_append_new(json_object_get(row, "ranks"),
                              json_integer(looks[i].rank));
        if (json_array_size(rows) == DLR_LOOKS_ROWS)
            break;
    }
    return rows;
}

static int unpack_lists(const json_t *row, struct dlr_look *ret)
{
    const json_t *comms = json_object_get(row, "comms");
    const json_t *calls = json_object_get(row, "calls");

    ret->ncomms = (uint32_t)json_array_size(comms);
    ret->ncalls = (uint32_t)json_array_size(calls);
    if (!json_is_array(comms) || !json_is_array(calls) ||
        ret->ncomms > DLR_LOOK_COMMS || ret->ncalls > DLR_LOOK_CALLS)
        return -EBADMSG;
    for (uint32_t i = 0; i < ret->ncomms; i++)
        if (unpack_words(json_array_get(comms, i), of_comm, COUNT(of_comm),
                         &ret->comms[i]) < 0)
            return -EBADMSG;
    for (uint32_t i = 0; i < ret->ncalls; i++)
        if (unpack_words(json_array_get(calls, i), of_call, COUNT(of_call),
                         &ret->in[i]) < 0)
            return -EBADMSG;
    return 0;
}

static int unpack_row(const json_t *row, struct dlr_look *ret)
{
    uint64_t data, state, flags;
    const char *phase;

    if (dlr_msg_uint(row, "data", DLR_LOOK_CALLS_TOO, &data) < 0 ||
        dlr_msg_uint(row, "state", DLR_LOOK_DEAD, &state) < 0 ||
        dlr_msg_uint(row, "flags", 7, &flags) < 0 ||
        dlr_msg_str(row, "phase", &phase) < 0 || strlen(phase) > DLR_LOOK_NAME ||
        unpack_words(json_object_get(row, "words"), of_look, COUNT(of_look), ret) < 0)
        return -EBADMSG;
    ret->data = (enum dlr_look_data)data;
    ret->state = (enum dlr_look_state)state;
    ret->paused = flags & 1;
    ret->finished = flags & 2;
    ret->handler = flags & 4;
    memcpy(ret->phase, phase, strlen(phase));
    return unpack_lists(row, ret);
}

static int each_of_row(const json_t *row, struct dlr_look *look, unsigned world,
                       unsigned *seen, void (*fn)(void *arg, const struct dlr_look *),
                       void *arg)
{
    const json_t *ranks = json_object_get(row, "ranks");

    if (!json_is_array(ranks))
        return -EBADMSG;
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *rank = json_array_get(ranks, i);
        const json_int_t r = json_integer_value(rank);

        if (!json_is_integer(rank) || r < 0 || r >= world || ++*seen > RANKS_MAX)
            return -EBADMSG;
        look->rank = (int32_t)r;
        if (fn)
            fn(arg, look);
    }
    return 0;
}

static int each(const json_t *rows, uint32_t round, unsigned world,
                void (*fn)(void *arg, const struct dlr_look *look), void *arg)
{
    unsigned seen = 0;

    if (!json_is_array(rows) || json_array_size(rows) > DLR_LOOKS_ROWS)
        return -EBADMSG;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        struct dlr_look look = {.round = round};

        if (unpack_row(row, &look) < 0 ||
            each_of_row(row, &look, world, &seen, fn, arg) < 0)
            return -EBADMSG;
    }
    return 0;
}

int dlr_looks_unpack(const json_t *rows, uint32_t round, unsigned world,
                     void (*fn)(void *arg, const struct dlr_look *look), void *arg)
{
    const int rc = each(rows, round, world, NULL, NULL);

    return rc < 0 ? rc : each(rows, round, world, fn, arg);
}
