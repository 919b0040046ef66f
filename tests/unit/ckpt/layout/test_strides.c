/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/layout/strides.h"

#define DIMS 4
#define ROOM (1u << 20)
#define GUARD 0xa5

static struct dlr_ckpt_region view(uint32_t item, uint32_t ndim, const uint64_t *len,
                                   const int64_t *step)
{
    struct dlr_ckpt_region r = {.item_size = item, .ndim = ndim};

    memcpy(r.local_shape, len, ndim * sizeof(*len));
    memcpy(r.stride, step, ndim * sizeof(*step));
    return r;
}

static const struct {
    const char *name;
    uint32_t item, ndim;
    uint64_t len[DIMS];
    int64_t step[DIMS];
    int rc;
    uint64_t run;
    const char *text;
} rows[] = {
    {"no strides", 4, 2, {3, 5}, {0, 0}, 0, 0, NULL},
    {"those of C order", 4, 2, {3, 5}, {20, 4}, 0, 0, NULL},
    {"one item has any", 4, 2, {1, 1}, {77, -3}, 0, 0, NULL},
    {"nothing in it", 4, 2, {0, 5}, {1, 1}, 0, 0, NULL},
    {"rows of a wider array", 4, 2, {3, 5}, {64, 4}, 1, 20, NULL},
    {"transposed", 4, 2, {3, 5}, {4, 12}, 1, 4, NULL},
    {"backwards", 8, 1, {5}, {-8}, 1, 8, NULL},
    {"every second plane", 2, 3, {2, 4, 4}, {64, 8, 2}, 1, 32, NULL},
    {"the same item twice", 4, 1, {5}, {0}, 0, 0, NULL},
    {"a row read again",
     4,
     2,
     {3, 5},
     {0, 4},
     -EINVAL,
     0,
     "its strides make items overlap"},
    {"half an item on", 4, 1, {5}, {2}, -EINVAL, 0, "its strides make items overlap"},
    {"rows that overlap",
     4,
     2,
     {3, 5},
     {16, 4},
     -EINVAL,
     0,
     "its strides make items overlap"},
    {"too far", 1, 1, {3}, {INT64_MAX}, -EINVAL, 0, "its strides reach too far"},
    {"too far backwards",
     1,
     1,
     {3},
     {INT64_MIN},
     -EINVAL,
     0,
     "its strides reach too far"},
};

static void strides_are_a_view_contiguous_or_refused(void **state)
{
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_ckpt_region r =
            view(rows[i].item, rows[i].ndim, rows[i].len, rows[i].step);
        struct dlr_strides s;
        struct dlr_err err;

        print_message("  %s\n", rows[i].name);
        assert_int_equal(dlr_strides_of(&r, &s, &err), rows[i].rc);
        if (rows[i].rc > 0)
            assert_int_equal(s.run, rows[i].run);
        if (rows[i].rc < 0)
            assert_string_equal(err.text, rows[i].text);
    }
}

static unsigned seed = 20261121;

static unsigned pick(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return seed >> 8 & 0xffff ? (seed >> 8) % n : 0;
}

/* A random box of up to four dimensions in an array with room between, in any order of
 * dimensions and direction. *ret_low is how far below its first item it reaches.
 */
static struct dlr_ckpt_region random_view(uint64_t *ret_low, uint64_t *ret_reach)
{
    static const uint32_t items[] = {1, 2, 3, 4, 8, 12};
    uint32_t item = items[pick(6)], ndim = 1 + pick(DIMS);
    uint64_t len[DIMS], step = item;
    unsigned order[DIMS], first = pick(ndim);
    int64_t strides[DIMS];

    *ret_low = 0;
    for (unsigned i = 0; i < ndim; i++)
        order[i] = (first + i) % ndim; /* innermost in memory first */
    for (unsigned i = 0; i < ndim; i++) {
        unsigned d = order[i];

        len[d] = 1 + pick(6);
        step += pick(2) ? 0 : pick(3) * item + pick(2);
        strides[d] = (int64_t)step;
        if (pick(4) == 0) {
            strides[d] = -strides[d];
            *ret_low += step * (len[d] - 1);
        }
        step *= len[d];
    }
    *ret_reach = step + item;
    return view(item, ndim, len, strides);
}

/* Packed bytes by the definition: item by item, the last dimension fastest. */
static uint64_t pack(const struct dlr_ckpt_region *r, const unsigned char *addr,
                     unsigned char *to)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < r->ndim; d++)
        n *= r->local_shape[d];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i;
        int64_t at = 0;

        for (uint32_t d = r->ndim; d-- > 0; rest /= r->local_shape[d])
            at += (int64_t)(rest % r->local_shape[d]) * r->stride[d];
        memcpy(to + i * r->item_size, addr + at, r->item_size);
    }
    return n * r->item_size;
}

static void any_part_of_any_view_is_gathered_and_put_back(void **state)
{
    static unsigned char array[ROOM], again[ROOM], want[ROOM], got[ROOM];
    unsigned views = 0;

    print_message("  seed %u\n", seed);
    for (unsigned turn = 0; turn < 4000; turn++) {
        uint64_t low, reach, bytes, at, n;
        struct dlr_ckpt_region r = random_view(&low, &reach);
        struct dlr_strides s;

        assert_true(low + reach < ROOM);
        if (dlr_strides_of(&r, &s, NULL) != 1)
            continue;
        views++;
        for (uint64_t i = 0; i < reach; i++)
            array[i] = (unsigned char)pick(256);
        bytes = pack(&r, array + low, want);
        at = pick((unsigned)bytes);
        n = 1 + pick((unsigned)(bytes - at));
        memset(got, GUARD, n + 8);
        dlr_strides_gather(&s, array + low, at, got, n);
        assert_memory_equal(got, want + at, n);
        assert_int_equal(got[n], GUARD);

        memset(again, GUARD, reach);
        dlr_strides_scatter(&s, again + low, 0, want, at);
        dlr_strides_scatter(&s, again + low, at, want + at, bytes - at);
        pack(&r, again + low, got);
        assert_memory_equal(got, want, bytes);
        for (uint64_t i = 0, other = 0; i < reach; i++) { /* and nothing else */
            other += again[i] != GUARD;
            assert_true(other <= bytes);
        }
    }
    assert_true(views > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_are_a_view_contiguous_or_refused),
        cmocka_unit_test(any_part_of_any_view_is_gathered_and_put_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
