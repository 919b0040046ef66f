/* SPDX-License-Identifier: Apache-2.0 */
/* What repeated failures lead to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/policy/repeated_failure.h"

/* Failures in order: "A1" is failure A after a restore from step 1. Then what was
 * answered to each: '.' go on, 'b' further back.
 */
static const struct {
    const char *what, *failures, *want, *over;
} rows[] = {
    {"once is chance", "A5", ".", NULL},
    {"twice from one version", "A5 A5", ".b",
     "A whatever it is restored from, the oldest of round 1 step 5; there is no older "
     "version, and beginning anew would not be a repair"},
    {"and once from each older one", "A5 A5 A3 A2", ".bbb",
     "A whatever it is restored from, the oldest of round 1 step 2; there is no older "
     "version, and beginning anew would not be a repair"},
    {"steps were made between", "A5 A6 A7", "...", NULL},
    {"another failure", "A5 B5", "..", NULL},
    {"another failure compensates the first", "A5 A5 B3", ".b.", NULL},
    {"one from each", "A5 B5 A5 B5", "....", NULL},
};

static void the_same_failure_from_one_version_goes_back_further(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_repeated_failure r = {0};
        char got[16] = "", over[512] = "";
        unsigned n = 0;

        print_message("  %s\n", rows[i].what);
        for (const char *f = rows[i].failures; *f; f += f[2] ? 3 : 2) {
            const char why[2] = {f[0], '\0'};
            struct dlr_version from = {1, (unsigned)(f[1] - '0')};

            got[n++] = dlr_repeated_failure_add(&r, from, why) == DLR_REPEATED_BACK
                           ? 'b'
                           : '.';
        }
        assert_string_equal(got, rows[i].want);
        assert_int_equal(dlr_repeated_failure_is_over(&r, over, sizeof(over)),
                         rows[i].over != NULL);
        assert_string_equal(over, rows[i].over ? rows[i].over : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_failure_from_one_version_goes_back_further),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
