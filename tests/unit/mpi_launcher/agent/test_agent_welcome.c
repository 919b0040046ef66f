/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent and a rank that comes: who is welcomed, what its page shows, what memory it
 * gets.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/json/message.h"
#include "tests/support/worker_rig.h"

static struct rig rig;

/* The node has two cores as hwloc sees it, and the worker is bound to the first. */
static void a_bound_worker_is_told_which_core_is_free(void **state)
{
    struct worker w;
    cpu_set_t all, first;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    if (!CPU_ISSET(0, &all) || CPU_COUNT(&all) < 2) {
        print_message("one CPU: nobody can be bound to half of them\n");
        skip();
    }
    setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1);
    dlr_rig_start(&rig, NULL);
    unsetenv("HWLOC_SYNTHETIC");
    dlr_rig_round(&rig, 0, "[4]", "null");
    dlr_rig_sync(&rig);
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    assert_int_equal(sched_setaffinity(0, sizeof(first), &first), 0);
    assert_true(rig_hello(&rig, &w, 0, 4));
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(w.page->helper_cpus[0], 1u << 1);
    rig_bye(&w);
}

/* A rank that began from nothing beside ranks that did not would be wrong, silently. */
static void a_version_that_is_not_here_is_told_and_nobody_welcomed(void **state)
{
    struct dlr_local_msg m;
    json_t *msg;
    int fd;

    dlr_rig_begin(&rig, NULL, 3, "[4]", "{\"vround\":1,\"step\":10}");
    fd = dlr_rig_connect(&rig);
    dlr_rig_send(fd, DLR_LOCAL_HELLO, 3, 4, 0, 2, 0);
    msg = dlr_rig_expect(&rig, "restored");
    assert_int_equal(dlr_rig_int(msg, "rc"), ENOENT);
    json_decref(msg);
    assert_int_equal(recv(fd, &m, sizeof(m), MSG_DONTWAIT), -1);
    close(fd);
    dlr_rig_stop(&rig);
}

static void another_rounds_worker_is_turned_away(void **state)
{
    struct worker w;

    dlr_rig_begin(&rig, NULL, 2, "[4]", "null");
    assert_false(rig_hello(&rig, &w, 1, 4));
    rig_bye(&w);
    dlr_rig_round(&rig, 1, "[4]", "null"); /* rounds do not go back */
    dlr_rig_sync(&rig);
    assert_false(rig_hello(&rig, &w, 1, 4));
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* Waits until the page's lease is another one; 0: it is not, in the rig's time. */
static uint64_t next_lease(const struct dlr_page *page, uint64_t last_ns)
{
    int64_t until = dlr_now_ms() + RIG_WAIT_MS;

    while (dlr_now_ms() < until) {
        if (page->lease_ns != last_ns)
            return page->lease_ns;
        dlr_rig_silent(&rig, "x", RIG_EVERY_MS); /* answers beats */
    }
    return 0;
}

static void the_page_shows_the_lease(void **state)
{
    uint64_t first_ns;
    struct worker w;

    rig_welcomed(&rig, &w, NULL);
    first_ns = next_lease(w.page, 0);
    assert_true(first_ns > rig.beat.sent_ns);
    assert_true(next_lease(w.page, first_ns) > first_ns);
    rig.holding = true;
    for (uint64_t ns = first_ns; ns != DLR_PAGE_HELD;)
        assert_int_not_equal(ns = next_lease(w.page, ns), 0);
    rig.holding = false;
    assert_true(next_lease(w.page, DLR_PAGE_HELD) > first_ns);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* What waits at a supervisor that is overloaded stays short; one that answers again has
 * every beat.
 */
static void without_answers_beats_come_more_seldom(void **state)
{
    const uint64_t often_ns = RIG_EVERY_MS * 4 * 1000000ull;
    uint64_t last_ns, apart_ns = 0;
    uint32_t last;

    dlr_rig_start_leased(&rig);
    rig.leasing = false;
    for (last_ns = 0; apart_ns < often_ns * 4; last_ns = rig.beat.sent_ns) {
        assert_true((last = rig.beat.seq) < 200);
        dlr_rig_silent(&rig, "x", RIG_EVERY_MS);
        if (last_ns && rig.beat.seq != last)
            apart_ns = (rig.beat.sent_ns - last_ns) / (rig.beat.seq - last);
    }
    rig.leasing = true;
    while (apart_ns > often_ns) {
        last_ns = rig.beat.sent_ns;
        assert_true((last = rig.beat.seq) < 400);
        dlr_rig_silent(&rig, "x", RIG_EVERY_MS);
        if (rig.beat.seq != last)
            apart_ns = (rig.beat.sent_ns - last_ns) / (rig.beat.seq - last);
    }
    dlr_rig_stop(&rig);
}

static void without_the_timer_the_page_shows_none(void **state)
{
    struct worker w;

    rig_welcomed(&rig, &w, "--lease-timer=off");
    dlr_rig_silent(&rig, "x", 4 * RIG_EVERY_MS); /* leases come and go */
    assert_int_equal(w.page->lease_ns, 0);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void memory_beyond_the_budget_is_refused_before_it_is_taken(void **state)
{
    struct dlr_local_msg m;
    json_t *told;
    struct worker w;
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    rig_welcomed(&rig, &w, "--ckpt-mem=100k");
    dlr_rig_send(w.fd, DLR_LOCAL_RESERVE, 0, 4, 0, 65536, 0);
    assert_true(dlr_rig_recv(w.fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_SLOTS);
    assert_int_equal(m.arg[0], 0);
    assert_non_null(strstr(m.text, "2 x 0.1 MB for rank 4 and 0.0 MB for 0 others"));
    told = dlr_rig_expect(&rig, "no_slots");
    assert_int_equal(json_integer_value(json_object_get(told, "rank")), 4);
    assert_non_null(strstr(json_string_value(json_object_get(told, "why")), "2 x 0.1"));
    json_decref(told);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void without_checkpoints_nothing_is_reserved(void **state)
{
    struct dlr_local_msg m;
    struct worker w;
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    rig_welcomed(&rig, &w, "--checkpoint=off");
    dlr_rig_send(w.fd, DLR_LOCAL_RESERVE, 0, 4, 0, 65536, 0);
    assert_true(dlr_rig_recv(w.fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_SLOTS);
    assert_int_equal(m.arg[0], 0);
    assert_string_equal(m.text, "checkpoint=off");
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

RIG_MAIN(RIG_TEST(a_bound_worker_is_told_which_core_is_free),
         RIG_TEST(a_version_that_is_not_here_is_told_and_nobody_welcomed),
         RIG_TEST(another_rounds_worker_is_turned_away),
         RIG_TEST(the_page_shows_the_lease),
         RIG_TEST(without_answers_beats_come_more_seldom),
         RIG_TEST(without_the_timer_the_page_shows_none),
         RIG_TEST(memory_beyond_the_budget_is_refused_before_it_is_taken),
         RIG_TEST(without_checkpoints_nothing_is_reserved))
