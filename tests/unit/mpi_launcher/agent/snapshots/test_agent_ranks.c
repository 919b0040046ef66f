/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent as keeper of snapshots: slots, saves, restore, the data process. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "tests/support/worker_rig.h"

static struct rig rig;

static void expect_ready(int rank)
{
    json_t *msg = dlr_rig_expect(&rig, "ready");

    assert_int_equal(dlr_rig_int(msg, "rank"), rank);
    assert_true(dlr_rig_int(msg, "bytes") > 0);
    assert_true(dlr_rig_int(msg, "taken") >= 2 * dlr_rig_int(msg, "bytes"));
    assert_true(dlr_rig_int(msg, "limit") > dlr_rig_int(msg, "taken"));
    json_decref(msg);
}

static void expect_missed(int step, const char *why)
{
    json_t *msg = dlr_rig_expect(&rig, "missed");

    assert_int_equal(dlr_rig_int(msg, "step"), step);
    assert_string_equal(dlr_rig_str(msg, "why"), why);
    json_decref(msg);
}

static void wait_for_save_at(struct worker *w, uint64_t step)
{
    dlr_rig_sync(&rig);
    assert_true(dlr_page_ordered(w->page, step));
}

static void begin(struct worker *w)
{
    rig_welcomed(&rig, w, NULL);
    assert_int_equal(w->welcome.arg[0], 0);
    rig_worker_slots(w);
    expect_ready(4);
}

static void post(struct worker *w, int step)
{
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", step);
    wait_for_save_at(w, (uint64_t)step);
}

static void wait_for_state(const struct worker *w, unsigned k,
                           enum dlr_slot_state state)
{
    for (int64_t until = dlr_now_ms() + RIG_WAIT_MS;
         dlr_now_ms() < until && dlr_slot_state(w->slots[k]) != state;)
        dlr_rig_sync(&rig);
    assert_int_equal(dlr_slot_state(w->slots[k]), state);
}

/* The slot of the version before is free when its copy is known to have ended. */
static unsigned save(struct worker *w, uint64_t step)
{
    for (int64_t until = dlr_now_ms() + RIG_WAIT_MS; dlr_now_ms() < until;) {
        for (unsigned k = 0; k < 3; k++)
            if (w->slots[k] && (dlr_slot_state(w->slots[k]) == DLR_SLOT_FREE ||
                                dlr_slot_state(w->slots[k]) == DLR_SLOT_DEAD))
                return rig_worker_save(w, step);
        dlr_rig_sync(&rig);
    }
    fail_msg("no slot is free for step %d", (int)step);
    return 0;
}

static void expect_sealed(int step)
{
    json_t *msg = dlr_rig_expect(&rig, "sealed");

    assert_int_equal(dlr_rig_int(msg, "rank"), 4);
    assert_int_equal(dlr_rig_int(msg, "step"), step);
    assert_int_equal(dlr_rig_int(msg, "at"), step);
    json_decref(msg);
}

static void decide(const char *what, int step)
{
    dlr_rig_say(&rig, what, "s:i, s:i", "round", 0, "step", step);
    dlr_rig_sync(&rig);
}

/* The pid of the played data process, as it noted it. */
static pid_t data_process(void)
{
    FILE *f = fopen(rig.log, "re");
    char line[256];
    int pid = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        (void)!sscanf(line, "pid %d", &pid);
    fclose(f);
    assert_true(pid > 0);
    return pid;
}

static cpu_set_t cpus(unsigned first, unsigned last)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, &set);
    return set;
}

static void expect_data_on(cpu_set_t want)
{
    cpu_set_t now;

    assert_int_equal(sched_getaffinity(data_process(), sizeof(now), &now), 0);
    assert_true(CPU_EQUAL(&now, &want));
}

/* On the same node: of two cores the worker has one, which it is not bound to a round
 * later.
 */
static void the_data_process_runs_where_no_worker_is_bound(void **state)
{
    cpu_set_t all, first = cpus(0, 0);
    struct worker w;
    json_t *told;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    if (!CPU_ISSET(0, &all) || !CPU_ISSET(1, &all)) {
        print_message("not on CPUs 0 and 1\n");
        skip();
    }
    setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1);
    setenv("DLR_TEST_USES", "eth0", 1);
    begin(&w);
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("DLR_TEST_USES");
    assert_int_equal(sched_setaffinity(0, sizeof(first), &first), 0);
    post(&w, 10);
    save(&w, 10);
    told = dlr_rig_expect(&rig, "uses");
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_string_equal(dlr_rig_str(told, "uses"), "eth0");
    assert_string_equal(dlr_rig_str(told, "cpus"), "1");
    json_decref(told);
    expect_data_on(cpus(1, 1));
    rig_bye(&w);
    dlr_rig_round(&rig, 1, "[4]", "null");
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, &w, 1, 4));
    rig_worker_slots(&w);
    expect_ready(4);
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 1, "step", 20);
    wait_for_save_at(&w, 20);
    save(&w, 20);
    dlr_rig_await(&rig, "sealed");
    dlr_rig_sync(&rig);
    expect_data_on(cpus(0, 1));
    rig_bye(&w);
}

