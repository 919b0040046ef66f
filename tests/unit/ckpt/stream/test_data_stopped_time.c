/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/stopped_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void only_a_long_time_beyond_the_next_look_counts(void **state)
{
    static const struct {
        const char *what;
        int64_t due_ms, now_ms, stopped_ms;
    } rows[] = {
        {"no look was due", 0, 900000, 0},
        {"an event before it", 5000, 4000, 0},
        {"in time", 5000, 5000, 0},
        {"a busy machine", 5000, 6000, 0},
        {"stopped", 5000, 6001, 1001},
        {"stopped for an hour", 5000, 3605000, 3600000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].what);
        assert_int_equal(dlr_stopped_ms(rows[i].due_ms, rows[i].now_ms),
                         rows[i].stopped_ms);
    }
}

/* 8 s until a silent connection is given up would have passed with the first signal to
 * go on.
 */
static void a_time_from_before_is_as_long_ago_as_then(void **state)
{
    assert_int_equal(dlr_stopped_time_moved(4000, 3600000, 3605000), 3604000);
    assert_int_equal(dlr_stopped_time_moved(5000, 3600000, 3605000), 3605000);
    /* what has come since */
    assert_int_equal(dlr_stopped_time_moved(3604999, 3600000, 3605000), 3605000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_long_time_beyond_the_next_look_counts),
        cmocka_unit_test(a_time_from_before_is_as_long_ago_as_then),
    };

    return cmocka_run_group_tests_name("data_doze", tests, NULL, NULL);
}
