/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/interval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define ONE 10000 /* ppm: 1 % */
#define DAY 86400.0

static void the_interval_is_youngs_between_the_budget_and_the_staleness(void **state)
{
    static const struct {
        const char *name;
        struct dlr_interval_of of;
        unsigned every;
        double stale_s;
        const char *bound;
    } rows[] = {
        {"few nodes fail rarely", {0.001, 0.05, 50 * DAY, ONE}, 200, 10, "staleness"},
        {"a step of 1 ms", {0.0002, 0.001, 50 * DAY, ONE}, 10000, 10, "staleness"},
        {"a step of 4 s: two are 8 s", {0.01, 4, DAY, ONE}, 2, 10, "staleness"},
        {"a step of 10 min: two of them",
         {1, 600, 50 * DAY, ONE},
         2,
         1200,
         "staleness"},
        {"16,000 nodes", {0.01, 0.5, 830, ONE}, 8, 10, "optimum"},
        {"and steps that are longer than that", {0.01, 10, 830, ONE}, 1, 20, "optimum"},
        {"the budget before the optimum", {0.1, 1, 200, ONE}, 10, 10, "cost"},
        {"the budget before the staleness", {0.5, 1, 50 * DAY, ONE}, 50, 10, "cost"},
        {"a larger budget", {0.5, 1, 50 * DAY, 10 * ONE}, 10, 10, "staleness"},
        {"a save that is as long as a step",
         {600, 600, 50 * DAY, ONE},
         100,
         1200,
         "cost"},
        {"it costs nothing", {0, 0.05, DAY, ONE}, 1, 10, "optimum"},
        {"no budget", {0.5, 1, DAY, 0}, 1, 10, "off"},
        {"what the disk is to have", {0.5, 1, DAY, ONE, 7}, 7, 10, "persist"},
        {"or more often", {0.001, 1, DAY, ONE, 70}, 10, 10, "staleness"},
        {"no step is known", {0.5, 0, DAY, ONE}, 1, 10, "off"},
        {"absurd", {1e9, 1e-6, DAY, ONE}, 1000000, 10, "optimum"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_interval in;

        dlr_interval(&rows[i].of, &in);
        print_message("%s: %u, %s\n", rows[i].name, in.every, in.bound);
        assert_int_equal(in.every, rows[i].every);
        assert_true(in.stale_s == rows[i].stale_s);
        assert_string_equal(in.bound, rows[i].bound);
        assert_true(in.every_s == in.every * rows[i].of.step_s);
    }
}

static void failures_of_the_run_count_with_those_that_were_published(void **state)
{
    static const struct {
        unsigned nodes, failures;
        double node_h, hours;
    } rows[] = {
        {1, 0, 0, 3692.3},     {1000, 0, 0, 3.6923},      {1000, 0, 3692.3, 7.3846},
        {1000, 9, 0, 0.36923}, {100, 9, 240000, 243.692}, {0, 0, 0, 3692.3},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double h =
            dlr_interval_mtbf_s(rows[i].nodes, rows[i].failures, rows[i].node_h) / 3600;

        print_message("row %zu: %.4f h\n", i, h);
        assert_true(fabs(h / rows[i].hours - 1) < 1e-3);
    }
}

static void saves_are_ordered_so_that_there_is_something_to_learn(void **state)
{
    static const struct {
        const char *name;
        unsigned every;
        const char *bound;
        struct dlr_interval_run run;
        unsigned next;
    } rows[] = {
        {"the first ones", 200, "staleness", {7, 0, 1}, 2},
        {"what was learned", 8, "staleness", {8, 0, 1}, 8},
        {"each step", 1, "optimum", {9, 3, 1}, 1},
        {"one without a save", 1, "optimum", {9, 4, 1}, 2},
        {"saves that overlap three steps", 2, "staleness", {9, 4, 3}, 4},
        {"the first ones, too", 200, "staleness", {4, 4, 3}, 4},
        {"by turns", 200, "staleness", {11, 0, 1}, 197},
        {"never below the cost", 200, "cost", {11, 0, 1}, 203},
        {"what the disk is to have", 200, "persist", {11, 0, 1}, 200},
        {"as often as is possible", 1, "off", {0, 9, 1}, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dlr_interval in = {rows[i].every, 0, 10, rows[i].bound};

        print_message("%s\n", rows[i].name);
        assert_int_equal(dlr_interval_next(&in, &rows[i].run), rows[i].next);
    }
}

static void steps_that_become_longer_bring_the_next_save_nearer(void **state)
{
    static const struct {
        double every_s, since_s;
        unsigned every_now;
        uint64_t steps;
        unsigned due;
    } rows[] = {
        {10, 9.9, 200, 190, 200}, /* as foreseen */
        {10, 10.1, 200, 190, 191}, {10, 10.1, 200, 199, 200},
        {10, 12, 200, 4, 5},       {10, 600, 200, 0, 200}, /* no step is over */
        {10, 12, 3, 100, 3},  /* it was ordered, and is late */
        {0, 12, 200, 4, 200}, /* nothing is known yet */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dlr_interval in = {1, rows[i].every_s, 10, "staleness"};

        print_message("row %zu\n", i);
        assert_int_equal(
            dlr_interval_due(&in, rows[i].every_now, rows[i].since_s, rows[i].steps),
            rows[i].due);
    }
}

static void what_does_not_come_is_overdue_at_twice_the_staleness(void **state)
{
    static const struct {
        double stale_s, since_s;
        unsigned every_now;
        uint64_t steps;
        bool overdue;
    } rows[] = {
        {10, 19, 200, 1000, false}, /* soon enough */
        {10, 21, 200, 1000, true},
        {10, 21, 200, 410, false}, /* steps have become longer */
        {10, 600, 1, 1, false},    /* a first step that compiles */
        {1200, 2000, 2, 50, false},
        {10, 90, 1000, 1000, false}, /* the budget keeps saves apart */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dlr_interval in = {1, 0, rows[i].stale_s, "staleness"};

        print_message("row %zu\n", i);
        assert_int_equal(dlr_interval_overdue(&in, rows[i].every_now, rows[i].since_s,
                                              rows[i].steps),
                         rows[i].overdue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_youngs_between_the_budget_and_the_staleness),
        cmocka_unit_test(saves_are_ordered_so_that_there_is_something_to_learn),
        cmocka_unit_test(steps_that_become_longer_bring_the_next_save_nearer),
        cmocka_unit_test(what_does_not_come_is_overdue_at_twice_the_staleness),
        cmocka_unit_test(failures_of_the_run_count_with_those_that_were_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
