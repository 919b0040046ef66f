/* SPDX-License-Identifier: Apache-2.0 */
/* The commit state machine, event by event, with one version open at a time.
 * test_commit_open.c has several, test_commit_orders.c explores whole jobs.
 */
#include "tests/unit/ckpt/commit/commit_rig.h"

static void first_order_waits_for_every_rank_and_a_step(void **state)
{
    struct rig r;

    rig_up(&r, 70, true);
    dlr_commit_progress(r.c, 7, 10, 0);
    for (unsigned i = 0; i < 70; i++)
        dlr_commit_ready(r.c, 7, i, 0, 0);
    for (unsigned i = 0; i < 69; i++)
        dlr_commit_ready(r.c, 7, i, 1, 0);
    dlr_commit_ready(r.c, 7, 3, 1, 0);   /* said twice */
    dlr_commit_ready(r.c, 7, 900, 1, 0); /* nobody */
    dlr_commit_ready(r.c, 6, 69, 1, 0);  /* of another round */
    assert_int_equal(r.seen.saves, 0);
    dlr_commit_ready(r.c, 7, 69, 1, 0);
    assert_int_equal(r.seen.saves, 1);
    assert_int_equal(r.seen.save.step, 12);
    assert_int_equal(r.seen.save.round, 7);
    dlr_commit_free(r.c);
}

static void three_copies_are_three_promises(void **state)
{
    struct rig r;

    rig_up(&r, 2, 3);
    dlr_commit_progress(r.c, 7, 0, 0);
    for (unsigned holder = 0; holder < 4; holder++) {
        assert_int_equal(r.seen.saves, 0);
        dlr_commit_ready(r.c, 7, 0, holder, 0);
        dlr_commit_ready(r.c, 7, 1, holder, 0);
    }
    dlr_commit_ready(r.c, 7, 1, 4, 0); /* nobody */
    assert_int_equal(r.seen.saves, 1);
    for (unsigned rank = 0; rank < 2; rank++) {
        dlr_commit_sealed(r.c, rank, r.seen.save, 2, 100);
        for (unsigned holder = 3; holder > 0; holder--) {
            assert_int_equal(r.seen.commits, 0);
            dlr_commit_copied(r.c, rank, holder, (struct dlr_version){7, 2}, 101);
            dlr_commit_copied(r.c, rank, 0, (struct dlr_version){7, 2}, 101);
            dlr_commit_copied(r.c, rank, 4, (struct dlr_version){7, 2}, 101);
        }
    }
    assert_int_equal(r.seen.commits, 1);
    dlr_commit_free(r.c);
}

static void a_holder_without_room_for_a_new_layout_stops_orders(void **state)
{
    struct rig r;

    rig_up(&r, 2, 1);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 10, 0);
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_unready(r.c, 7, 1, 1);
    dlr_commit_unready(r.c, 7, 1, 1);   /* said twice */
    dlr_commit_unready(r.c, 7, 900, 1); /* nobody */
    dlr_commit_unready(r.c, 6, 0, 1);   /* of another round */
    all_save(&r, true, 100);            /* it was under way */
    assert_int_equal(r.seen.commits, 1);
    dlr_commit_progress(r.c, 7, 20, 200);
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_ready(r.c, 7, 1, 1, 300);
    assert_int_equal(r.seen.saves, 2);
    dlr_commit_free(r.c);
}

static void commits_keep_their_distance_and_aborts_do_not(void **state)
{
    struct rig r;

    rig_up(&r, 1, false);
    all_ready(&r, false);
    dlr_commit_every(r.c, 10);
    dlr_commit_progress(r.c, 7, 0, 0);
    assert_int_equal(r.seen.saves, 1); /* nothing is committed yet */
    assert_int_equal(r.seen.save.step, 2);
    all_save(&r, false, 1);
    assert_int_equal(r.seen.commits, 1);
    dlr_commit_progress(r.c, 7, 8, 2); /* 11 could be had: 9 after 2 */
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_progress(r.c, 7, 9, 3);
    assert_int_equal(r.seen.saves, 2);
    assert_int_equal(r.seen.save.step, 12);
    dlr_commit_missed(r.c, 0, r.seen.save, "late", 4);
    assert_int_equal(r.seen.saves, 3);
    dlr_commit_every(r.c, 1);
    all_save(&r, false, 5);
    assert_int_equal(r.seen.commits, 2);
    assert_int_equal(r.seen.saves, 4);
    dlr_commit_free(r.c);
}

