/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define MIB UINT64_C(1048576)

/* A sender that asks, waits as it is told and sends pieces of one MiB: bytes in one
 * second.
 */
static uint64_t sent_in_a_second(uint64_t rate)
{
    struct dlr_bucket b = {0};
    int64_t now = 0, wait;
    uint64_t bytes = 0;

    dlr_bucket_rate(&b, rate, now);
    while (now < 1000 * MS && bytes < 100000 * MIB) {
        wait = dlr_bucket_take(&b, MIB, now);
        if (wait == 0)
            bytes += MIB;
        now += wait;
    }
    return bytes;
}

static void a_bucket_lets_the_rate_through(void **state)
{
    static const uint64_t rates[] = {10 * MIB, 100 * MIB, 1000 * MIB};

    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        uint64_t bytes = sent_in_a_second(rates[i]);

        print_message("%llu of %llu\n", (unsigned long long)bytes,
                      (unsigned long long)rates[i]);
        assert_in_range(bytes, rates[i] - MIB, rates[i] + 2 * MIB);
    }
    assert_int_equal(sent_in_a_second(0), 100000 * MIB); /* no limit */
}

static void an_idle_bucket_does_not_fill_without_end(void **state)
{
    struct dlr_bucket b = {0};
    unsigned n = 0;

    dlr_bucket_rate(&b, 100 * MIB, 0);
    while (dlr_bucket_take(&b, MIB, 3600000 * MS) == 0)
        n++;
    assert_int_equal(n, 1); /* 5 ms of 100 MiB/s, and the piece that is paid later */
}

/* Ten steps without a copy, then ten beside one, as long as slow() says of the rate. */
struct training {
    struct dlr_pace p;
    uint64_t step;
    int64_t now;
};

static bool steps(struct training *t, unsigned n, double ms, bool sending)
{
    bool changed = false;

    for (unsigned i = 0; i < n; i++) {
        t->now += (int64_t)(ms * MS);
        changed |= dlr_pace_see(&t->p, ++t->step, t->now, sending, t->now);
    }
    return changed;
}

/* The link carries 1000 MB/s; each copy lengthens a step of 100 ms by what the table
 * says.
 */
