/* SPDX-License-Identifier: Apache-2.0 */
/* The commit state machine where programs ask for a save before one is due. */
#include "tests/unit/ckpt/commit/commit_rig.h"

#define EVERY 1000

/* Step 2 is committed, the next one is not due for long. */
static void rig_up_rare(struct rig *r)
{
    rig_up_open(r, 2, 0, DLR_COMMIT_OPEN_MAX);
    dlr_commit_every(r->c, EVERY);
    all_ready(r, false);
    dlr_commit_progress(r->c, 7, 0, 0);
    assert_int_equal(r->seen.save.step, 2);
    all_save(r, false, 10);
    assert_int_equal(r->seen.commits, 1);
    dlr_commit_progress(r->c, 7, 9, 20);
    assert_int_equal(r->seen.saves, 1);
}

static void what_is_asked_for_is_ordered_at_once(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    dlr_commit_want(r.c, 7, 11, 30); /* by a rank that is a step further */
    assert_int_equal(r.seen.saves, 2);
    assert_int_equal(r.seen.save.step, 12);
    assert_int_equal(dlr_commit_asked(r.c), 1);
    all_save(&r, false, 40);
    assert_int_equal(r.seen.commit.step, 12);
    dlr_commit_progress(r.c, 7, 20, 50); /* that was it */
    assert_int_equal(r.seen.saves, 2);
    dlr_commit_progress(r.c, 7, 12 + EVERY - 2, 60);
    assert_int_equal(r.seen.saves, 3); /* the distance begins there */
    assert_int_equal(r.seen.save.step, 12 + EVERY);
    assert_int_equal(dlr_commit_asked(r.c), 1);
    dlr_commit_free(r.c);
}

/* All ranks in every step, and more. */
static void who_asks_all_the_time_has_one_version_at_a_time(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    for (uint64_t step = 10; step < 500; step++) {
        unsigned undecided = r.seen.saves - r.seen.commits;

        for (unsigned i = 0; i < 5; i++)
            dlr_commit_want(r.c, 7, step + 1, 20 + (int64_t)step);
        assert_true(r.seen.saves - r.seen.commits == 1);
        assert_true(undecided <= 1);
        if (step == r.seen.save.step + 4)
            all_save(&r, false, 20 + (int64_t)step);
    }
    assert_in_range(r.seen.commits, 79, 83); /* ordered 2 ahead, 4 to decide */
    assert_int_equal(r.seen.aborts, 0);
    assert_int_equal(dlr_commit_asked(r.c), r.seen.saves - 1);
    dlr_commit_free(r.c);
}

static void what_is_given_up_is_ordered_again_after_the_usual_pause(void **state)
{
    static const struct {
        const char *why;
        int64_t pause_ms;
    } rows[] = {{DLR_COMMIT_LATE, 0}, {DLR_COMMIT_BUSY, 0}, {"a partner is full", 100}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig r;

        print_message("row '%s'\n", rows[i].why);
        rig_up_rare(&r);
        dlr_commit_want(r.c, 7, 10, 30);
        dlr_commit_missed(r.c, 1, r.seen.save, rows[i].why, 40);
        assert_int_equal(r.seen.aborts, 1);
        if (rows[i].pause_ms) {
            dlr_commit_progress(r.c, 7, 15, 40 + rows[i].pause_ms - 1);
            assert_int_equal(r.seen.saves, 2);
            dlr_commit_progress(r.c, 7, 15, 40 + rows[i].pause_ms);
        }
        assert_int_equal(r.seen.saves, 3);
        assert_int_equal(dlr_commit_asked(r.c), 2);
        all_save(&r, false, 200);
        dlr_commit_progress(r.c, 7, 40, 300);
        assert_int_equal(r.seen.saves, 3);
        dlr_commit_free(r.c);
    }
}

