/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/grace_turn.h"

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
        int64_t led_ms, silent_ms;
        bool turn;
    } rows[] = {
        {"the supervisor may be there", 0, -1, 1000, false},
        {"the lowest", 0, -1, 1001, true},
        {"the next, when the lowest would have begun", 1, -1, 1001, false},
        {"the next, and the lowest is dead", 1, -1, 3001, true},
        {"the next, and the lowest writes", 1, 1000, 60000, false},
        {"the third, both below are dead", 2, -1, 5001, true},
        {"the lowest, and a higher one that wrote is dead", 0, 2001, 60000, true},
        {"the next, and the lowest may write yet", 1, 4000, 60000, false},
        {"the next, and the lowest died while it wrote", 1, 4001, 60000, true},
        {"the third leaves it to the next", 2, 4001, 60000, false},
        {"the third, and the next is dead, too", 2, 6001, 60000, true},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].what);
        assert_int_equal(dlr_grace_is_turn(rows[i].lower, rows[i].led_ms,
                                           rows[i].silent_ms, DEAD_MS),
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
