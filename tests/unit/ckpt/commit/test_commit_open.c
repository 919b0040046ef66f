/* SPDX-License-Identifier: Apache-2.0 */
/* The commit state machine with several versions open at a time, and how far apart it
 * orders them.
 */
#include "tests/unit/ckpt/commit/commit_rig.h"

static void ordered_are(const struct rig *r, unsigned n, const uint64_t *steps)
{
    assert_int_equal(r->seen.saves, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(r->seen.ordered[i], steps[i]);
}

/* Beats come every second step; what is sealed tells of steps, too. */
static void each_step_is_announced_before_it_begins(void **state)
{
    struct rig r;
    uint64_t next = 2;

    rig_up_open(&r, 2, true, 0);
    all_ready(&r, true);
    for (uint64_t step = 0; step < 200; step++) {
        int64_t now = (int64_t)step * 100;

        if (step % 2 == 0)
            dlr_commit_progress(r.c, 7, step, now);
        if (step < 2)
            continue;
        assert_true(r.seen.saves > step - 2);
        all_save_step(&r, step, true, now + 10);
        assert_int_equal(r.seen.commit.step, step);
        assert_int_equal(r.seen.commits, step - 1);
    }
    for (unsigned i = 0; i < SEEN_MAX; i++)
        assert_int_equal(r.seen.ordered[i], next++);
    assert_int_equal(r.seen.aborts, 0);
    dlr_commit_free(r.c);
}

static void several_are_open_and_none_shares_a_place(void **state)
{
    static const uint64_t dense[] = {2, 3, 4, 5, 6, 7, 8, 9};
    struct rig r;
    bool taken[DLR_PAGE_RING] = {0};

    rig_up_open(&r, 1, false, 0);
    all_ready(&r, false);
    r.c->when.per_ms = 0.1;
    dlr_commit_progress(r.c, 7, 0, 0);
    ordered_are(&r, 8, dense);
    dlr_commit_stop(r.c, "");
    dlr_commit_round(r.c, 8, 1, NULL);
    dlr_commit_ready(r.c, 8, 0, 0, 0);
    dlr_commit_every(r.c, DLR_PAGE_RING);
    r.c->when.per_ms = 1;
    r.seen.saves = 0;
    dlr_commit_progress(r.c, 8, 0, 0);
    assert_int_equal(r.seen.saves, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_false(taken[r.seen.ordered[i] % DLR_PAGE_RING]);
        taken[r.seen.ordered[i] % DLR_PAGE_RING] = true;
    }
    dlr_commit_free(r.c);
}

static void a_newer_one_that_is_whole_ends_the_older_first(void **state)
{
    struct rig r;

    rig_up_open(&r, 2, true, 2);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 0, 0);
    dlr_commit_sealed(r.c, 0, (struct dlr_version){7, 2}, 2, 10);
    assert_int_equal(r.seen.aborts, 0);
    all_save_step(&r, 3, true, 20);
    assert_int_equal(r.seen.aborts, 1);
    assert_int_equal(r.seen.abort.step, 2);
    assert_string_equal(r.seen.why, "a newer one is whole");
    assert_int_equal(r.seen.commit.step, 3);
    all_save_step(&r, 2, true, 30);
    assert_int_equal(r.seen.commits, 1);
    assert_int_equal(r.seen.aborts, 1);
    dlr_commit_free(r.c);
}

static void a_failure_withdraws_what_no_rank_has_begun(void **state)
{
    struct rig r;

    rig_up_open(&r, 1, false, 3);
    all_ready(&r, false);
    r.c->when.per_ms = 0.01;
    dlr_commit_progress(r.c, 7, 0, 0);
    assert_int_equal(r.seen.saves, 3);
    dlr_commit_progress(r.c, 7, 3, 300); /* 2 and 3 are reached, 4 is not */
    dlr_commit_missed(r.c, 0, (struct dlr_version){7, 2}, "a partner is full", 310);
    assert_int_equal(r.seen.aborts, 2);
    assert_int_equal(r.seen.abort.step, 4);
    assert_string_equal(r.seen.why, DLR_COMMIT_WITHDRAWN);
    dlr_commit_missed(r.c, 0, (struct dlr_version){7, 3}, "a partner is full", 311);
    assert_int_equal(r.c->backoff_ms, 2 * BACKOFF_MS); /* one failure, not two */
    assert_int_equal(r.seen.saves, 3);
    dlr_commit_progress(r.c, 7, 4, 411);
    assert_in_range(r.seen.ordered[3], 5, 7);
    dlr_commit_free(r.c);
}

static void each_open_version_has_its_own_deadline(void **state)
{
    struct rig r;

    rig_up_open(&r, 1, true, 2);
    all_ready(&r, true);
    dlr_commit_progress(r.c, 7, 0, 0);
    dlr_commit_progress(r.c, 7, 2, 100);
    dlr_commit_progress(r.c, 7, 3, 200);
    assert_int_equal(dlr_commit_deadline_ms(r.c), 1100);
    dlr_commit_tick(r.c, 1100);
    assert_int_equal(r.seen.aborts, 1);
    assert_int_equal(r.seen.abort.step, 2);
    assert_int_equal(dlr_commit_deadline_ms(r.c), 1200);
    all_save_step(&r, 3, true, 1150);
    assert_int_equal(r.seen.commit.step, 3);
    dlr_commit_free(r.c);
}