static void commit_needs_every_seal_and_every_copy_once(void **state)
{
    struct rig r;

    rig_up(&r, 2, true);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 0, 0);
    dlr_commit_sealed(r.c, 0, r.seen.save, 2, 100);
    dlr_commit_sealed(r.c, 0, r.seen.save, 2, 101);
    dlr_commit_copied(r.c, 0, 1, r.seen.save, 102);
    dlr_commit_copied(r.c, 1, 1, r.seen.save, 103);
    assert_int_equal(r.seen.commits, 0);
    dlr_commit_sealed(r.c, 1, r.seen.save, 2, 104);
    assert_int_equal(r.seen.commits, 1);
    assert_int_equal(r.seen.commit.step, 2);
    assert_int_equal(r.seen.took_ms, 4);
    assert_int_equal(r.seen.saves, 2); /* the next at once */
    dlr_commit_sealed(r.c, 1, r.seen.commit, 2, 105);
    dlr_commit_missed(r.c, 1, r.seen.commit, "late", 106);
    assert_int_equal(r.seen.commits, 1);
    assert_int_equal(r.seen.aborts, 0);
    dlr_commit_free(r.c);
}

static void without_copies_seals_suffice(void **state)
{
    struct rig r;

    rig_up(&r, 3, false);
    all_ready(&r, false);
    dlr_commit_progress(r.c, 7, 5, 0);
    all_save(&r, false, 10);
    assert_int_equal(r.seen.commits, 1);
    dlr_commit_free(r.c);
}

static void an_aborted_version_is_never_committed(void **state)
{
    struct rig r;
    struct dlr_version gone;

    rig_up(&r, 2, true);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 1, 0);
    gone = r.seen.save;
    dlr_commit_sealed(r.c, 0, gone, 3, 10);
    dlr_commit_missed(r.c, 1, gone, "no free slot", 11);
    assert_int_equal(r.seen.aborts, 1);
    assert_string_equal(r.seen.why, "no free slot");
    dlr_commit_progress(r.c, 7, 3, 200);
    assert_int_equal(r.seen.saves, 2);
    assert_true(r.seen.save.step > gone.step);
    for (unsigned i = 0; i < 2; i++) {
        dlr_commit_sealed(r.c, i, gone, 3, 12);
        dlr_commit_copied(r.c, i, 1, gone, 12);
    }
    assert_int_equal(r.seen.commits, 0);
    all_save(&r, true, 220);
    assert_int_equal(r.seen.commits, 1);
    dlr_commit_free(r.c);
}

static void orders_that_fail_are_spaced_until_one_succeeds(void **state)
{
    struct rig r;
    int64_t now = 0;

    rig_up(&r, 1, false);
    all_ready(&r, false);
    for (uint64_t step = 1; step <= 1000; step++, now += 10) { /* 10 s */
        dlr_commit_progress(r.c, 7, step, now);
        dlr_commit_missed(r.c, 0, r.seen.save, "no free slot", now);
    }
    assert_in_range(r.seen.saves, 5, 8); /* at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 s */
    dlr_commit_progress(r.c, 7, 1001, now + 10000);
    all_save(&r, false, now + 10000);
    dlr_commit_missed(r.c, 0, r.seen.save, "no free slot", now + 10010);
    dlr_commit_progress(r.c, 7, 1010, now + 10120);
    assert_true(dlr_commit_pending(r.c, &r.seen.save));
    dlr_commit_free(r.c);
}

static void lateness_doubles_the_margin_and_clean_commits_shrink_it(void **state)
{
    static const unsigned margins[] = {4, 8, 16, 32, 64, 64};
    struct rig r;
    uint64_t known = 1;

    rig_up(&r, 1, false);
    all_ready(&r, false);
    dlr_commit_progress(r.c, 7, known, 0);
    for (unsigned i = 0; i < 6; i++) {
        dlr_commit_missed(r.c, 0, r.seen.save, "late by 3 steps", 0);
        assert_int_equal(r.c->when.margin, margins[i]);
    }
    for (unsigned i = 0; i < 16; i++)
        all_save(&r, false, 0);
    assert_int_equal(r.c->when.margin, 63);
    for (unsigned i = 0; i < 16 * 70; i++)
        all_save(&r, false, 0);
    assert_int_equal(r.c->when.margin, 2);
    dlr_commit_missed(r.c, 0, r.seen.save, "no free slot", 0);
    assert_int_equal(r.c->when.margin, 2);
    dlr_commit_free(r.c);
}

static void deadline_runs_from_the_step_not_from_the_order(void **state)
{
    struct rig r;

    rig_up(&r, 2, true);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 1, 0);
    assert_true(dlr_commit_deadline_ms(r.c) == INT64_MAX);
    dlr_commit_tick(r.c, 50000);
    assert_int_equal(r.seen.aborts, 0);
    dlr_commit_progress(r.c, 7, 3, 50000);
    assert_int_equal(dlr_commit_deadline_ms(r.c), 51000);
    dlr_commit_tick(r.c, 50999);
    assert_int_equal(r.seen.aborts, 0);
    dlr_commit_tick(r.c, 51000);
    assert_int_equal(r.seen.aborts, 1);
    assert_string_equal(r.seen.why, "not every rank had its copy in time");
    assert_int_equal(r.seen.saves, 1);
    dlr_commit_progress(r.c, 7, 4, 51100);
    assert_int_equal(r.seen.saves, 2);
    dlr_commit_free(r.c);
}

