/* SPDX-License-Identifier: Apache-2.0 */
/* A slot as a safetensors file, read back by a reader that takes nothing but the form itself. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ckpt/safetensors.h"
#include "ckpt/slot_meta.h"
#include "ckpt/slot_write.h"
#include "common/cleanup.h"

static const struct dlr_ckpt_region regions[] = {
    {"bytes", DLR_CKPT_LOCAL, "u8", 1, 1, {5}, {0}, {5}, {0}, NULL},
    {"model/weight \"w\\\"",
     DLR_CKPT_SHARD,
     "f32",
     4,
     2,
     {4, 3},
     {2, 0},
     {2, 3},
     {0},
     NULL},
    {"packed", DLR_CKPT_SHARD, "fp4x2", 3, 1, {2}, {0}, {2}, {0}, NULL},
    {"half", DLR_CKPT_REPLICATED, "bf16", 2, 1, {3}, {0}, {3}, {0}, NULL},
    {"rng", DLR_CKPT_BLOB, "u8", 1, 1, {100}, {0}, {100}, {0}, NULL},
    {"count", DLR_CKPT_LOCAL, "u64", 8, 0, {0}, {0}, {0}, {0}, NULL},
    {"none", DLR_CKPT_SHARD, "f32", 4, 1, {8}, {4}, {0}, {0}, NULL},
};
#define N (sizeof(regions) / sizeof(*regions))

/* What the form says of each: type, shape, bytes. */
static const struct {
    const char *type, *shape;
    size_t bytes;
} want[N] = {{"U8", "[5]", 5},   {"F32", "[2, 3]", 24}, {"U8", "[6]", 6},
             {"BF16", "[3]", 6}, {"U8", "[33]", 33},    {"U64", "[]", 8},
             {"F32", "[0]", 0}};

/* A sealed slot; byte k of region i is 16 * i + k. */
static struct dlr_slot *make_slot(void)
{
    static const uint64_t used[N] = {0, 0, 0, 0, 33};
    const struct dlr_slot_owner owner = {7, 3, 8};
    struct dlr_slot_plan *plan;
    struct dlr_slot_piece p;
    struct dlr_slot *slot;
    uint64_t data;

    assert_int_equal(dlr_slot_plan_new(regions, N, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){2, 48}, used), 0);
    data = dlr_slot_plan_data(plan);
    memset(dlr_slot_data(slot, plan, 0), 0, data);
    for (uint64_t at = 0; dlr_slot_plan_piece(plan, at, data, &p); at = p.off + p.bytes)
        for (uint64_t k = 0; k < p.bytes; k++)
            ((unsigned char *)dlr_slot_data(slot, plan, p.off))[k] =
                (unsigned char)(16 * p.region + k);
    dlr_slot_set_crc(slot, plan, 0, dlr_crc32c(0, dlr_slot_data(slot, plan, 0), data));
    dlr_slot_seal(slot, plan);
    dlr_slot_plan_free(plan);
    return slot;
}

static unsigned char *join(const struct dlr_safetensors *st)
{
    unsigned char *file = malloc(st->bytes), *to = file;

    for (unsigned i = 0; i < st->nparts; i++) {
        memcpy(to, st->parts[i].iov_base, st->parts[i].iov_len);
        to += st->parts[i].iov_len;
    }
    assert_int_equal(to - file, st->bytes);
    return file;
}

/* Item size of a type of the form. */
static size_t size_of(const char *type)
{
    static const char *const sizes[] = {"", "U8", "BF16", "", "F32", "", "", "", "U64"};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (!strcmp(sizes[i], type))
            return i;
    fail_msg("type %s", type);
    return 0;
}

/* Checks a tensor against the form and the table; returns its bytes. */
static size_t check_tensor(const json_t *t, unsigned i, const unsigned char *data)
{
    const json_t *off = json_object_get(t, "data_offsets");
    const char *type = json_string_value(json_object_get(t, "dtype"));
    json_int_t from = json_integer_value(json_array_get(off, 0));
    json_int_t to = json_integer_value(json_array_get(off, 1));
    DLR_AUTO_FREE char *shape = json_dumps(json_object_get(t, "shape"), 0);
    size_t items = 1, k;
    json_t *d;

    json_array_foreach(json_object_get(t, "shape"), k, d) items *=
        (size_t)json_integer_value(d);
    assert_string_equal(type, want[i].type);
    assert_string_equal(shape, want[i].shape);
    assert_int_equal(to - from, want[i].bytes);
    assert_int_equal(items * size_of(type), want[i].bytes);
    if (items > 0)
        assert_int_equal((size_t)from % size_of(type), 0);
    for (json_int_t b = from; b < to; b++)
        assert_int_equal(data[b], (unsigned char)(16 * i + (unsigned)(b - from)));
    return want[i].bytes;
}

