/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* The library under a job: what it saves and tells its agent. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/client/oom.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/played_agent.h"

static int oom_score(void)
{
    FILE *f = fopen("/proc/self/oom_score_adj", "re");
    int score = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &score), 1);
    fclose(f);
    return score;
}

static void a_worker_goes_before_its_agent_when_memory_runs_out(void **state)
{
    struct played *f = *state;

    assert_true(oom_score() < DLR_OOM_SCORE);
    played_join(f);
    assert_true(oom_score() >= DLR_OOM_SCORE);
    dlr_ckpt_close(f->ck);
}

static void a_step_without_an_order_saves_nothing(void **state)
{
    struct played *f = *state;
    uint64_t step;

    played_join(f);
    assert_int_equal(f->agent.msg.arg[0], 8);
    assert_int_equal(dlr_ckpt_go_on(f->ck, 4), -ENOTSUP);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 0);
    played_slots(f);
    for (step = 1; step < 100; step++) {
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
        assert_int_equal(atomic_load(&f->agent.page->begun_step), step);
    }
    assert_true(atomic_load(&f->agent.page->progress_ns) > 0);
    dlr_ckpt_close(f->ck);
    played_expect(f, DLR_LOCAL_CLOSE);
}

static void an_ordered_step_is_sealed_and_told(void **state)
{
    struct played *f = *state;
    struct played_agent *a = &f->agent;
    struct dlr_slot_info info;
    struct dlr_ckpt_stats stats;
    uint64_t step;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    step = played_save_from(f, 2, 1);
    played_expect(f, DLR_LOCAL_SEALED); /* before any fence */
    assert_int_equal(a->msg.step, step);
    assert_int_equal(a->msg.arg[0], 1);
    assert_int_equal(a->msg.arg[1], step);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    assert_int_equal(dlr_slot_state(a->slots[1]), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(a->slots[1], NULL), 0);
    assert_int_equal(dlr_slot_info(a->slots[1], &info), 0);
    assert_int_equal(info.key, dlr_slot_key(PLAYED_KEY));
    assert_int_equal(info.version.round, PLAYED_ROUND);
    assert_int_equal(info.version.step, step);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.world, 8);
    assert_int_equal(dlr_slot_state(a->slots[0]), DLR_SLOT_COMMITTED); /* not free */
    atomic_store(&a->page->committed_step, step);
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.saves, 1);
    assert_int_equal(stats.committed_step, step);
    assert_int_equal(stats.copied_bytes, info.data_bytes);
    dlr_ckpt_close(f->ck);
}

static void memory_may_change_after_the_fence(void **state)
{
    struct played *f = *state;
    uint64_t step;

    played_join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    step = played_save_from(f, 2, 0);
    for (unsigned round = 0; round < 20; round++) {
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
        memset(f->weights, 0xee, PLAYED_BYTES);
        played_expect(f, DLR_LOCAL_SEALED);
        assert_int_equal(dlr_slot_verify(f->agent.slots[round % 2], NULL), 0);
        assert_int_equal(
            ((unsigned char *)dlr_slot_base(f->agent.slots[round % 2]))[8192 + 77],
            (unsigned char)(77 * 31 + step));
        step = played_save_from(f, step + 1, (round + 1) % 2);
    }
    dlr_ckpt_fence(f->ck, NULL);
    dlr_ckpt_close(f->ck);
}

static void an_audit_names_a_region_changed_before_its_fence(void **state)
{
    struct played *f = *state;
    struct dlr_ckpt_stats stats;
    uint64_t step = 1;

    setenv("DLROVER_CKPT_AUDIT", "2", 1);
    played_join(f);
    unsetenv("DLROVER_CKPT_AUDIT");
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    for (unsigned save = 0; save < 6;
         save++) { /* audited: the first, third and fifth */
        bool early = save == 1 || save == 2;

        step = played_save_from(f, step + 1, save % 2);
        played_expect(f, DLR_LOCAL_SEALED);
        f->weights[PLAYED_BYTES - 1] ^= early;
        if (save != 2) {
            assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
            continue;
        }
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), -EBADMSG);
        assert_non_null(
            strstr(dlr_ckpt_error(f->ck), "region 'weights' (2 in all) changed"));
        assert_true(atomic_load(&f->was_warned));
        played_expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
        assert_int_equal(f->agent.msg.arg[0], 1); /* it was SEALED before */
        assert_string_equal(f->agent.msg.text, dlr_ckpt_error(f->ck));
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0); /* told once */
    }
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.changed, 1);
    dlr_ckpt_close(f->ck);
}