static void a_copy_that_gets_nowhere_is_told_with_its_way(void **state)
{
    struct worker w;

    setenv("DLR_TEST_USES", "eth0", 1);
    setenv("DLR_TEST_HOLE", "1", 1);
    begin(&w);
    unsetenv("DLR_TEST_USES");
    unsetenv("DLR_TEST_HOLE");
    assert_true(dlr_rig_noted(&rig, "word --transfer-timeout=60000ms\n"));
    post(&w, 10);
    save(&w, 10);
    expect_missed(10, "no copy to n2 over eth0: nothing gets through");
    rig_bye(&w);
}

static void saves_alternate_between_slots_that_are_free(void **state)
{
    struct worker w;
    unsigned last = 2;

    begin(&w);
    for (int step = 10; step < 50; step += 10) {
        char line[64];
        unsigned k;

        post(&w, step);
        k = save(&w, (uint64_t)step);
        assert_int_not_equal(k, last);
        expect_sealed(step);
        dlr_format(line, sizeof(line), "send 4 0/%d bb\n", step);
        assert_true(dlr_rig_noted(&rig, line));
        decide("commit", step);
        assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_COMMITTED);
        assert_int_equal(w.page->committed_step, step);
        if (last < 2)
            wait_for_state(&w, last, DLR_SLOT_FREE);
        dlr_format(line, sizeof(line), "commit 0/%d\n", step);
        assert_true(dlr_rig_noted(&rig, line));
        last = k;
    }
    decide("abort", 40); /* decided already, the other way */
    assert_int_equal(dlr_slot_state(w.slots[last]), DLR_SLOT_COMMITTED);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void a_damaged_head_does_not_hold_its_slot(void **state)
{
    struct worker w;
    unsigned k, next;

    begin(&w);
    post(&w, 10);
    k = rig_worker_save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    /* else it is dead, and used again, at once */
    wait_for_state(&w, k, DLR_SLOT_COMMITTED);
    ((unsigned char *)dlr_slot_base(w.slots[k]))[DLR_SLOT_PAGE + 57] ^= 1;
    post(&w, 20);
    next = rig_worker_save(&w, 20);
    expect_sealed(20);
    decide("commit", 20);
    if (next != k) /* else the copy ended after the damage, and it was given up then */
        wait_for_state(&w, k, DLR_SLOT_DEAD);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* The program wrote where it had no business: the save counts, what it cost is not
 * known.
 */
static void what_cannot_be_on_a_page_is_not_passed_on(void **state)
{
    struct worker w;

    begin(&w);
    for (int step = 10; step <= 30; step += 10) {
        json_t *msg;

        w.page->extra_ns = step == 20 ? UINT64_MAX : 1;
        post(&w, step);
        save(&w, (uint64_t)step);
        msg = dlr_rig_expect(&rig, "sealed");
        assert_int_equal(json_object_get(msg, "extra_ns") == NULL, step == 20);
        json_decref(msg);
        decide("commit", step);
    }
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void an_aborted_version_dies_and_frees_its_slot(void **state)
{
    struct worker w;
    unsigned kept, k;

    begin(&w);
    post(&w, 10);
    kept = save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    post(&w, 20);
    k = save(&w, 20);
    expect_sealed(20);
    decide("abort", 20);
    wait_for_state(&w, k, DLR_SLOT_DEAD); /* when its copy is known to have ended */
    assert_int_equal(dlr_slot_state(w.slots[kept]), DLR_SLOT_COMMITTED);
    assert_false(dlr_page_ordered(w.page, 20));
    post(&w, 30);
    assert_int_equal(save(&w, 30), k);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void an_undecided_version_is_never_overwritten(void **state)
{
    struct worker w;

    begin(&w);
    post(&w, 10);
    save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    post(&w, 20);
    save(&w, 20);
    expect_sealed(20);
    post(&w, 30); /* it is the worker that finds no slot */
    for (unsigned k = 0; k < 2; k++)
        assert_false(dlr_slot_take(w.slots[k]));
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void orders_lie_side_by_side_and_none_is_lost(void **state)
{
    struct worker w;

    begin(&w);
    w.page->begun_step = 9;
    for (int step = 10; step < 18; step++)
        post(&w, step);
    for (int step = 10; step < 18; step++)
        assert_true(dlr_page_ordered(w.page, (uint64_t)step));
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", 10 + DLR_PAGE_RING);
    expect_missed(10, "a later order took its place");
    decide("abort", 12);
    assert_false(dlr_page_ordered(w.page, 12));
    w.page->begun_step =
        12; /* 11 was begun: whether it is saved is the rank's to say */
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", 11 + DLR_PAGE_RING);
    assert_true(dlr_rig_silent(&rig, "missed", 100));
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* Version 0/10 is committed, and its write does not end. Returns its slot. */
static unsigned begin_slow_write(struct worker *w)
{
    unsigned k;

    rig_welcomed(&rig, w, "--persist=10");
    w->nslots = 3;
    rig_worker_slots(w);
    expect_ready(4);
    post(w, 10);
    k = save(w, 10);
    expect_sealed(10);
    decide("commit", 10);
    dlr_rig_say(&rig, "persist", "s:i, s:i, s:i, s:i, s:i, s:s", "id", 9, "round", 0,
                "rank", 4, "vround", 0, "step", 10, "path", "/hold");
    assert_true(dlr_rig_noted(&rig, "save 4 0/10 /hold\n"));
    return k;
}

/* A node that was away while others went on has older versions in all of its slots. */
static void a_rounds_first_order_frees_what_is_older_than_its_beginning(void **state)
{
    struct worker w;
    unsigned k;

    begin(&w);
    post(&w, 10);
    k = save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    post(&w, 20);
    save(&w, 20);
    expect_sealed(20);
    rig_bye(&w);
    dlr_rig_round(&rig, 5, "[4]", "{\"vround\":3,\"step\":7,\"world\":3}");
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, &w, 5, 4));
    rig_worker_slots(&w);
    expect_ready(4);
    assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_COMMITTED);
    assert_int_equal(dlr_slot_state(w.slots[1 - k]), DLR_SLOT_SEALED);
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 5, "step", 8);
    wait_for_save_at(&w, 8);
    assert_int_equal(dlr_slot_state(w.slots[0]), DLR_SLOT_FREE);
    assert_int_equal(dlr_slot_state(w.slots[1]), DLR_SLOT_FREE);
    assert_true(dlr_rig_noted(&rig, "commit 3/7\n"));
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void what_an_audit_finds_too_late_is_told_as_torn(void **state)
{
    struct dlr_local_msg m;
    struct worker w;
    json_t *msg;

    begin(&w);
    post(&w, 10);
    save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    dlr_local_init(&m, DLR_LOCAL_DEAD);
    m.rank = 4;
    m.step = 10;
    m.arg[0] = 1;
    dlr_local_text(&m, "region 'w' changed");
    assert_int_equal(dlr_local_send(w.fd, &m, NULL, 0), 0);
    msg = dlr_rig_expect(&rig, "torn");
    assert_int_equal(dlr_rig_int(msg, "rank"), 4);
    assert_int_equal(dlr_rig_int(msg, "step"), 10);
    assert_string_equal(dlr_rig_str(msg, "why"), "region 'w' changed");
    json_decref(msg);
    /* One that comes after the supervisor may not have heard it. */
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", (int)rig.dead_ms,
                "end_ms", 1000);
    msg = dlr_rig_expect(&rig, "torn");
    assert_int_equal(dlr_rig_int(msg, "step"), 10);
    assert_string_equal(dlr_rig_str(msg, "why"), "region 'w' changed");
    json_decref(msg);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void persist(int step, const char *path)
{
    dlr_rig_say(&rig, "persist", "s:i, s:i, s:i, s:i, s:i, s:s", "id", 9, "round", 0,
                "rank", 4, "vround", 0, "step", step, "path", path);
}

/* In a slot that is read, too: the supervisor is told, and it is no copy when it is not
 * read any more.
 */
static void a_copy_that_went_bad_is_told_and_its_slot_is_dead(void **state)
{
    struct worker w;
    unsigned k;
    json_t *msg;

    begin(&w);
    post(&w, 10);
    k = save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    persist(10, "/bad");
    msg = dlr_rig_expect(&rig, "copy_bad");
    assert_int_equal(dlr_rig_int(msg, "rank"), 4);
    assert_int_equal(dlr_rig_int(msg, "vround"), 0);
    assert_int_equal(dlr_rig_int(msg, "step"), 10);
    assert_string_equal(dlr_rig_str(msg, "why"), "block 2 is corrupt in memory");
    json_decref(msg);
    dlr_rig_await(&rig, "done");
    assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_DEAD);
    dlr_slot_set_state(w.slots[k], DLR_SLOT_SEALED); /* its partner's copy has come */
    persist(9, "/made"); /* nothing is read, whose end would do */
    dlr_rig_await(&rig, "copied");
    assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_COMMITTED);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* As where the kernel has poisoned the page of a head: to look at it is a SIGBUS. */
static void a_head_that_cannot_be_read_ends_no_agent(void **state)
{
    struct worker w;
    char path[128];
    unsigned k;

    begin(&w);
    post(&w, 10);
    k = save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    dlr_format(path, sizeof(path), "%s/r4.s%u", rig.memory, k);
    assert_int_equal(truncate(path, DLR_SLOT_PAGE), 0);
    post(&w, 11);
    save(&w, 11);
    expect_sealed(11);
    decide("commit", 11);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* What is decided while the slot is being sent or written is marked when that has
 * ended.
 */
static void a_slot_that_is_read_is_free_when_that_has_ended(void **state)
{
    struct worker w;
    unsigned k;

    k = begin_slow_write(&w);
    post(&w, 11);
    save(&w, 11);
    expect_sealed(11);
    decide("commit", 11);
    assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_COMMITTED);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void a_rank_that_is_past_the_step_has_missed_it(void **state)
{
    struct worker w;

    begin(&w);
    w.page->begun_step = 12;
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", 12);
    expect_missed(12, "late");
    for (int64_t until = dlr_now_ms() + RIG_WAIT_MS;
         dlr_now_ms() < until && rig.beat.step_min != 12;)
        dlr_rig_silent(&rig, "x", RIG_EVERY_MS);
    assert_int_equal(rig.beat.step_min, 12);
    assert_int_equal(rig.beat.step_max, 12);
    dlr_rig_send(w.fd, DLR_LOCAL_DEAD, 0, 4, 12, 0, 0);
    expect_missed(12, "");
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void a_seal_after_the_decision_is_dead(void **state)
{
    struct worker w;
    unsigned k;

    begin(&w);
    post(&w, 10);
    decide("abort", 10);
    k = save(&w, 10);
    decide("abort", 10); /* follows the seal */
    assert_true(dlr_rig_silent(&rig, "sealed", 100));
    assert_int_equal(dlr_slot_state(w.slots[k]), DLR_SLOT_DEAD);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void nobody_saves_before_it_is_ready(void **state)
{
    struct worker w;

    rig_welcomed(&rig, &w, NULL);
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", 5);
    expect_missed(5, "not ready");
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void the_next_round_restores_what_was_committed(void **state)
{
    struct worker w;
    struct dlr_local_msg m;
    json_t *msg;
    int fds[DLR_LOCAL_FDS];
    unsigned n, k;

    begin(&w);
    post(&w, 10);
    k = save(&w, 10);
    expect_sealed(10);
    decide("commit", 10);
    rig_bye(&w);
    dlr_rig_round(&rig, 1, "[4]", "{\"vround\":0,\"step\":10}");
    assert_true(
        dlr_rig_noted(&rig, "config 1 c.17.run " RIG_TOKEN " [4,9]\ndrop 0/10\n"));
    assert_true(rig_hello(&rig, &w, 1, 4));
    assert_int_equal(w.welcome.arg[0], 1);
    assert_int_equal(w.welcome.arg[1], 0);
    assert_int_equal(w.welcome.step, 10);
    assert_int_equal(w.welcome.arg[2], k);
    dlr_local_init(&m, DLR_LOCAL_RESTORED);
    m.round = 1;
    m.rank = 4;
    m.step = 10;
    m.arg[1] = EBADMSG;
    dlr_local_text(&m, "region 'w': checksum");
    assert_int_equal(dlr_local_send(w.fd, &m, NULL, 0), 0);
    msg = dlr_rig_expect(&rig, "restored");
    assert_int_equal(dlr_rig_int(msg, "round"), 1);
    assert_int_equal(dlr_rig_int(msg, "vround"), 0);
    assert_int_equal(dlr_rig_int(msg, "step"), 10);
    assert_int_equal(dlr_rig_int(msg, "rc"), EBADMSG);
    assert_string_equal(dlr_rig_str(msg, "why"), "region 'w': checksum");
    json_decref(msg);
    dlr_rig_say(&rig, "go", "s:i", "round", 1);
    assert_true(dlr_rig_recv(w.fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_GO);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void a_slow_write_leaves_two_slots_for_saves(void **state)
{
    struct dlr_slot_info info;
    struct worker w;
    unsigned held;

    held = begin_slow_write(&w);
    for (int step = 20; step < 60; step += 10) {
        post(&w, step);
        assert_int_not_equal(save(&w, (uint64_t)step), held);
        expect_sealed(step);
        decide("commit", step);
    }
    assert_int_equal(dlr_slot_verify(w.slots[held], NULL), 0);
    assert_int_equal(dlr_slot_info(w.slots[held], &info), 0);
    assert_int_equal(info.version.step, 10);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* The slot of the older version is that of the write: three are enough for both and for
 * saves.
 */
static void a_slow_write_and_an_older_version_share_a_slot(void **state)
{
    struct worker w;
    unsigned held;

    setenv("DLR_TEST_VETTED", "5", 1);
    held = begin_slow_write(&w);
    unsetenv("DLR_TEST_VETTED");
    for (int step = 20; step < 60; step += 10) {
        post(&w, step);
        assert_int_not_equal(save(&w, (uint64_t)step), held);
        expect_sealed(step);
        dlr_rig_say(&rig, "commit", "s:i, s:i, s:{s:i, s:i}", "round", 0, "step", step,
                    "vetted", "vround", 0, "step", 10);
        dlr_rig_sync(&rig);
    }
    assert_int_equal(dlr_slot_verify(w.slots[held], NULL), 0);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void expect_wanted(int step)
{
    json_t *msg = dlr_rig_expect(&rig, "wanted");

    assert_int_equal(dlr_rig_int(msg, "round"), 0);
    assert_int_equal(dlr_rig_int(msg, "step"), step);
    json_decref(msg);
}

static void welcome_again(void)
{
    dlr_rig_say(&rig, "welcome", "s:i, s:i, s:i", "gen", 1, "dead_ms", (int)rig.dead_ms,
                "end_ms", 1000);
}

/* Also not what it cannot have asked for: the page is the program's. */
static void what_a_program_asks_for_is_told_once_and_to_a_new_supervisor(void **state)
{
    struct worker w;

    begin(&w);
    atomic_store(&w.page->wanted, 1); /* before its first step */
    expect_wanted(1);
    atomic_store(&w.page->begun_step, 10);
    atomic_store(&w.page->wanted, 11);
    expect_wanted(11);
    assert_true(dlr_rig_silent(&rig, "wanted", 3 * RIG_EVERY_MS));
    welcome_again();
    expect_wanted(11);
    atomic_store(&w.page->wanted, 12);
    assert_true(dlr_rig_silent(&rig, "wanted", 3 * RIG_EVERY_MS));
    atomic_store(&w.page->wanted, UINT64_MAX);
    assert_true(dlr_rig_silent(&rig, "wanted", 3 * RIG_EVERY_MS));
    atomic_store(&w.page->wanted, 11);
    post(&w, 12);
    save(&w, 12);
    expect_sealed(12);
    decide("commit", 12);
    welcome_again(); /* there is one */
    assert_true(dlr_rig_silent(&rig, "wanted", 3 * RIG_EVERY_MS));
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

RIG_MAIN(RIG_TEST(the_data_process_runs_where_no_worker_is_bound),
         RIG_TEST(a_copy_that_gets_nowhere_is_told_with_its_way),
         RIG_TEST(saves_alternate_between_slots_that_are_free),
         RIG_TEST(a_damaged_head_does_not_hold_its_slot),
         RIG_TEST(what_cannot_be_on_a_page_is_not_passed_on),
         RIG_TEST(an_aborted_version_dies_and_frees_its_slot),
         RIG_TEST(an_undecided_version_is_never_overwritten),
         RIG_TEST(what_an_audit_finds_too_late_is_told_as_torn),
         RIG_TEST(what_a_program_asks_for_is_told_once_and_to_a_new_supervisor),
         RIG_TEST(a_rounds_first_order_frees_what_is_older_than_its_beginning),
         RIG_TEST(orders_lie_side_by_side_and_none_is_lost),
         RIG_TEST(a_copy_that_went_bad_is_told_and_its_slot_is_dead),
         RIG_TEST(a_head_that_cannot_be_read_ends_no_agent),
         RIG_TEST(a_slot_that_is_read_is_free_when_that_has_ended),
         RIG_TEST(a_rank_that_is_past_the_step_has_missed_it),
         RIG_TEST(a_seal_after_the_decision_is_dead),
         RIG_TEST(nobody_saves_before_it_is_ready),
         RIG_TEST(the_next_round_restores_what_was_committed),
         RIG_TEST(a_slow_write_leaves_two_slots_for_saves),
         RIG_TEST(a_slow_write_and_an_older_version_share_a_slot))
