/* SPDX-License-Identifier: Apache-2.0 */
/* Median and median absolute deviation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "health/spread.h"

static void half_of_the_values_may_be_wrong(void **state)
{
    static const struct {
        double values[6];
        size_t n;
        double usual, spread;
    } rows[] = {
        {{7}, 1, 7, 0},
        {{9, 1}, 2, 1, 0}, /* the lower one */
        {{3, 1, 2}, 3, 2, 1},
        {{5, 5, 5, 1e30}, 4, 5, 0},
        {{-4, -1, -3, -2}, 4, -3, 1},
        {{10, 12, 11, 1e30, 9}, 5, 11, 1},
        {{1, 2, 3, 100, 200, 300}, 6, 3, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double values[6];
        struct dlr_spread s;

        print_message("  row %zu\n", i);
        for (size_t k = 0; k < rows[i].n; k++)
            values[k] = rows[i].values[k];
        s = dlr_spread_of(values, rows[i].n);
        assert_true(s.usual == rows[i].usual);
        assert_true(s.spread == rows[i].spread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_values_may_be_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