/* By default the first two saves and each hundredth; the program goes on, and is told
 * once.
 */
static void without_being_asked_an_audit_ends_nothing(void **state)
{
    struct played *f = *state;
    struct dlr_ckpt_stats stats;
    uint64_t step = 1, torn = 0;

    played_join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    for (unsigned save = 1; save <= 101; save++) {
        bool looked = save <= 2 || save == 100;

        step = played_save_from(f, step + 1, (save - 1) % 2);
        played_expect(f, DLR_LOCAL_SEALED);
        f->weights[PLAYED_BYTES - 1] ^= 1;
        atomic_store(&f->was_warned, 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
        assert_int_equal(atomic_load(&f->was_warned) != 0, save == 1);
        torn += looked;
        if (!looked)
            continue;
        played_expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
        assert_int_equal(f->agent.msg.arg[0], 1);
        assert_non_null(strstr(f->agent.msg.text,
                               "region 'weights' (2 in all) changed between begin and "
                               "fence"));
        assert_non_null(strstr(f->agent.msg.text, "or name it as a BLOB"));
    }
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.changed, torn);
    dlr_ckpt_close(f->ck);
}

static void an_order_before_the_slots_are_here_is_reported(void **state)
{
    struct played *f = *state;

    played_join(f);
    played_order(f, 1, 0);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), -ENODEV);
    played_expect(f, DLR_LOCAL_RESERVE);
    played_expect(f, DLR_LOCAL_DEAD);
    assert_int_equal(f->agent.msg.step, 1);
    assert_string_equal(f->agent.msg.text, "the slots are not here yet");
    assert_int_equal(dlr_ckpt_begin(f->ck, 2, NULL), 0);
    dlr_ckpt_close(f->ck);
}

static void a_step_that_is_only_reported_is_missed(void **state)
{
    struct played *f = *state;

    played_join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    assert_int_equal(dlr_ckpt_due(f->ck, 2), 0);
    played_order(f, 2, 0);
    assert_int_equal(dlr_ckpt_due(f->ck, 2), 1);
    assert_int_equal(dlr_ckpt_due(f->ck, 3), 0); /* an order that is over */
    assert_int_equal(dlr_ckpt_progress(f->ck, 2), 0);
    played_expect(f, DLR_LOCAL_DEAD);
    assert_string_equal(f->agent.msg.text, "this step was reported without begin");
    dlr_ckpt_close(f->ck);
}

static void an_order_that_finds_no_slot_is_skipped_and_counted(void **state)
{
    struct played *f = *state;
    struct dlr_ckpt_stats stats;
    uint64_t step;

    played_join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    step = played_save_from(f, 2, 0); /* the other one is COMMITTED */
    played_expect(f, DLR_LOCAL_SEALED);
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.skipped, 0);
    for (unsigned n = 1; n < 3; n++) {
        step++;
        atomic_store(dlr_page_order(f->agent.page, step), step);
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
        played_expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
        assert_non_null(dlr_after(f->agent.msg.text, "busy: "));
        dlr_ckpt_stats(f->ck, &stats);
        assert_int_equal(stats.skipped, n);
        assert_int_equal(stats.saves, 1);
    }
    dlr_ckpt_close(f->ck);
}

/* 64 MiB are not copied in a millisecond, unless this thread sleeps before its fence.
 */
