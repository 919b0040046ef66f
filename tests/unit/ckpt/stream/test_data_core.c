/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/core_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS INT64_C(1000000)

static void a_core_is_full_when_most_of_a_span_was_used(void **state)
{
    static const struct {
        const char *what;
        int64_t ran_ms, now_ms;
        bool full;
    } rows[] = {
        {"the first look, since the machine's start", 40, 90000, false},
        {"too soon to say", 49, 90009, false},
        {"nearly all of it", 48, 90010, true},
        {"too soon to say otherwise", 48, 90019, true},
        {"three quarters, no more", 63, 90030, false},
        {"another thread, which had less", 2, 90031, false},
        {"it has all of it", 22, 90051, true},
        {"it rests", 22, 90951, false},
    };
    struct dlr_core core = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].what);
        assert_int_equal(
            dlr_core_full(&core, 75, rows[i].ran_ms * MS, rows[i].now_ms * MS),
            rows[i].full);
        assert_true(dlr_core_full(&core, 0, rows[i].ran_ms * MS, rows[i].now_ms * MS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_is_full_when_most_of_a_span_was_used),
    };

    return cmocka_run_group_tests_name("data_core", tests, NULL, NULL);
}
