/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes against a count of every item. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/layout/box.h"

#define SIDE 5

static bool has(const struct dlr_box *b, unsigned x, unsigned y, unsigned z)
{
    const uint64_t at[3] = {x, y, z};

    for (unsigned d = 0; d < b->ndim; d++)
        if (at[d] < b->off[d] || at[d] >= b->off[d] + b->len[d])
            return false;
    return true;
}

static struct dlr_box some_box(void)
{
    struct dlr_box b = {.ndim = 3};

    for (unsigned d = 0; d < 3; d++) {
        b.off[d] = (unsigned)rand() % SIDE;
        b.len[d] = 1 + (unsigned)rand() % (SIDE - b.off[d]);
    }
    return b;
}

static void what_is_cut_and_what_is_left_make_up_the_box(void **state)
{
    struct dlr_box a, b, part, rest[2 * DLR_CKPT_DIMS_MAX];

    srand(7);
    for (unsigned i = 0; i < 2000; i++) {
        a = some_box();
        b = some_box();
        bool any = dlr_box_cut(&a, &b, &part);
        unsigned n = any ? dlr_box_minus(&a, &part, rest) : 0;

        assert_true(n <= 2 * a.ndim);
        for (unsigned at = 0; at < SIDE * SIDE * SIDE; at++) {
            unsigned x = at / SIDE / SIDE, y = at / SIDE % SIDE, z = at % SIDE, in = 0;

            for (unsigned k = 0; k < n; k++)
                in += has(&rest[k], x, y, z);
            assert_int_equal(any && has(&part, x, y, z),
                             has(&a, x, y, z) && has(&b, x, y, z));
            if (any)
                assert_int_equal(in + has(&part, x, y, z), has(&a, x, y, z));
        }
    }
}

struct copy {
    const unsigned char *from;
    unsigned char *to;
    unsigned runs;
};

static int copy_run(void *arg, uint64_t from, uint64_t to, uint64_t items)
{
    struct copy *c = arg;

    memcpy(c->to + to, c->from + from, items);
    c->runs++;
    return 0;
}

/* Fills a box with what its items are called in the whole. */
static void number(const struct dlr_box *b, unsigned char *buf)
{
    for (unsigned x = 0; x < b->len[0]; x++)
        for (unsigned y = 0; y < b->len[1]; y++)
            for (unsigned z = 0; z < b->len[2]; z++)
                *buf++ =
                    (unsigned char)(1 +
                                    ((b->off[0] + x) * SIDE + b->off[1] + y) * SIDE +
                                    b->off[2] + z);
}

static void runs_bring_each_item_to_its_place(void **state)
{
    unsigned char from[SIDE * SIDE * SIDE], to[SIDE * SIDE * SIDE], want[sizeof(to)];
    struct dlr_box a, b, part;

    srand(8);
    for (unsigned i = 0; i < 2000; i++) {
        struct copy c = {from, to, 0};
        unsigned at = 0;

        a = some_box();
        b = some_box();
        if (!dlr_box_cut(&a, &b, &part))
            continue;
        number(&a, from);
        number(&b, want);
        memset(to, 0, sizeof(to));
        assert_int_equal(dlr_box_runs(&part, &a, &b, copy_run, &c), 0);
        for (uint64_t x = b.off[0]; x < b.off[0] + b.len[0]; x++)
            for (uint64_t y = b.off[1]; y < b.off[1] + b.len[1]; y++)
                for (uint64_t z = b.off[2]; z < b.off[2] + b.len[2]; z++, at++)
                    assert_int_equal(
                        to[at],
                        has(&a, (unsigned)x, (unsigned)y, (unsigned)z) ? want[at] : 0);
    }
}

static void whole_rows_are_one_run(void **state)
{
    const struct dlr_box all = {3, {0, 0, 0}, {4, 5, 6}},
                         half = {3, {2, 0, 0}, {2, 5, 6}};
    const struct dlr_box one = {0, {0}, {0}};
    unsigned char from[120] = {0}, to[60];
    struct copy c = {from, to, 0};
    struct dlr_box part;

    assert_true(dlr_box_cut(&all, &half, &part));
    assert_int_equal(dlr_box_runs(&part, &all, &half, copy_run, &c), 0);
    assert_int_equal(c.runs, 1);
    assert_true(dlr_box_cut(&one, &one, &part));
    assert_int_equal(dlr_box_runs(&part, &one, &one, copy_run, &c), 0);
    assert_int_equal(c.runs, 2);
    assert_int_equal(dlr_box_minus(&one, &part, &part), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_and_what_is_left_make_up_the_box),
        cmocka_unit_test(runs_bring_each_item_to_its_place),
        cmocka_unit_test(whole_rows_are_one_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