static void a_fence_beyond_its_budget_gives_up_and_tells_when_it_let_go(void **state)
{
    const struct dlr_ckpt_conf conf = {.fence_ms = 1, .rank = 2, .world = 8};
    enum { BIG = 64 << 20 };
    struct played *f = *state;
    unsigned char *big =
        mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dlr_ckpt_stats stats;
    int rc = 0;

    played_start(f);
    assert_int_equal(dlr_ckpt_open(&conf, &f->ck), 0);
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_add_array(f->ck, "big", DLR_CKPT_LOCAL, "u8", 1, big, BIG);
    played_regions(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    for (uint64_t step = 2; (step = played_save_from(f, step, 0)) < 100; step++) {
        rc = dlr_ckpt_fence(f->ck, NULL);
        if (rc < 0)
            break;
        played_expect(f, DLR_LOCAL_SEALED);
    }
    assert_int_equal(rc, -ETIMEDOUT);
    munmap(big, BIG); /* nobody reads it any more */
    played_expect(f, DLR_LOCAL_DEAD);
    assert_int_equal(dlr_slot_state(f->agent.slots[0]), DLR_SLOT_DEAD);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    dlr_ckpt_stats(f->ck, &stats);
    assert_true(stats.given_up >= 1);
    dlr_ckpt_close(f->ck);
}

static void a_vanished_agent_ends_saving_and_nothing_else(void **state)
{
    struct played *f = *state;
    int64_t limit = dlr_now_ms() + PLAYED_WAIT_MS;
    uint64_t step;

    played_join(f);
    dlr_ckpt_begin(f->ck, 1, NULL);
    played_slots(f);
    step = played_save_from(f, 2, 0);
    close(f->agent.conn);
    f->agent.conn = -1;
    for (step++; !atomic_load(&f->was_warned) && dlr_now_ms() < limit; step++) {
        played_order(f, step, 1);
        assert_true(dlr_ckpt_begin(f->ck, step, NULL) >= -EBUSY);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    }
    assert_non_null(dlr_after(f->warned, "nothing is saved from now on: the agent of "
                                         "this node"));
    for (unsigned i = 0; i < 10; i++, step++) {
        played_order(f, step, 1);
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    }
    dlr_ckpt_close(f->ck);
}

static void refused_memory_ends_saving_with_the_reason(void **state)
{
    struct played *f = *state;
    struct dlr_local_msg msg;
    int64_t limit = dlr_now_ms() + PLAYED_WAIT_MS;
    uint64_t step = 1;

    played_join(f);
    dlr_ckpt_begin(f->ck, step++, NULL);
    played_expect(f, DLR_LOCAL_RESERVE);
    dlr_local_init(&msg, DLR_LOCAL_SLOTS);
    dlr_local_text(&msg, "no space in /dev/shm");
    dlr_local_send(f->agent.conn, &msg, NULL, 0);
    while (!atomic_load(&f->was_warned) && dlr_now_ms() < limit)
        assert_int_equal(dlr_ckpt_begin(f->ck, step++, NULL), 0);
    assert_string_equal(f->warned,
                        "nothing is saved from now on: no space in /dev/shm");
    dlr_ckpt_close(f->ck);
}

static bool is_whole(const struct dlr_slot *slot, uint64_t step, uint64_t bytes)
{
    struct dlr_slot_info info;

    return dlr_slot_state(slot) == DLR_SLOT_SEALED &&
           dlr_slot_verify(slot, NULL) == 0 && dlr_slot_info(slot, &info) == 0 &&
           info.version.step == step && info.data_bytes == bytes;
}

/* Optimizer state appears after the first save, and goes again: what is saved stays
 * whole until something takes its place.
 */
static void a_layout_that_grows_gets_larger_slots_and_keeps_what_is_saved(void **state)
{
    enum { MORE = 5 << 20 };
    DLR_AUTO_FREE unsigned char *moments = calloc(1, MORE);
    struct played *f = *state;
    struct played_agent *a = &f->agent;
    struct dlr_slot_info old, grown;
    uint64_t first, step;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    first = step = played_save_from(f, 2, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_slot_info(a->slots[0], &old), 0);

    assert_int_equal(
        dlr_ckpt_add_array(f->ck, "moments", DLR_CKPT_LOCAL, "u8", 1, moments, MORE),
        0);
    assert_int_equal(dlr_ckpt_begin(f->ck, ++step, NULL), 0);
    played_expect(f, DLR_LOCAL_RESERVE);
    assert_true(a->msg.arg[0] >= old.data_bytes + MORE);
    played_order(f, ++step, 1);
    assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
    played_expect(f, DLR_LOCAL_DEAD);
    assert_string_equal(a->msg.text, "the memory for the new layout is not here yet");
    assert_true(is_whole(a->slots[0], first, old.data_bytes));

    played_give(f, old.data_bytes + MORE + (1 << 20));
    assert_true(is_whole(a->slots[0], first, old.data_bytes));
    step = played_save_from(f, ++step, 1);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_slot_info(a->slots[1], &grown), 0);
    assert_true(grown.data_bytes >= old.data_bytes + MORE);
    assert_true(grown.layout != old.layout);
    assert_true(is_whole(a->slots[1], step, grown.data_bytes));
    assert_true(is_whole(a->slots[0], first, old.data_bytes));

    assert_int_equal(dlr_ckpt_clear(f->ck), 0);
    played_regions(f);
    assert_int_equal(played_save_from(f, step + 1, 0), step + 1); /* it has its room */
    played_expect(f, DLR_LOCAL_SEALED);
    assert_true(is_whole(a->slots[0], step + 1, old.data_bytes));
    dlr_ckpt_close(f->ck);
    played_expect(f, DLR_LOCAL_CLOSE);
}

