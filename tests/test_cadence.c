/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/cadence.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

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
    } rows[] = {
        {"one node", {1, false, 30, 0, 0}, 6335, 36972},
        {"100 nodes without copies", {100, false, 30, 0, 0}, 63.35, 3679},
        {"100 nodes with copies", {100, true, 30, 0, 0}, 1266.9, 16521},
        {"1000 nodes with copies", {1000, true, 30, 0, 0}, 126.7, 5211},
        {"the same, two lost in 1000 h", {1000, true, 30, 2, 1000}, 48.9, 3230},
        {"a slow write", {100, false, 1800, 0, 0}, 63.35, 27466},
        {"the duty bounds it", {1000, false, 1800, 0, 0}, 6.335, 18000},
        {"nothing was written yet", {100, true, 0, 0, 0}, 1266.9, 60},
        {"a day at least", {1, true, 60, 0, 0}, 126692, 86400},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double mtbf_s = 0, s = dlr_cadence_persist_s(&rows[i].risk, &mtbf_s);

        print_message("row '%s': %.0f s, %.2f h\n", rows[i].name, s, mtbf_s / 3600);
        assert_true(fabs(mtbf_s / 3600 / rows[i].mtbf_h - 1) < 1e-2);
        assert_true(fabs(s / rows[i].every_s - 1) < 1e-2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_are_as_far_apart_as_the_budget_says),
        cmocka_unit_test(every_step_is_judged_by_time_and_price),
        cmocka_unit_test(a_mean_follows),
        cmocka_unit_test(writes_follow_young_and_daly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
