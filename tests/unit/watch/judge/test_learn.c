/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "watch/judge/judge.h"
#include "watch/judge/learn.h"

#define SECOND UINT64_C(1000000000)
#define FIRST (1800 * SECOND)

static struct dlr_learn l;
static struct dlr_look look;

static int start(void **state)
{
    l = (struct dlr_learn){0};
    look = (struct dlr_look){.step = 10, .steps_ns = SECOND, .ncomms = 2};
    look.comms[0] = (struct dlr_look_comm){.id = 1, .op = 3, .entered_ns = 50};
    look.comms[1] = (struct dlr_look_comm){.id = 2, .op = 4, .entered_ns = 40};
    return 0;
}

static void steps(unsigned n, uint64_t took_ns)
{
    while (n--)
        dlr_learn_step(&l, took_ns);
}

static uint64_t limit(void)
{
    return dlr_learn_limit_ns(&l, &look, FIRST);
}

static void limit_is_three_steps_and_three_seconds_at_least(void **state)
{
    steps(1, SECOND / 10);
    assert_int_equal(limit(), 3 * SECOND);
    steps(64, 2 * SECOND);
    assert_int_equal(limit(), 6 * SECOND);
    assert_int_equal(dlr_judge_named_ns(limit()), 48 * SECOND / 10);
}

static void median_is_of_the_last_64_steps(void **state)
{
    steps(1000, 10 * SECOND);
    steps(31, 2 * SECOND);
    assert_int_equal(dlr_learn_median_ns(&l), 10 * SECOND);
    steps(1, 2 * SECOND);
    assert_int_equal(dlr_learn_median_ns(&l), 2 * SECOND);
    assert_int_equal(dlr_learn_mad_ns(&l), 0);
    steps(16, 3 * SECOND);
    steps(16, 5 * SECOND);
    assert_int_equal(dlr_learn_median_ns(&l), 2 * SECOND);
    assert_int_equal(dlr_learn_mad_ns(&l), 0);
}

static void first_step_of_a_round_has_its_own_limit(void **state)
{
    assert_int_equal(limit(), FIRST); /* none ever */
    steps(64, SECOND);
    look.steps_ns = 0; /* of this round none has ended */
    assert_int_equal(limit(), FIRST);
    look.step = UINT64_MAX;
    look.steps_ns = SECOND;
    assert_int_equal(limit(), FIRST);
}

static void phase_has_the_limit_that_it_declares(void **state)
{
    steps(64, SECOND);
    look.phase_ns = 1;
    look.phase_limit_ns = 1200 * SECOND;
    snprintf(look.phase, sizeof(look.phase), "eval");
    assert_int_equal(limit(), 1200 * SECOND);
    look.phase_limit_ns = 0;
    assert_int_equal(limit(), FIRST);
    look.paused = true;
    assert_int_equal(limit(), UINT64_MAX);
}

static void place_is_learned_with_its_period(void **state)
{
    steps(64, SECOND);
    look.step = 200;
    dlr_learn_gap(&l, &look, 60 * SECOND);
    assert_int_equal(limit(), 75 * SECOND);
    look.step = 317; /* when it comes is not known yet */
    assert_int_equal(limit(), 75 * SECOND);
    look.step = 600;
    dlr_learn_gap(&l, &look, 80 * SECOND);
    look.step = 800; /* 400 apart so far */
    assert_int_equal(limit(), 3 * SECOND);
    dlr_learn_gap(&l, &look, 40 * SECOND);
    look.step = 1000;
    assert_int_equal(limit(), 100 * SECOND);
    look.step = 1001;
    assert_int_equal(limit(), 3 * SECOND);
}

static void place_is_of_one_operation(void **state)
{
    steps(64, SECOND);
    dlr_learn_gap(&l, &look, 60 * SECOND);
    look.comms[1].entered_ns = 60; /* another is the last */
    assert_int_equal(limit(), 3 * SECOND);
}

static void place_of_a_phase_is_learned_above_its_limit(void **state)
{
    steps(64, SECOND);
    look.phase_ns = 1;
    look.phase_limit_ns = 10 * SECOND;
    snprintf(look.phase, sizeof(look.phase), "eval");
    dlr_learn_gap(&l, &look, 40 * SECOND);
    assert_int_equal(limit(), 50 * SECOND);
}

static void gap_that_steps_explain_is_no_place(void **state)
{
    steps(64, 10 * SECOND);
    dlr_learn_gap(&l, &look, 9 * SECOND);
    for (unsigned i = 0; i < DLR_LEARN_PLACES; i++)
        assert_int_equal(l.places[i].key, 0);
}

static void place_that_came_least_often_is_forgotten(void **state)
{
    steps(64, SECOND);
    for (uint32_t i = 0; i < DLR_LEARN_PLACES; i++) {
        look.comms[0].op = 100 + i;
        dlr_learn_gap(&l, &look, 60 * SECOND);
        if (i != 7)
            dlr_learn_gap(&l, &look, 60 * SECOND);
    }
    look.comms[0].op = 500;
    dlr_learn_gap(&l, &look, 60 * SECOND);
    assert_int_equal(limit(), 75 * SECOND);
    look.comms[0].op = 107;
    assert_int_equal(limit(), 3 * SECOND);
    look.comms[0].op = 100;
    assert_int_equal(limit(), 75 * SECOND);
}

static void times_that_cannot_be_do_not_overflow(void **state)
{
    steps(64, UINT64_MAX);
    dlr_learn_gap(&l, &look, UINT64_MAX);
    look.step = 0;
    dlr_learn_gap(&l, &look, UINT64_MAX);
    assert_int_equal(limit(), UINT64_MAX);
    assert_true(dlr_judge_named_ns(limit()) > UINT64_MAX / 2);
}

static void bytes_are_read_as_they_were_written(void **state)
{
    unsigned char bytes[DLR_LEARN_BYTES];
    struct dlr_learn back;

    steps(70, 2 * SECOND);
    dlr_learn_gap(&l, &look, 60 * SECOND);
    dlr_learn_pack(&l, bytes);
    assert_int_equal(dlr_learn_unpack(bytes, sizeof(bytes), &back), 0);
    assert_memory_equal(&back, &l, sizeof(l));
    assert_int_equal(dlr_learn_unpack(bytes, sizeof(bytes) - 1, &back), -EINVAL);
    for (size_t i = 0; i < sizeof(bytes); i += 97) {
        bytes[i] ^= 4;
        assert_int_equal(dlr_learn_unpack(bytes, sizeof(bytes), &back), -EINVAL);
        bytes[i] ^= 4;
    }
}

#define TEST(f) cmocka_unit_test_setup(f, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(limit_is_three_steps_and_three_seconds_at_least),
        TEST(median_is_of_the_last_64_steps),
        TEST(first_step_of_a_round_has_its_own_limit),
        TEST(phase_has_the_limit_that_it_declares),
        TEST(place_is_learned_with_its_period),
        TEST(place_is_of_one_operation),
        TEST(place_of_a_phase_is_learned_above_its_limit),
        TEST(gap_that_steps_explain_is_no_place),
        TEST(place_that_came_least_often_is_forgotten),
        TEST(times_that_cannot_be_do_not_overflow),
        TEST(bytes_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