static void copies_that_are_felt_go_slower_until_they_are_not(void **state)
{
    static const struct {
        const char *name;
        double longer_ms; /* of a step, at the link's full rate; in proportion below */
        uint64_t least, most;
    } rows[] = {
        {"not felt", 0, 0, 0},
        {"within the tolerance", 4, 0, 0},
        {"a little", 8, 300000000, 900000000},
        {"much", 40, 30000000, 200000000},
        {"always", 5000, 15625000, 15625000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct training t = {0};

        steps(&t, 10, 100, false);
        for (unsigned save = 0; save < 60; save++) {
            double rate = t.p.rate ? (double)t.p.rate : 1e9;

            dlr_pace_sent(&t.p, (uint64_t)rate, 1000 * MS);
            steps(&t, 1, 100, true);
            steps(&t, 6, 100 + rows[i].longer_ms * rate / 1e9, true);
            steps(&t, 1, 100 + rows[i].longer_ms * rate / 1e9, false);
            steps(&t, 3, 100, false);
        }
        print_message("row '%s': %llu\n", rows[i].name, (unsigned long long)t.p.rate);
        assert_in_range(t.p.rate, rows[i].least, rows[i].most);
    }
}

static void nothing_is_judged_before_enough_was_seen(void **state)
{
    struct training t = {0};

    dlr_pace_sent(&t.p, 1000 * MIB, 1000 * MS);
    assert_false(steps(&t, 20, 300, true)); /* never a step without a copy */
    assert_int_equal(t.p.rate, 0);
    steps(&t, 1, 300, false);
    steps(&t, 8, 100, false);
    steps(&t, 1, 100, true);
    assert_true(steps(&t, 4, 300, true));
    assert_in_range(t.p.rate, 500 * MIB - 1, 500 * MIB);
}

/* Both come from a page that the program may write to. */
static void a_step_or_a_time_that_cannot_be_teaches_nothing(void **state)
{
    static const struct {
        const char *name;
        uint64_t further;
        int64_t at_ns;
    } rows[] = {{"as many steps as no unsigned has", UINT64_C(1) << 32, 0},
                {"a step beyond all", UINT64_MAX - 100, 0},
                {"a time to come", 1, INT64_MAX},
                {"a time before all", 1, INT64_MIN},
                {"an earlier time", 1, 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct training t = {0};

        print_message("%s\n", rows[i].name);
        dlr_pace_sent(&t.p, 1000 * MIB, 1000 * MS);
        steps(&t, 20, 100, false);
        dlr_pace_see(&t.p, t.step + rows[i].further,
                     rows[i].at_ns ? rows[i].at_ns : t.now + MS, false, t.now + MS);
        steps(&t, 20, 100, false);
        assert_in_range((uint64_t)t.p.quiet_ns, 99 * MS, 101 * MS);
        steps(&t, 1, 100, true);
        steps(&t, 8, 100, true);
        assert_int_equal(t.p.rate, 0);
    }
}

/* Every step is saved, and the copy of one is on its way when the next begins. */
static void copies_without_end_stop_for_a_few_steps_to_hear_one(void **state)
{
    struct training t = {0};
    double slowest = 0;

    for (unsigned i = 0; i < 3000; i++) {
        double rate = t.p.rate ? (double)t.p.rate : 1e9;

        dlr_pace_sent(&t.p, (uint64_t)rate, 1000 * MS);
        steps(&t, 1, 100 + 40 * rate / 1e9, true);
        if (i > 1000 && rate > slowest)
            slowest = rate;
    }
    print_message("alone %.1f ms, at most %.3g MB/s\n", t.p.quiet_ns / 1e6,
                  slowest / 1e6);
    assert_in_range((uint64_t)(t.p.quiet_ns / 1e3), 100000, 101000);
    assert_in_range((uint64_t)slowest, 30000000, 200000000);
}

/* The program begins with something longer, as an evaluation, when copies have all but
 * stopped.
 */
static void copies_go_on_when_a_step_does_not_end(void **state)
{
    struct training t = {0};
    int64_t stopped;

    while (!t.p.listen) {
        dlr_pace_sent(&t.p, 1000 * MIB, 1000 * MS);
        steps(&t, 1, 100, true);
        assert_true(t.step < 100);
    }
    stopped = t.now;
    assert_int_equal(t.p.rate, 1000 * MIB / 64);
    assert_false(dlr_pace_see(&t.p, t.step, t.now, true, stopped + 17999 * MS));
    assert_true(dlr_pace_see(&t.p, t.step, t.now, true, stopped + 18000 * MS));
    assert_int_equal(t.p.rate, 0);
    assert_false(dlr_pace_see(&t.p, t.step, t.now, true, stopped + 18200 * MS));
}

/* The same of steps that do end, each after longer than the whole would take. */
static void copies_go_on_when_steps_grow(void **state)
{
    struct training t = {0};

    while (!t.p.listen) {
        dlr_pace_sent(&t.p, 1000 * MIB, 1000 * MS);
        steps(&t, 1, 100, true);
        assert_true(t.step < 100);
    }
    assert_true(steps(&t, 1, 20000, true));
    assert_int_equal(t.p.rate, 0);
}

static void a_round_begins_anew_but_knows_the_link(void **state)
{
    struct training t = {0};

    dlr_pace_sent(&t.p, 1000 * MIB, 1000 * MS);
    steps(&t, 10, 100, false);
    steps(&t, 10, 300, true);
    assert_true(t.p.rate > 0);
    dlr_pace_see(&t.p, 3, t.now, false, t.now); /* restored from step 3 */
    assert_int_equal(t.p.rate, 0);
    assert_int_equal(t.p.quiet, 0);
    assert_true(t.p.link > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_lets_the_rate_through),
        cmocka_unit_test(an_idle_bucket_does_not_fill_without_end),
        cmocka_unit_test(copies_that_are_felt_go_slower_until_they_are_not),
        cmocka_unit_test(nothing_is_judged_before_enough_was_seen),
        cmocka_unit_test(a_step_or_a_time_that_cannot_be_teaches_nothing),
        cmocka_unit_test(copies_without_end_stop_for_a_few_steps_to_hear_one),
        cmocka_unit_test(copies_go_on_when_a_step_does_not_end),
        cmocka_unit_test(copies_go_on_when_steps_grow),
        cmocka_unit_test(a_round_begins_anew_but_knows_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
