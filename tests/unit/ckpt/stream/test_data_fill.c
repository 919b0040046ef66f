/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/fill_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_fill_is_waited_for_within_its_limit(void **state)
{
    static const struct {
        const char *what;
        int64_t now_ms;
        bool fills, waits;
    } rows[] = {
        {"nothing is filled", 5000, false, false},
        {"a fill", 5010, true, true},
        {"it goes on", 6009, true, true},
        {"it takes too long", 6010, true, false},
        {"and goes on", 9000, true, false},
        {"it has ended", 9001, false, false},
        {"the next one has a limit of its own", 9002, true, true},
        {"it has ended", 9003, false, false},
    };
    struct dlr_fill fill = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].what);
        assert_int_equal(dlr_fill_wait_ms(&fill, rows[i].fills, 1000, rows[i].now_ms),
                         rows[i].waits ? DLR_FILL_LOOK_MS : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fill_is_waited_for_within_its_limit),
    };

    return cmocka_run_group_tests_name("data_fill", tests, NULL, NULL);
}