static void a_strict_reader_takes_it(void **state)
{
    struct dlr_slot *slot = make_slot();
    struct dlr_safetensors st;
    struct dlr_err err;
    DLR_AUTO_FREE unsigned char *file = NULL;
    json_t *head, *t;
    uint64_t n, covered = 0, next = 0;
    const char *name;
    unsigned seen = 0;

    assert_int_equal(dlr_safetensors_make(slot, &st, &err), 0);
    file = join(&st);
    memcpy(&n, file, 8);
    assert_int_equal((n + 8) % 4096, 0);
    assert_int_equal(file[8], '{');
    head = json_loadb((char *)file + 8, n, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(head));
    json_object_foreach(head, name, t)
    {
        unsigned i = 0;

        if (!strcmp(name, "__metadata__"))
            continue;
        while (i < N && strcmp(regions[i].name, name))
            i++;
        assert_true(i < N);
        /* One after the other, without holes. */
        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0)),
            next);
        covered += check_tensor(t, i, file + 8 + n);
        next = covered;
        seen++;
    }
    assert_int_equal(seen, N);
    assert_int_equal(8 + n + covered, st.bytes);
    json_decref(head);
    dlr_safetensors_done(&st);
    dlr_slot_unmap(slot);
}

static void metadata_says_what_the_form_cannot(void **state)
{
    struct dlr_slot *slot = make_slot();
    struct dlr_safetensors st;
    json_t *head, *meta, *value;
    const char *key;
    char want_crc[128];
    unsigned char bytes[24];

    assert_int_equal(dlr_safetensors_make(slot, &st, NULL), 0);
    head = json_loadb(st.header + 8, st.parts[0].iov_len - 8, 0, NULL);
    meta = json_object_get(head, "__metadata__");
    json_object_foreach(meta, key, value) assert_true(json_is_string(value));
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.step")), "48");
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.rank")), "3");
    for (unsigned k = 0; k < sizeof(bytes); k++)
        bytes[k] = (unsigned char)(16 + k);
    snprintf(want_crc, sizeof(want_crc),
             "shard dtype=f32 item=4 global=[4,3] offset=[2,0] crc32c=%08x",
             dlr_crc32c(0, bytes, sizeof(bytes)));
    assert_string_equal(
        json_string_value(json_object_get(meta, "dlrover.region.model/weight \"w\\\"")),
        want_crc);
    json_decref(head);
    dlr_safetensors_done(&st);
    dlr_slot_unmap(slot);
}

static void a_spoilt_table_is_refused(void **state)
{
    struct dlr_slot *slot = make_slot();
    struct dlr_safetensors st;
    struct dlr_err err;

    for (size_t at = 4096; at < 4096 + 600; at += 7) {
        ((unsigned char *)dlr_slot_base(slot))[at] ^= 0x10;
        assert_int_equal(dlr_safetensors_make(slot, &st, &err), -EBADMSG);
        ((unsigned char *)dlr_slot_base(slot))[at] ^= 0x10;
    }
    dlr_slot_unmap(slot);
}

static void a_name_that_cannot_be_a_key_is_refused(void **state)
{
    static const struct {
        const char *names[2], *why;
    } rows[] = {
        {{"a", "__metadata__"}, "a region is named '__metadata__'"},
        {{"a", "a"}, "two regions are named 'a'"},
    };
    const struct dlr_slot_owner owner = {7, 0, 1};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_ckpt_region two[] = {regions[0], regions[0]};
        struct dlr_slot_plan *plan;
        struct dlr_safetensors st;
        struct dlr_slot *slot;
        struct dlr_err err;

        for (unsigned k = 0; k < 2; k++)
            two[k].name = rows[i].names[k];
        assert_int_equal(dlr_slot_plan_new(two, 2, &owner, &plan, NULL), 0);
        assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
        assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){0, 1}, NULL),
                         0);
        dlr_slot_seal(slot, plan);
        assert_int_equal(dlr_safetensors_make(slot, &st, &err), -EBADMSG);
        assert_string_equal(err.text, rows[i].why);
        dlr_slot_plan_free(plan);
        dlr_slot_unmap(slot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strict_reader_takes_it),
        cmocka_unit_test(metadata_says_what_the_form_cannot),
        cmocka_unit_test(a_spoilt_table_is_refused),
        cmocka_unit_test(a_name_that_cannot_be_a_key_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