static void old_knowledge_is_carried_forward_at_the_rate_seen(void **state)
{
    struct rig r;

    rig_up(&r, 1, false);
    for (uint64_t ms = 0; ms <= 1000; ms += 200)
        dlr_commit_progress(r.c, 7, ms / 10, (int64_t)ms); /* a step in 10 ms */
    dlr_commit_ready(r.c, 7, 0, 0, 1195);
    assert_int_equal(r.seen.save.step, 100 + 20 + 2);
    dlr_commit_stop(r.c, "");
    /* the same step heard again just now: less than one step has passed */
    dlr_commit_round(r.c, 8, 1, NULL);
    dlr_commit_progress(r.c, 8, 100, 2000);
    dlr_commit_progress(r.c, 8, 100, 9000);
    dlr_commit_ready(r.c, 8, 0, 0, 9000);
    assert_int_equal(r.seen.save.step, 100 + 1 + 2);
    dlr_commit_free(r.c);
}

static void a_new_round_aborts_what_was_open_and_forgets(void **state)
{
    struct dlr_version restored = {.round = 7, .step = 2}, v;
    struct rig r;

    rig_up(&r, 1, false);
    all_ready(&r, false);
    dlr_commit_progress(r.c, 7, 0, 0);
    all_save(&r, false, 0);
    v = r.seen.save;
    dlr_commit_every(
        r.c, 100); /* not before the first: it alone protects ranks that moved */
    assert_int_equal(dlr_commit_round(r.c, 8, 1, &restored), 0);
    assert_int_equal(r.seen.aborts, 1);
    assert_true(dlr_commit_newest(r.c, &restored) && restored.step == 2);
    dlr_commit_sealed(r.c, 0, v, 4, 0); /* of the round before */
    dlr_commit_progress(r.c, 7, 9, 0);
    assert_int_equal(r.seen.commits, 1);
    assert_false(dlr_commit_pending(r.c, &v));
    dlr_commit_progress(r.c, 8, 0, 0);
    dlr_commit_ready(r.c, 8, 0, 0, 0);
    assert_int_equal(r.seen.save.round, 8);
    assert_int_equal(r.seen.save.step, 3); /* never at or before the restored step */
    assert_int_equal(dlr_commit_round(r.c, 9, 0, NULL), -EINVAL);
    assert_int_equal(dlr_commit_round(r.c, 9, 1, NULL), 0);
    assert_false(dlr_commit_newest(r.c, &v));
    dlr_commit_free(r.c);
}

static void a_round_that_is_taken_over_orders_nothing_until_it_goes_on(void **state)
{
    struct dlr_version committed = {.round = 7, .step = 20}, v;
    struct rig r;

    rig_up(&r, 1, false);
    dlr_commit_hold(r.c);
    all_ready(&r, false);
    dlr_commit_progress(r.c, 7, 21, 0);
    assert_int_equal(r.seen.saves, 0);
    dlr_commit_go_on(r.c, &committed, 25); /* 25 was ordered: its answers are unknown */
    dlr_commit_progress(r.c, 7, 23, 10);
    assert_int_equal(r.seen.saves, 1);
    assert_int_equal(r.seen.save.step, 26);
    assert_true(dlr_commit_newest(r.c, &v) && v.step == 20);
    dlr_commit_free(r.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_order_waits_for_every_rank_and_a_step),
        cmocka_unit_test(commits_keep_their_distance_and_aborts_do_not),
        cmocka_unit_test(commit_needs_every_seal_and_every_copy_once),
        cmocka_unit_test(three_copies_are_three_promises),
        cmocka_unit_test(a_holder_without_room_for_a_new_layout_stops_orders),
        cmocka_unit_test(without_copies_seals_suffice),
        cmocka_unit_test(an_aborted_version_is_never_committed),
        cmocka_unit_test(orders_that_fail_are_spaced_until_one_succeeds),
        cmocka_unit_test(lateness_doubles_the_margin_and_clean_commits_shrink_it),
        cmocka_unit_test(deadline_runs_from_the_step_not_from_the_order),
        cmocka_unit_test(old_knowledge_is_carried_forward_at_the_rate_seen),
        cmocka_unit_test(a_round_that_is_taken_over_orders_nothing_until_it_goes_on),
        cmocka_unit_test(a_new_round_aborts_what_was_open_and_forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
