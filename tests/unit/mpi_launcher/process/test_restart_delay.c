/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/restart_delay.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MIN (60 * 1000)

static void pauses_grow_and_old_deaths_count_no_more(void **state)
{
    static const struct {
        int64_t at_ms, pause_ms;
        bool rests;
    } rows[] = {
        {1000, 100, false},
        {2000, 200, false},
        {3000, 400, false},
        {4000, 800, false},
        {5000, 10 * MIN - 4000, true}, /* until the first counts no more */
        {10 * MIN + 1000, 10 * MIN - (10 * MIN + 1000 - 2000), true},
        {10 * MIN + 2000, 10 * MIN - (10 * MIN + 2000 - 3000), true},
        {30 * MIN, 100, false}, /* an hour of quiet is not held against it */
        {45 * MIN, 100, false},
        {46 * MIN, 200, false},
    };
    struct dlr_restart_delay d = {0};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        bool rests;
        int64_t pause = dlr_restart_delay_pause_ms(&d, rows[i].at_ms, &rests);

        if (pause != rows[i].pause_ms || rests != rows[i].rests)
            fail_msg("row %u: %lld ms, rests %d", i, (long long)pause, rests);
    }
}

static void an_end_is_described(void **state)
{
    static const struct {
        int status;
        const char *want;
    } rows[] = {
        {SIGSEGV, "was killed by signal 11 (Segmentation fault)"},
        {W_EXITCODE(1, 0), "exited with code 1"},
        {-1, "ended its connection"},
    };
    char text[128];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        dlr_restart_delay_describe(rows[i].status, text, sizeof(text));
        assert_string_equal(text, rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_and_old_deaths_count_no_more),
        cmocka_unit_test(an_end_is_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