/* A job of one rank in virtual time: a step takes 100 ms, a save that it begins is over
 * after took_ms, and while it lasts no other can begin. How many of the last 100 steps
 * were saved.
 */
static unsigned play(struct rig *r, unsigned steps, int64_t took_ms)
{
    uint64_t done[100] = {0}, saving = 0;
    unsigned saved = 0;
    int64_t until = -1;

    for (uint64_t step = 1; step <= steps; step++) {
        int64_t now = (int64_t)step * 100;

        if (until >= 0 && until <= now) {
            all_save_step(r, saving, false, until);
            until = -1;
        }
        dlr_commit_progress(r->c, 7, step, now);
        if (!find(r->c, (struct dlr_version){7, step}))
            continue;
        if (until >= 0) {
            dlr_commit_missed(r->c, 0, (struct dlr_version){7, step},
                              "busy: no slot is free", now);
            continue;
        }
        dlr_commit_sealed(r->c, 1, (struct dlr_version){7, step}, step, now);
        find(r->c, (struct dlr_version){7, step})->first_seal_ms = now;
        saving = step;
        until = now + took_ms;
        done[step % 100] = step;
    }
    for (unsigned i = 0; i < 100; i++)
        saved += done[i] > steps - 100;
    return saved;
}

static void saves_are_as_far_apart_as_they_take(void **state)
{
    static const struct {
        int64_t took_ms;
        unsigned saved;
    } rows[] = {{20, 100}, {90, 100}, {150, 50}, {250, 33}, {950, 10}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct rig r;

        rig_up_open(&r, 1, false, 0);
        all_ready(&r, false);
        assert_in_range(play(&r, 2000, rows[i].took_ms), rows[i].saved,
                        rows[i].saved + 1);
        dlr_commit_free(r.c);
    }
}

/* Of the first versions one is open at a time: a large state is not begun again and
 * again while nobody knows what a save takes.
 */
static void the_first_ones_tell_how_far_apart_they_must_be(void **state)
{
    static const struct {
        int64_t took_ms;
        unsigned every_now;
    } rows[] = {{20, 1}, {150, 2}, {950, 10}, {4000, 41}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_commit_conf conf = {.decide_ms = 60000, .alone = 2};
        struct rig r;

        rig_up_conf(&r, 1, &conf);
        all_ready(&r, false);
        play(&r, 200, rows[i].took_ms);
        assert_int_equal(r.seen.aborts, 0);
        assert_true(r.seen.commits >= 2);
        assert_int_equal(dlr_commit_every_now(r.c), rows[i].every_now);
        dlr_commit_free(r.c);
    }
}

/* The first one also made connections and took memory. */
static void a_slow_first_one_is_forgotten(void **state)
{
    struct dlr_commit_conf conf = {.decide_ms = 60000, .alone = 2};
    struct rig r;

    rig_up_conf(&r, 1, &conf);
    all_ready(&r, false);
    play(&r, 60, 4000);
    assert_int_equal(dlr_commit_every_now(r.c), 41);
    play(&r, 200, 20);
    assert_int_equal(dlr_commit_every_now(r.c), 1);
    dlr_commit_free(r.c);
}

/* Half of a wide stride is gone within twice as many saves as it takes to trust one
 * step less.
 */
static void a_wide_stride_is_left_in_large_paces(void **state)
{
    struct dlr_schedule s;

    dlr_schedule_init(&s, 200, 2, 64, 1);
    dlr_schedule_see(&s, 1, 0);
    dlr_schedule_see(&s, 11, 1000);
    dlr_schedule_committed(&s, 10000);
    assert_int_equal(dlr_schedule_every(&s), 101);
    for (unsigned i = 0; i < 24; i++)
        dlr_schedule_committed(&s, 50);
    assert_in_range(dlr_schedule_every(&s), 2, 60);
    for (unsigned i = 0; i < 200; i++)
        dlr_schedule_committed(&s, 50);
    assert_int_equal(dlr_schedule_every(&s), 1);
}

static void a_rank_that_was_busy_once_changes_nothing(void **state)
{
    struct rig r;

    rig_up_open(&r, 1, false, 0);
    all_ready(&r, false);
    play(&r, 100, 20);
    dlr_commit_missed(r.c, 0, (struct dlr_version){7, 101}, "busy: x", 10000);
    assert_int_equal(dlr_commit_every_now(r.c), 1);
    dlr_commit_missed(r.c, 0, (struct dlr_version){7, 102}, "busy: x", 10100);
    assert_int_equal(dlr_commit_every_now(r.c), 2);
    play(&r, 400, 20);
    assert_int_equal(dlr_commit_every_now(r.c), 1);
    dlr_commit_every(r.c, 7);
    assert_int_equal(dlr_commit_every_now(r.c), 7);
    dlr_commit_free(r.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_is_announced_before_it_begins),
        cmocka_unit_test(several_are_open_and_none_shares_a_place),
        cmocka_unit_test(a_newer_one_that_is_whole_ends_the_older_first),
        cmocka_unit_test(a_failure_withdraws_what_no_rank_has_begun),
        cmocka_unit_test(each_open_version_has_its_own_deadline),
        cmocka_unit_test(saves_are_as_far_apart_as_they_take),
        cmocka_unit_test(the_first_ones_tell_how_far_apart_they_must_be),
        cmocka_unit_test(a_slow_first_one_is_forgotten),
        cmocka_unit_test(a_wide_stride_is_left_in_large_paces),
        cmocka_unit_test(a_rank_that_was_busy_once_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