/* What is announced and not begun is what was asked for. */
static void what_is_ordered_anyway_is_taken_for_it(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    dlr_commit_progress(r.c, 7, EVERY, 30);
    assert_int_equal(r.seen.save.step, EVERY + 2);
    dlr_commit_want(r.c, 7, EVERY + 1, 40);
    assert_int_equal(r.seen.saves, 2);
    dlr_commit_every(r.c, 3); /* others beside it are not asked for, either */
    dlr_commit_progress(r.c, 7, EVERY + 4, 45);
    assert_int_equal(r.seen.saves, 3);
    assert_int_equal(dlr_commit_asked(r.c), 0);
    dlr_commit_every(r.c, EVERY);
    all_save(&r, false, 50);
    dlr_commit_progress(r.c, 7, EVERY + 10, 60);
    assert_int_equal(r.seen.saves, 3);
    assert_int_equal(dlr_commit_asked(r.c), 0);
    dlr_commit_free(r.c);
}

static void what_is_undecided_is_decided_first(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    dlr_commit_progress(r.c, 7, EVERY, 30);
    dlr_commit_want(r.c, 7, EVERY + 4, 40); /* it is begun, and older */
    dlr_commit_progress(r.c, 7, EVERY + 8, 50);
    assert_int_equal(r.seen.saves, 2);
    all_save(&r, false, 60);
    assert_int_equal(r.seen.saves, 3);
    assert_int_equal(r.seen.save.step, EVERY + 10);
    assert_int_equal(dlr_commit_asked(r.c), 1);
    dlr_commit_free(r.c);
}

static void it_ends_with_its_round_and_others_have_no_word(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    dlr_commit_want(r.c, 6, 10, 30); /* of the round before */
    dlr_commit_want(r.c, 7, 0, 30);
    dlr_commit_want(r.c, 7, UINT64_MAX, 30); /* no step */
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_unready(r.c, 7, 1, 0);
    dlr_commit_want(r.c, 7, 10, 30);
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_stop(r.c, "a node is gone");
    dlr_commit_want(r.c, 7, 11, 30);
    assert_int_equal(
        dlr_commit_round(r.c, 8, 2, &(struct dlr_version){.round = 7, .step = 2}), 0);
    for (unsigned i = 0; i < 2; i++)
        dlr_commit_ready(r.c, 8, i, 0, 40);
    dlr_commit_progress(r.c, 8, 3, 50); /* a round's first save is due at once */
    all_save(&r, false, 60);
    dlr_commit_progress(r.c, 8, 20, 70);
    assert_int_equal(r.seen.saves, 2);
    assert_int_equal(dlr_commit_asked(r.c), 0);
    dlr_commit_free(r.c);
}

/* A supervisor that took over orders nothing before it knows what is open. */
static void it_waits_until_a_round_goes_on(void **state)
{
    struct rig r;

    rig_up_rare(&r);
    dlr_commit_hold(r.c);
    dlr_commit_want(r.c, 7, 10, 30);
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_go_on(r.c, NULL, 12);
    dlr_commit_progress(r.c, 7, 10, 40);
    assert_int_equal(r.seen.saves, 2);
    assert_int_equal(r.seen.save.step, 13);
    dlr_commit_free(r.c);
}

/* Asked before anything was begun: which step the first one is nobody knows. */
static void before_the_first_step_it_says_nothing_of_steps(void **state)
{
    struct rig r;

    rig_up_open(&r, 2, 0, DLR_COMMIT_OPEN_MAX);
    dlr_commit_every(r.c, EVERY);
    all_ready(&r, false);
    dlr_commit_want(r.c, 7, 1, 0);
    assert_int_equal(r.seen.saves, 0);
    dlr_commit_progress(r.c, 7, 500, 10);
    assert_int_equal(r.seen.saves, 1);
    assert_int_equal(r.seen.save.step, 502);
    dlr_commit_free(r.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_is_ordered_at_once),
        cmocka_unit_test(who_asks_all_the_time_has_one_version_at_a_time),
        cmocka_unit_test(what_is_given_up_is_ordered_again_after_the_usual_pause),
        cmocka_unit_test(what_is_ordered_anyway_is_taken_for_it),
        cmocka_unit_test(what_is_undecided_is_decided_first),
        cmocka_unit_test(it_ends_with_its_round_and_others_have_no_word),
        cmocka_unit_test(it_waits_until_a_round_goes_on),
        cmocka_unit_test(before_the_first_step_it_says_nothing_of_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
