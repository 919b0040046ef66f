/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told of which members, and when: the engine without its texts and sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/supervisor/nodes/roster.h"

#define N 4

/* What the agents were told, and how often it had to be made. */
static struct {
    unsigned wholes, changes, made_whole, made_changes;
    unsigned told[N], newest; /* nodes of the last changes */
    size_t size;
    bool full; /* connections take nothing */
} seen;

static size_t make_whole(void *arg)
{
    seen.made_whole++;
    return seen.size;
}
static bool make_changes(void *arg, const unsigned *nodes, unsigned n)
{
    seen.made_changes++;
    seen.newest = n;
    return true;
}
static bool send_whole(void *arg, unsigned node)
{
    seen.wholes += !seen.full;
    seen.told[node] += !seen.full;
    return !seen.full;
}
static bool send_changes(void *arg, unsigned node)
{
    seen.changes += !seen.full;
    return !seen.full;
}

static struct dlr_roster *r;

static int begin(void **state)
{
    static const struct dlr_roster_ops ops = {make_whole, make_changes, send_whole,
                                              send_changes};

    memset(&seen, 0, sizeof(seen));
    seen.size = 1000;
    r = dlr_roster_new(N, &ops, NULL);
    return r ? 0 : -1;
}

static int end(void **state)
{
    r = dlr_roster_free(r);
    return 0;
}

static void come(unsigned from, unsigned to, int64_t now_ms)
{
    for (unsigned i = from; i <= to; i++) {
        dlr_roster_came(r, i, now_ms);
        dlr_roster_tick(r, now_ms);
    }
}

static void all_of_them_get_one_list_when_the_last_is_there(void **state)
{
    come(0, N - 2, 1000);
    assert_int_equal(seen.wholes, 0);
    come(N - 1, N - 1, 1001);
    assert_int_equal(seen.wholes, N);
    assert_int_equal(seen.made_whole, 1);
    assert_int_equal(seen.changes, 0);
}

static void some_get_it_when_no_more_come(void **state)
{
    come(0, 1, 1000);
    dlr_roster_tick(r, 1000 + DLR_ROSTER_QUIET_MS - 1);
    assert_int_equal(seen.wholes, 0);
    dlr_roster_tick(r, 1000 + DLR_ROSTER_QUIET_MS);
    assert_int_equal(seen.wholes, 2);
}

/* One after another, never 200 ms apart: a prolog that takes a different time on each
 * node.
 */
static void a_trickle_does_not_put_it_off_for_ever(void **state)
{
    int64_t now = 1000;

    come(0, 0, now);
    for (; now < 1000 + DLR_ROSTER_LATE_MS; now += 100) {
        assert_int_equal(seen.wholes, 0);
        dlr_roster_touch(r, now);
        dlr_roster_tick(r, now);
    }
    dlr_roster_tick(r, now);
    assert_int_equal(seen.wholes, 1);
}

static void who_is_late_gets_the_list_and_the_others_its_name(void **state)
{
    come(0, N - 2, 1000);
    dlr_roster_tick(r, 1200);
    come(N - 1, N - 1, 9000);
    assert_int_equal(seen.wholes, N);
    assert_int_equal(seen.told[N - 1], 1);
    assert_int_equal(seen.changes, N - 1);
    assert_int_equal(seen.newest, 1);
    assert_int_equal(seen.made_changes, 1);
}

static void who_is_lost_is_told_to_those_who_know_it(void **state)
{
    come(0, N - 1, 1000);
    dlr_roster_went(r, 2, 5000);
    dlr_roster_went(r, 2, 5001);
    dlr_roster_tick(r, 5001 + DLR_ROSTER_QUIET_MS);
    assert_int_equal(seen.changes, N - 1);
    assert_int_equal(seen.newest, 1);
    come(2, 2, 9000); /* with another process, that knows nothing */
    assert_int_equal(seen.told[2], 2);
    assert_int_equal(seen.changes, 2 * (N - 1));
}

/* Each list fills the window: the next goes when one has come, or when its time is
 * over.
 */
static void lists_do_not_fill_the_link(void **state)
{
    seen.size = DLR_ROSTER_WINDOW;
    come(0, N - 1, 1000);
    assert_int_equal(seen.wholes, 1);
    dlr_roster_confirm(r, 0);
    dlr_roster_tick(r, 1001);
    assert_int_equal(seen.wholes, 2);
    dlr_roster_tick(r, 1001 + DLR_ROSTER_CONFIRM_MS - 1);
    assert_int_equal(seen.wholes, 2);
    dlr_roster_tick(r, 1001 + DLR_ROSTER_CONFIRM_MS);
    assert_int_equal(seen.wholes, 3);
    dlr_roster_went(r, 2, 20000); /* it was on its way there */
    dlr_roster_tick(r, 20000);
    assert_int_equal(seen.wholes, 4);
    dlr_roster_confirm(r, 3);
    dlr_roster_tick(r, 20000 + DLR_ROSTER_CONFIRM_MS);
    assert_int_equal(seen.wholes, 4); /* nobody waits */
    assert_int_equal(seen.made_whole, 1);
}

/* What changes while lists are on their way comes after them, and is in those that
 * follow.
 */
static void a_change_meets_lists_on_their_way(void **state)
{
    seen.size = DLR_ROSTER_WINDOW;
    come(0, N - 1, 1000);
    dlr_roster_touch(r, 1100);
    assert_true(dlr_roster_flush(r, 1100));
    assert_int_equal(seen.changes, 1);
    dlr_roster_confirm(r, 0);
    dlr_roster_tick(r, 1200);
    assert_int_equal(seen.made_whole, 2);
}

static void what_did_not_go_is_sent_again_whole(void **state)
{
    seen.full = true;
    come(0, N - 1, 1000);
    assert_int_equal(seen.wholes, 0);
    seen.full = false;
    dlr_roster_tick(r, 1050);
    assert_int_equal(seen.wholes, N);
    seen.full = true;
    dlr_roster_touch(r, 1100);
    dlr_roster_flush(r, 1100);
    seen.full = false;
    dlr_roster_tick(r, 1150);
    assert_int_equal(seen.wholes, 2 * N);
    assert_int_equal(seen.changes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(all_of_them_get_one_list_when_the_last_is_there),
        TEST(some_get_it_when_no_more_come),
        TEST(a_trickle_does_not_put_it_off_for_ever),
        TEST(who_is_late_gets_the_list_and_the_others_its_name),
        TEST(who_is_lost_is_told_to_those_who_know_it),
        TEST(lists_do_not_fill_the_link),
        TEST(a_change_meets_lists_on_their_way),
        TEST(what_did_not_go_is_sent_again_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
