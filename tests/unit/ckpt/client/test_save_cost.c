/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/save_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define US INT64_C(1000)
#define MS (1000 * US)

/* A program of so many steps: what each takes by itself, and what a save adds to the
 * steps it overlaps, the first of which begins it.
 */
struct program {
    const char *name;
    int64_t step_ns, other_ns; /* by turns; 0: all alike */
    unsigned odd_every;        /* each so many-th step is an evaluation of odd_ns */
    int64_t odd_ns;
    unsigned every,
        over;         /* a save in each so many-th step, and steps that it overlaps */
    int64_t extra_ns; /* of each of these */
    int64_t noise_ns; /* a step takes up to so much more */
    int64_t first_ns; /* the first save takes so much more */
    int64_t least_ns, most_ns; /* what must be found for one save */
};

static int64_t found(const struct program *p)
{
    struct dlr_save_cost c = {0};
    unsigned seed = 7;

    for (unsigned i = 1; i <= 4000; i++) {
        unsigned since = i % p->every;
        bool over = i >= p->every && since < p->over;
        int64_t ns = p->other_ns && i % 2 ? p->other_ns : p->step_ns;

        seed = seed * 1103515245 + 12345;
        ns += p->noise_ns ? (int64_t)(seed >> 8) % p->noise_ns : 0;
        ns += p->odd_every && i % p->odd_every == 0 ? p->odd_ns : 0;
        ns += over ? p->extra_ns : 0;
        ns += i == p->every ? p->first_ns : 0;
        dlr_save_cost_step(&c, ns, over && since == 0, over && since > 0);
    }
    return dlr_save_cost_extra_ns(&c);
}

static void what_a_save_adds_is_found_whatever_else_happens(void **state)
{
    static const struct program rows[] = {
        {"even steps", 50 * MS, 0, 0, 0, 10, 1, 3 * MS, 0, 0, 3 * MS, 3 * MS},
        {"a save that overlaps several", 1 * MS, 0, 0, 0, 200, 30, 100 * US, 0, 0,
         3 * MS, 3 * MS},
        {"noise of a third", 30 * MS, 0, 0, 0, 20, 2, 5 * MS, 10 * MS, 0, 7 * MS,
         13 * MS},
        {"an evaluation each 100 steps", 50 * MS, 0, 100, 5000 * MS, 7, 1, 3 * MS, 0, 0,
         3 * MS, 3 * MS},
        {"steps that are long by turns", 10 * MS, 100 * MS, 0, 0, 11, 1, 3 * MS, 0, 0,
         -10 * MS, 16 * MS},
        {"a first save with page faults", 50 * MS, 0, 0, 0, 250, 1, 3 * MS, 0, 900 * MS,
         3 * MS, 3 * MS},
        {"long steps", 600000 * MS, 0, 0, 0, 2, 1, 700 * MS, 0, 0, 700 * MS, 700 * MS},
        {"nothing", 50 * MS, 0, 0, 0, 10, 1, 0, 4 * MS, 0, -2 * MS, 2 * MS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t ns = found(&rows[i]);

        print_message("%s: %.3f ms\n", rows[i].name, (double)ns / 1e6);
        assert_true(ns >= rows[i].least_ns && ns <= rows[i].most_ns);
    }
}

static void without_a_step_to_compare_with_nothing_is_known(void **state)
{
    struct dlr_save_cost c = {0};

    for (unsigned i = 0; i < 100; i++)
        assert_false(dlr_save_cost_step(&c, 50 * MS, i % 2 == 0, true));
    assert_int_equal(dlr_save_cost_plain_ns(&c), 0);
    assert_int_equal(c.saves, 0);
}

/* The last steps without one stand for those that do not come. */
static void saves_without_a_step_between_them_count_in_groups(void **state)
{
    struct dlr_save_cost c = {0};

    for (unsigned i = 0; i < 10; i++)
        dlr_save_cost_step(&c, 50 * MS, false, false);
    for (unsigned i = 0; i < 100; i++)
        dlr_save_cost_step(&c, 52 * MS, true, i > 0);
    assert_true(c.saves >= 10);
    assert_int_equal(dlr_save_cost_extra_ns(&c), 2 * MS);
    assert_int_equal(dlr_save_cost_plain_ns(&c), 50 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_save_adds_is_found_whatever_else_happens),
        cmocka_unit_test(without_a_step_to_compare_with_nothing_is_known),
        cmocka_unit_test(saves_without_a_step_between_them_count_in_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