/* Each order is answered at once: the supervisor would wait for the save until its
 * limit.
 */
static void a_layout_that_cannot_be_saved_is_said_at_each_order(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct played *f = *state;
    struct played_agent *a = &f->agent;
    uint64_t step;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    step = played_save_from(f, 2, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(dlr_ckpt_add_array(f->ck, names[i], DLR_CKPT_LOCAL, "u8", 1,
                                            f->weights, 1ull << 45),
                         0);
    for (unsigned i = 0; i < 2; i++) {
        played_order(f, ++step, 1);
        assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), i ? 0 : -ERANGE);
        played_expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(a->msg.step, step);
        assert_string_equal(a->msg.text, "nothing is saved any more: the regions are "
                                         "larger than 2^46 bytes");
    }
    dlr_ckpt_close(f->ck);
}

/* The answer to the larger layout comes when nobody wants it any more: it replaces the
 * slots, so none of them may be in use.
 */
static void a_layout_taken_back_waits_for_the_slots_it_asked_for(void **state)
{
    struct played *f = *state;
    struct played_agent *a = &f->agent;
    uint64_t step, room;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    step = played_save_from(f, 2, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    room = dlr_slot_bytes(a->slots[0]);
    dlr_ckpt_add_array(f->ck, "more", DLR_CKPT_LOCAL, "u8", 1, f->weights + 1,
                       PLAYED_BYTES - 1);
    dlr_ckpt_add_array(f->ck, "still more", DLR_CKPT_LOCAL, "u8", 1, f->weights + 2,
                       PLAYED_BYTES - 2);
    assert_int_equal(dlr_ckpt_begin(f->ck, ++step, NULL), 0);
    played_expect(f, DLR_LOCAL_RESERVE);
    assert_true(a->msg.arg[0] > room);
    assert_int_equal(dlr_ckpt_clear(f->ck), 0);
    played_regions(f);
    played_order(f, ++step, 1);
    assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
    played_expect(f, DLR_LOCAL_DEAD);
    played_give(f, 4 * room);
    step = played_save_from(f, ++step, 1);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_slot_verify(a->slots[1], NULL), 0);
    dlr_ckpt_close(f->ck);
}

