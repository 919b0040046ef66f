/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/idle_thread.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"

#define MS INT64_C(1000000)

static void a_quarter_of_the_turn_is_too_long_to_wait(void **state)
{
    static const struct {
        const char *what;
        int64_t waited_ms, turn_ms;
        bool too_long;
    } rows[] = {
        {"an idle host", 0, 1000, false},
        {"short turns are not judged by a slice", 5, 6, false},
        {"most of a short one", 6, 7, true},
        {"here and there", 250, 1000, false},
        {"a busy host", 251, 1000, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].what);
        assert_int_equal(dlr_turns_waited(rows[i].waited_ms * MS, rows[i].turn_ms * MS),
                         rows[i].too_long);
    }
}

static struct dlr_turns *kept[16]; /* as a process keeps its own until it ends */
static unsigned nkept;

static struct dlr_turns *new_turns(dlr_turns_fn drive, void *arg)
{
    assert_int_equal(dlr_turns_new(drive, arg, &kept[nkept], NULL), 0);
    while (!dlr_turns_over(kept[nkept], false, true, 0))
        sched_yield(); /* until its thread is there */
    return kept[nkept++];
}

/* Work comes and ends so many times, in turn; then all of it ends. */
struct play {
    struct dlr_turns *turns;
    unsigned turn, last;
    int policy[8];
    bool low[8];
};

static bool play(void *arg, bool low)
{
    struct play *p = arg;
    bool work = p->turn % 2 == 0;
    int64_t now_ms = p->turn * INT64_C(2) * DLR_TURNS_REFRAIN_MS; /* however it waits */

    p->policy[p->turn] = sched_getscheduler(0);
    p->low[p->turn] = low;
    if (p->turn++ == p->last)
        return false;
    assert_true(dlr_turns_over(p->turns, low, work, now_ms));
    if (low) /* the other way depends on how long this one had to wait */
        assert_false(dlr_turns_over(p->turns, false, work, now_ms));
    return true;
}

static void work_that_can_wait_is_done_at_idle_priority(void **state)
{
    int before = sched_getscheduler(0);

    for (unsigned last = 0; last < 5; last++) {
        struct play p = {.last = last};

        p.turns = new_turns(play, &p);
        dlr_turns_run(p.turns);
        assert_int_equal(p.turn, last + 1);
        for (unsigned i = 0; i <= last; i++) {
            assert_int_equal(p.low[i], i % 2);
            assert_int_equal(p.policy[i], i % 2 ? SCHED_IDLE : before);
        }
    }
}

static bool never(void *arg, bool low)
{
    return false;
}

static void who_was_late_stays_at_its_own_priority_for_a_while(void **state)
{
    struct dlr_turns *t = new_turns(never, NULL);

    assert_true(dlr_turns_over(t, false, true, 5000));
    assert_false(dlr_turns_over(t, true, true, 5000));
    assert_true(dlr_turns_over(t, true, false, 5000));
    dlr_turns_late(t, 5000);
    assert_true(dlr_turns_over(t, true, true, 5000));
    assert_false(dlr_turns_over(t, false, true, 5000 + DLR_TURNS_REFRAIN_MS - 1));
    assert_true(dlr_turns_over(t, false, true, 5000 + DLR_TURNS_REFRAIN_MS));
}

/* Works without end at idle priority, which somebody else on its only core does not let
 * it do.
 */
static bool starve(void *arg, bool low)
{
    struct dlr_turns **turns = arg;

    if (!low) /* false when it was lent once */
        return dlr_turns_over(*turns, false, true, dlr_now_ms());
    while (!dlr_turns_over(*turns, true, true, dlr_now_ms()))
        ;
    return true;
}

static pid_t spin_on(int cpu)
{
    cpu_set_t set;
    pid_t pid;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
    pid = fork();
    assert_true(pid >= 0);
    while (pid == 0)
        ;
    return pid;
}

static void who_starves_gets_its_own_priority_back(void **state)
{
    struct dlr_turns *turns;
    cpu_set_t all;
    pid_t pid;

    sched_getaffinity(0, sizeof(all), &all);
    pid = spin_on(sched_getcpu());
    turns = new_turns(starve, &turns);
    dlr_turns_run(turns); /* returns when the loop came back */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sched_setaffinity(0, sizeof(all), &all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_of_the_turn_is_too_long_to_wait),
        cmocka_unit_test(work_that_can_wait_is_done_at_idle_priority),
        cmocka_unit_test(who_was_late_stays_at_its_own_priority_for_a_while),
        cmocka_unit_test(who_starves_gets_its_own_priority_back),
    };

    return cmocka_run_group_tests_name("data_turns", tests, NULL, NULL);
}
