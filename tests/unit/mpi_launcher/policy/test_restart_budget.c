/* SPDX-License-Identifier: Apache-2.0 */
/* How often a program that fails is started again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi_launcher/policy/restart_budget.h"

#define HOUR_MS DLR_RESTART_WINDOW_MS

static struct dlr_restart_budget_failure fails(const char *why, int64_t ran_ms)
{
    return (struct dlr_restart_budget_failure){.why = why, .ran_ms = ran_ms};
}

static void restarts_are_counted_within_an_hour(void **state)
{
    struct dlr_restart_budget b = {.max = 2};
    struct dlr_restart_budget_failure f = fails("rank 0 exited with code 1", 100000);

    f.stepped = true;
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 0), DLR_RESTART_AGAIN);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 1000), DLR_RESTART_AGAIN);
    assert_int_equal(dlr_restart_budget_spent(&b, 1000), 2);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, HOUR_MS - 1), DLR_RESTART_SPENT);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, HOUR_MS), DLR_RESTART_AGAIN);
    assert_int_equal(dlr_restart_budget_spent(&b, HOUR_MS), 1);
}

static void or_within_the_time_that_is_said(void **state)
{
    struct dlr_restart_budget b = {.max = 1, .window_ms = 30000};
    struct dlr_restart_budget_failure f = fails("rank 0 exited with code 1", 100000);

    f.stepped = true;
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 0), DLR_RESTART_AGAIN);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 29999), DLR_RESTART_SPENT);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 30000), DLR_RESTART_AGAIN);
}

static void progress_gives_them_back(void **state)
{
    struct dlr_restart_budget b = {.max = 1};
    struct dlr_restart_budget_failure f = fails("rank 0 exited with code 1", 100000);

    f.stepped = true;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(dlr_restart_budget_failed(&b, &f, i), DLR_RESTART_AGAIN);
        dlr_restart_budget_progress(&b);
    }
    assert_int_equal(dlr_restart_budget_spent(&b, 50), 0);
}

static void those_of_an_earlier_supervisor_count(void **state)
{
    struct dlr_restart_budget b = {.max = 3};
    struct dlr_restart_budget_failure f = fails("rank 0 exited with code 1", 100000);

    dlr_restart_budget_resume(&b, 3, 10);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 20), DLR_RESTART_SPENT);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 10 + HOUR_MS),
                     DLR_RESTART_AGAIN);
}

/* A helper that returns 1 by design, a command that is not there. */
static void a_failure_at_the_start_is_tried_again_once(void **state)
{
    static const struct {
        const char *name, *first, *second;
        int64_t ran_ms;
        bool stepped, killed;
        enum dlr_restart_budget_next next;
    } rows[] = {
        {"same", "rank 0 exited with code 1", "rank 3 exited with code 1", 400, false,
         false, DLR_RESTART_START},
        {"another code", "rank 0 exited with code 1", "rank 0 exited with code 2", 400,
         false, false, DLR_RESTART_AGAIN},
        {"later", "rank 0 exited with code 1", "rank 0 exited with code 1", 20000,
         false, false, DLR_RESTART_AGAIN},
        {"steps", "rank 0 exited with code 1", "rank 0 exited with code 1", 400, true,
         false, DLR_RESTART_AGAIN},
        {"from outside", "rank 0 was killed by signal 9 (Killed)",
         "rank 0 was killed by signal 9 (Killed)", 400, false, true, DLR_RESTART_AGAIN},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_restart_budget b = {.max = 10};
        struct dlr_restart_budget_failure f = fails(rows[i].first, rows[i].ran_ms);

        print_message("%s\n", rows[i].name);
        f.stepped = rows[i].stepped;
        f.killed = rows[i].killed;
        assert_int_equal(dlr_restart_budget_failed(&b, &f, 0), DLR_RESTART_AGAIN);
        f.why = rows[i].second;
        assert_int_equal(dlr_restart_budget_failed(&b, &f, 1000), rows[i].next);
    }
}

/* Without the library nothing tells of progress: ten in an hour would be for ever. */
static void a_program_that_always_fails_at_the_same_place_ends(void **state)
{
    struct dlr_restart_budget b = {.max = 10};
    struct dlr_restart_budget_failure f =
        fails("rank 0 exited with code 1", 2 * HOUR_MS);

    assert_int_equal(dlr_restart_budget_failed(&b, &f, 0), DLR_RESTART_AGAIN);
    f.ran_ms += HOUR_MS / 10;
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 3 * HOUR_MS), DLR_RESTART_AGAIN);
    assert_int_equal(dlr_restart_budget_failed(&b, &f, 6 * HOUR_MS), DLR_RESTART_LOOP);
    b = (struct dlr_restart_budget){.max = 10};
    for (int i = 1; i < 9; i++) { /* now here, now there */
        f.ran_ms = i * HOUR_MS;
        assert_int_equal(dlr_restart_budget_failed(&b, &f, i * i * HOUR_MS),
                         DLR_RESTART_AGAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarts_are_counted_within_an_hour),
        cmocka_unit_test(or_within_the_time_that_is_said),
        cmocka_unit_test(progress_gives_them_back),
        cmocka_unit_test(those_of_an_earlier_supervisor_count),
        cmocka_unit_test(a_failure_at_the_start_is_tried_again_once),
        cmocka_unit_test(a_program_that_always_fails_at_the_same_place_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