/* The thread of this process that is called so. */
static pid_t thread_called(const char *name)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/task");
    char path[64], comm[32];

    for (struct dirent *entry; (entry = readdir(dir));) {
        FILE *f;
        bool found;

        dlr_format(path, sizeof(path), "/proc/self/task/%.16s/comm", entry->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        found = fscanf(f, "%31s", comm) == 1 && dlr_streq(comm, name);
        fclose(f);
        if (found)
            return (pid_t)atol(entry->d_name);
    }
    return -1;
}

static void helper_threads_run_where_the_agent_says(void **state)
{
    struct played *f = *state;
    cpu_set_t all, now, want;
    unsigned last = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        last = CPU_ISSET(cpu, &all) ? cpu : last;
    CPU_ZERO(&want);
    CPU_SET(last, &want);
    for (unsigned advice = 0; advice < 2; advice++) {
        f->agent.page->helper_cpus[last / 64] = (uint64_t)advice << last % 64;
        played_join(f);
        assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
        assert_int_equal(
            sched_getaffinity(thread_called("dlr-saver"), sizeof(now), &now), 0);
        assert_true(CPU_EQUAL(&now, advice ? &want : &all));
        assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
        assert_true(CPU_EQUAL(&now, &all));
        dlr_ckpt_close(f->ck);
        close(f->agent.conn);
        f->agent.conn = -1;
        atomic_store(&f->agent.page->begun_step, DLR_PAGE_NEVER);
    }
}

static void a_page_of_another_rank_or_no_agent_at_all_fails_open(void **state)
{
    struct played *f = *state;

    f->agent.page->rank = 3;
    played_start(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(NULL),
                        "the progress page is not that of this rank");
    pthread_join(f->agent.thread, NULL);
    unlink(f->agent.path);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), -ENOENT);
}

/* As in a container: the path is not there, or leads to a file that nobody listens on.
 */
static void an_agent_out_of_sight_is_reached_by_its_descriptor(void **state)
{
    struct played *f = *state;
    int fd = open(f->agent.path, O_PATH | O_CLOEXEC);
    char number[16];

    assert_true(fd >= 0);
    dlr_format(number, sizeof(number), "%d", fd);
    setenv("DLROVER_AGENT_FD", number, 1);
    setenv("DLROVER_AGENT_SOCKET", "/dev/shm/elsewhere/agent.sock", 1);
    played_join(f);
    close(fd);
    dlr_ckpt_close(f->ck);
    setenv("DLROVER_AGENT_FD", "0",
           1); /* closed long ago, and taken by something else */
    assert_true(dlr_ckpt_open(NULL, &f->ck) < 0);
    unsetenv("DLROVER_AGENT_FD");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, played_setup, played_teardown)
    const struct CMUnitTest tests[] = {
        T(a_worker_goes_before_its_agent_when_memory_runs_out),
        T(a_step_without_an_order_saves_nothing),
        T(an_agent_out_of_sight_is_reached_by_its_descriptor),
        T(an_ordered_step_is_sealed_and_told),
        T(memory_may_change_after_the_fence),
        T(an_audit_names_a_region_changed_before_its_fence),
        T(without_being_asked_an_audit_ends_nothing),
        T(an_order_before_the_slots_are_here_is_reported),
        T(a_step_that_is_only_reported_is_missed),
        T(an_order_that_finds_no_slot_is_skipped_and_counted),
        T(a_fence_beyond_its_budget_gives_up_and_tells_when_it_let_go),
        T(a_vanished_agent_ends_saving_and_nothing_else),
        T(refused_memory_ends_saving_with_the_reason),
        T(helper_threads_run_where_the_agent_says),
        T(a_layout_taken_back_waits_for_the_slots_it_asked_for),
        T(a_layout_that_cannot_be_saved_is_said_at_each_order),
        T(a_layout_that_grows_gets_larger_slots_and_keeps_what_is_saved),
        T(a_page_of_another_rank_or_no_agent_at_all_fails_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
