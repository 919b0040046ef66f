/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/grace_turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DEAD_MS 1000

static void the_lowest_that_lives_writes(void **state)
{
    static const struct {
        const char *what;
        unsigned lower;
        bool led;
        int64_t silent_ms;
        bool turn;
    } rows[] = {
        {"the supervisor may be there", 0, false, 1000, false},
        {"the lowest", 0, false, 1001, true},
        {"the next, when the lowest would have begun", 1, false, 1001, false},
        {"the next, and the lowest is dead", 1, false, 3001, true},
        {"the next, and the lowest writes", 1, true, 60000, false},
        {"the third, both below are dead", 2, false, 5001, true},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].what);
        assert_int_equal(
            dlr_grace_is_turn(rows[i].lower, rows[i].led, rows[i].silent_ms, DEAD_MS),
            rows[i].turn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_that_lives_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
