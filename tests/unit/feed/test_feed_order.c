/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of an epoch, and the parts of a mixture. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "feed/mixture.h"
#include "feed/order.h"

#define MOST 400

static const struct {
    const char *text, *said;
} orders[] = {
    {NULL, "full"},
    {"full", "full"},
    {"none", "none"},
    {"blocks:1", "blocks:1x1"},
    {"blocks:7", "blocks:7x1"},
    {"blocks:7x3", "blocks:7x3"},
    {"blocks:64x2", "blocks:64x2"},
    {"blocks:1000x9", "blocks:1000x9"},
};
#define ORDERS (sizeof(orders) / sizeof(orders[0]))

static struct dlr_order order_of(const char *text)
{
    struct dlr_order order;

    assert_int_equal(dlr_order_parse(text, &order, NULL), 0);
    return order;
}

static void orders_are_read_and_written(void **state)
{
    for (unsigned i = 0; i < ORDERS; i++) {
        const struct dlr_order order = order_of(orders[i].text);
        char text[DLR_ORDER_TEXT];

        dlr_order_format(&order, text);
        assert_string_equal(text, orders[i].said);
    }
}

static void what_is_no_order_is_refused_by_name(void **state)
{
    static const char *const bad[] = {"",
                                      "Full",
                                      "blocks",
                                      "blocks:",
                                      "blocks:0",
                                      "blocks:-1",
                                      "blocks:4x",
                                      "blocks:4x0",
                                      "blocks:4x2x",
                                      "blocks:x4",
                                      "blocks:1e3",
                                      "blocks:4 x 2",
                                      "blocks:99999999999"};
    struct dlr_order order;
    struct dlr_err err;
    char want[128];

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(dlr_order_parse(bad[i], &order, &err), -EINVAL);
        dlr_format(want, sizeof(want),
                   "order '%s' is not full, blocks:B, blocks:BxK or none", bad[i]);
        assert_string_equal(err.text, want);
    }
}

static void every_epoch_is_a_permutation(void **state)
{
    static unsigned char seen[MOST];

    for (unsigned o = 0; o < ORDERS; o++)
        for (uint64_t length = 1; length <= MOST; length += 1 + length / 40) {
            const struct dlr_order order = order_of(orders[o].text);
            struct dlr_epoch e, other;

            memset(seen, 0, sizeof(seen));
            dlr_epoch_init(&e, &order, length, length);
            dlr_epoch_init(&other, &order, length, length);
            for (uint64_t place = 0; place < length; place++) {
                const uint64_t index = dlr_epoch_at(&e, place);

                if (index >= length || seen[index])
                    fail_msg("%s: place %d of %d", orders[o].said, (int)place,
                             (int)length);
                seen[index] = 1;
            }
            for (uint64_t place = length; place-- > 0;) /* whatever was asked before */
                seen[dlr_epoch_at(&other, place)]--;
            for (uint64_t i = 0; i < length; i++)
                assert_int_equal(seen[i], 0);
        }
}

/* What blocks are for: records come from few places of the file at a time. */
static void a_window_reads_its_blocks_and_no_others(void **state)
{
    const struct dlr_order order = order_of("blocks:10x4");
    struct dlr_epoch e;

    dlr_epoch_init(&e, &order, 1000, 3);
    for (unsigned window = 0; window < 1000 / 40; window++) {
        unsigned char in[100] = {0}, blocks = 0, in_row = 0;
        uint64_t before = 0;

        for (unsigned i = 0; i < 40; i++) {
            const uint64_t index = dlr_epoch_at(&e, window * 40 + i);

            blocks += !in[index / 10];
            in[index / 10] = 1;
            in_row += i > 0 && index == before + 1;
            before = index;
        }
        assert_int_equal(blocks, 4);
        assert_true(in_row < 10);
    }
}

static void parts_are_the_weights(void **state)
{
    static const struct {
        double weights[4];
        unsigned n;
        uint32_t parts[4];
    } rows[] = {
        {{1}, 1, {65536}},
        {{1, 1}, 2, {32768, 32768}},
        {{0.7, 0.3}, 2, {45875, 19661}},
        {{70, 30}, 2, {45875, 19661}},
        {{1, 1, 1}, 3, {21846, 21845, 21845}},
        {{1, 0, 1e-9}, 3, {65535, 0, 1}},
        {{1e300, 1e300, 1e-300, 0}, 4, {32767, 32768, 1, 0}},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t parts[4] = {0};

        assert_int_equal(dlr_mixture_parts(rows[i].weights, rows[i].n, parts, NULL), 0);
        for (unsigned k = 0; k < 4; k++)
            if (parts[k] != rows[i].parts[k])
                fail_msg("row %u: part %u is %u", i, k, parts[k]);
    }
}

static void what_are_no_weights_is_refused(void **state)
{
    static const struct {
        double weights[2];
        const char *said;
    } rows[] = {
        {{1, -0.5}, "weight 1 is -0.5: it must be 0 or more"},
        {{INFINITY, 1}, "weight 0 is inf: it must be 0 or more"},
        {{0, 0}, "weights of 2 sources add up to 0"},
        {{1.7e308, 1.7e308}, "weights of 2 sources add up to inf"},
    };
    const double nan_too[] = {1, NAN};
    struct dlr_err err;
    uint32_t parts[2];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(dlr_mixture_parts(rows[i].weights, 2, parts, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].said);
    }
    assert_int_equal(dlr_mixture_parts(nan_too, 2, parts, &err), -EINVAL);
}

static void each_window_of_a_mixture_has_exactly_its_parts(void **state)
{
    static const uint32_t parts[] = {45875, 1, 19659, 0, 1};
    struct dlr_mixture *m = NULL;
    uint64_t count[5] = {0}, in_row = 0, same = 0;

    assert_int_equal(dlr_mixture_new(parts, 5, 9, &m), 0);
    for (uint64_t at = 0; at < 3 * DLR_MIXTURE_PARTS; at++) {
        uint64_t before, first;
        const unsigned source = dlr_mixture_at(m, at, &before);

        assert_int_equal(before, count[source]);
        if (at % 997 == 0)
            for (unsigned i = 0; i < 5; i++)
                assert_int_equal(dlr_mixture_before(m, at, i), count[i]);
        in_row = source == 2 ? in_row + 1 : 0;
        assert_true(in_row < 20); /* it is dealt, not in one piece */
        same += at >= DLR_MIXTURE_PARTS &&
                source == dlr_mixture_at(m, at - DLR_MIXTURE_PARTS, &first);
        count[source]++;
        if ((at + 1) % DLR_MIXTURE_PARTS == 0)
            for (unsigned i = 0; i < 5; i++)
                assert_int_equal(count[i],
                                 (at + 1) / DLR_MIXTURE_PARTS * (uint64_t)parts[i]);
    }
    /* 0.7 * 0.7 + 0.3 * 0.3 of them by chance: windows are not repeats */
    assert_true(same < 2 * DLR_MIXTURE_PARTS * 65 / 100);
    dlr_mixture_free(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_read_and_written),
        cmocka_unit_test(what_is_no_order_is_refused_by_name),
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(a_window_reads_its_blocks_and_no_others),
        cmocka_unit_test(parts_are_the_weights),
        cmocka_unit_test(what_are_no_weights_is_refused),
        cmocka_unit_test(each_window_of_a_mixture_has_exactly_its_parts),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
