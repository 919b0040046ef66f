/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/cadence.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEARNED DLR_CADENCE_LEARN
#define NEW (DLR_CADENCE_LEARN - 1)

static void saves_are_as_far_apart_as_the_budget_says(void **state)
{
    static const struct {
        const char *name;
        struct dlr_cadence in;
        unsigned every;
    } rows[] = {
        {"cheap enough", {1000, 100, 0.1, LEARNED}, 1},
        {"just too dear", {1000, 100, 0.1001, LEARNED}, 2},
        {"ten times", {1000, 100, 1.0, LEARNED}, 10},
        {"a larger budget", {10000, 100, 1.0, LEARNED}, 1},
        {"a short step", {1000, 10, 0.2, LEARNED}, 20},
        {"no budget", {0, 10, 50, LEARNED}, 1},
        {"still learning", {1000, 10, 50, NEW}, 1},
        {"no step is known", {1000, 0, 50, LEARNED}, 1},
        {"it costs nothing", {1000, 10, 0, LEARNED}, 1},
        {"absurd", {1, 0.001, 1e9, LEARNED}, 1000000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row '%s'\n", rows[i].name);
        assert_int_equal(dlr_cadence_every(&rows[i].in), rows[i].every);
    }
}

static void every_step_is_judged_by_time_and_price(void **state)
{
    static const struct {
        struct dlr_cadence in;
        struct dlr_cadence_way way;
        bool possible;
        const char *words;
    } rows[] = {
        {{1000, 100, 0.05, LEARNED},
         {true, 44e6, 1.2e9},
         true,
         "44 MB of a node at 1.2 GB/s take 36.7 ms, a save holds a rank up for 0.05 "
         "ms; a "
         "step has 100 ms and may be held up for 0.1 ms"},
        {{1000, 100, 0.05, LEARNED},
         {true, 44e6, 1.2e9, 250},
         false,
         "44 MB of a node at 1.2 GB/s take 36.7 ms, 250 ms until it is decided, a save "
         "holds a rank up for 0.05 ms; a step has 100 ms and may be held up for 0.1 "
         "ms"},
        {{1000, 500, 0.05, LEARNED},
         {true, 8e9, 1.2e9},
         false,
         "8 GB of a node at 1.2 GB/s take 6.67e+03 ms, a save holds a rank up for 0.05 "
         "ms; "
         "a step has 500 ms and may be held up for 0.5 ms"},
        {{1000, 20, 0.08, LEARNED},
         {true, 44e3, 1.2e9},
         false,
         "44 kB of a node at 1.2 GB/s take 0.0367 ms, a save holds a rank up for 0.08 "
         "ms; a "
         "step has 20 ms and may be held up for 0.02 ms"},
        {{0, 20, 0.08, LEARNED},
         {false, 0, 0},
         true,
         "nothing goes to another node, a save holds a rank up for 0.08 ms; a step has "
         "20 "
         "ms"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char words[DLR_CADENCE_WORDS];

        print_message("row %zu\n", i);
        assert_int_equal(dlr_cadence_every_step(&rows[i].in, &rows[i].way, words),
                         rows[i].possible);
        assert_string_equal(words, rows[i].words);
    }
}

static void a_mean_follows(void **state)
{
    struct dlr_mean m = {0};

    dlr_mean_add(&m, 4);
    assert_true(m.value == 4);
    dlr_mean_add(&m, 8);
    assert_true(m.value == 6);
    for (unsigned i = 0; i < 100; i++)
        dlr_mean_add(&m, 1);
    assert_true(fabs(m.value - 1) < 1e-3);
    assert_int_equal(m.n, 102);
}

/* The intervals were computed with Daly's formula by hand; mtbf in hours. */
static void writes_follow_young_and_daly(void **state)
{
    static const struct {
        const char *name;
        struct dlr_cadence_risk risk;
        double mtbf_h, every_s;
        const char *bound;
    } rows[] = {
        {"one node", {1, 0, 1, 30, 0, 0}, 6335, 36972, "young-daly"},
        {"100, no copies", {100, 0, 1, 30, 0, 0}, 63.35, 3679, "young-daly"},
        {"100, copies", {100, 1, 2, 30, 0, 0}, 1266.9, 16521, "young-daly"},
        {"1000, copies", {1000, 1, 2, 30, 0, 0}, 126.7, 5211, "young-daly"},
        {"1000, two copies", {1000, 2, 3, 30, 0, 0}, 2533.6, 23375, "young-daly"},
        {"1000, xor:8", {1000, 1, 9, 30, 0, 0}, 126.65, 5211, "young-daly"},
        {"1000, rs:8+2", {1000, 2, 10, 30, 0, 0}, 2531.7, 23367, "young-daly"},
        {"two lost in 1000 h", {1000, 1, 2, 30, 2, 1000}, 48.9, 3230, "young-daly"},
        {"16 lost in 1000 h", {1000, 1, 2, 30, 16, 1000}, 8.622, 1345, "young-daly"},
        {"a slow write", {100, 0, 1, 1800, 0, 0}, 63.35, 27466, "young-daly"},
        {"the duty", {1000, 0, 1, 1800, 0, 0}, 6.335, 18000, "duty"},
        {"the first", {100, 1, 2, 0, 0, 0}, 1266.9, 60, "least"},
        {"rarely", {1, 1, 2, 60, 0, 0}, 126692, 86400, "most"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_cadence_persist p;

        dlr_cadence_persist(&rows[i].risk, &p);
        print_message("row '%s': %.0f s, %.2f h\n", rows[i].name, p.every_s,
                      p.mtbf_s / 3600);
        assert_true(fabs(p.mtbf_s / 3600 / rows[i].mtbf_h - 1) < 1e-2);
        assert_true(fabs(p.every_s / rows[i].every_s - 1) < 1e-2);
        assert_string_equal(p.bound, rows[i].bound);
    }
}

/* The chance of a window counts for sets that are large where nodes fail often. */
static void more_that_may_be_lost_together_is_written_more_often(void **state)
{
    struct dlr_cadence_risk often = {100, 1, 2, 30, 1000, 1000};
    struct dlr_cadence_persist small, large;

    dlr_cadence_persist(&often, &small);
    often.set = 33;
    dlr_cadence_persist(&often, &large);
    assert_true(large.mtbf_s < small.mtbf_s / 2);
    often.covered = 0;
    dlr_cadence_persist(&often, &large);
    assert_true(large.mtbf_s < small.mtbf_s / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_are_as_far_apart_as_the_budget_says),
        cmocka_unit_test(every_step_is_judged_by_time_and_price),
        cmocka_unit_test(a_mean_follows),
        cmocka_unit_test(writes_follow_young_and_daly),
        cmocka_unit_test(more_that_may_be_lost_together_is_written_more_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
