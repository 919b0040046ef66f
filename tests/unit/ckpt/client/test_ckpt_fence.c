/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap-cuda=dlr_now_ns needs-cuda=tests/fake/libcuda.so.1 */
/* Who waits in a fence, and for what: a program's calls under a job, with its state in
 * memory of either kind, against a stand-in for the CUDA driver
 * (tests/support/fake_cuda.c). What a GPU does is not tested here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/client/client.h"
#include "ckpt/commit/cadence.h"
#include "ckpt/slot/meta.h"
#include "common/base/str.h"
#include "tests/support/device_rig.h"
#include "tests/support/played_agent.h"

#ifndef DLR_HAVE_CUDA

int main(void)
{
    return device_skip();
}

#else

#define BIG ((9u << 20) + 12345) /* more than one half of the staging buffer */
#define STEPS 300u /* parameters: AdamW keeps a number for each in host memory */
#define LARGE ((16u << 20) + 1) /* more than a begin copies */
#define SHORT_MS "300"
#define END_MS "1000"
#define HELD_NS 40000000

/* The program's state. Numbers of steps are every second one of an array; the others
 * are a view.
 */
static CUdeviceptr big;
static CUstream stream;
static float steps[STEPS][2];
static uint64_t blob;
static unsigned char *large;

int64_t __real_dlr_now_ns(void);
int64_t __wrap_dlr_now_ns(void);
static _Atomic int64_t later_ns; /* the clock of the library is ahead by */

int64_t __wrap_dlr_now_ns(void)
{
    return __real_dlr_now_ns() + later_ns;
}

/* What a program names, and whether its fence waits in the host. */
struct row {
    const char *name;
    size_t device; /* bytes */
    bool blob, steps, pinned;
    size_t host; /* bytes of a larger region */
    bool waits;
};
static const struct row rows[] = {
    {"device", BIG, false, false, false, 0, false},
    {"device and a blob", BIG, true, false, false, 0, false},
    {"device and small host memory", BIG, true, true, false, 0, false},
    {"device and 16 MiB of host memory", 1000, false, false, false, LARGE - 1, false},
    {"device and more of it", 1000, true, true, false, LARGE, true},
    {"device and small pinned memory", BIG, false, true, true, 0, true},
    {"a blob", 0, true, false, false, 0, false},
    {"small host memory", 0, true, true, false, 0, false},
};

static int load(void **state)
{
    device_load(state);
    large = malloc(LARGE);
    assert_non_null(large);
    assert_int_equal(fake.alloc(&big, BIG), CUDA_SUCCESS);
    assert_int_equal(fake.stream_create(&stream, 0), CUDA_SUCCESS);
    return 0;
}

/* The same again: CUDA_DEVICE_MAX_CONNECTIONS=1. */
static int one_queue(void **state)
{
    fake.queues(1);
    return 0;
}

static int unload(void **state)
{
    free(large);
    return 0;
}

/* All that was put on the stream is done. */
static void drain(void)
{
    fake.open_gate();
    fake.stream_destroy(stream);
    assert_int_equal(fake.stream_create(&stream, 0), CUDA_SUCCESS);
}

static void name_steps(struct dlr_ckpt *ck)
{
    struct dlr_ckpt_region r = {.name = "view",
                                .kind = DLR_CKPT_LOCAL,
                                .dtype = "f32",
                                .item_size = sizeof(float),
                                .ndim = 1,
                                .global_shape = {STEPS},
                                .local_shape = {STEPS},
                                .stride = {sizeof(steps[0])},
                                .addr = &steps[0][0]};
    char name[16];

    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    r.name = name;
    r.kind = DLR_CKPT_SHARD;
    r.ndim = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        dlr_format(name, sizeof(name), "step.%u", i);
        r.addr = &steps[i][1];
        assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    }
}

static void name_regions(struct dlr_ckpt *ck, const struct row *row)
{
    void *device = (void *)(uintptr_t)big;
    int rc = 0;

    if (row->device)
        rc |=
            dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1, device, row->device);
    if (row->blob)
        rc |= dlr_ckpt_add_array(ck, "blob", DLR_CKPT_BLOB, "u64", 8, &blob, 1);
    if (row->host)
        rc |= dlr_ckpt_add_array(ck, "large", DLR_CKPT_REPLICATED, "u8", 1, large,
                                 row->host);
    assert_int_equal(rc, 0);
    if (row->steps)
        name_steps(ck);
}

static void fill_host(unsigned char value)
{
    for (unsigned i = 0; i < STEPS; i++) {
        steps[i][0] = (float)(value * 1000 + i);
        steps[i][1] = -steps[i][0];
    }
    blob = value;
    memset(large, value, LARGE);
}

static void assert_all(const struct row *row, unsigned char value)
{
    const unsigned char *device = fake.look(big);

    for (size_t i = 0; i < row->device; i++)
        if (device[i] != value)
            fail_msg("%s: byte %zu of the device is %u", row->name, i, device[i]);
    for (size_t i = 0; i < row->host; i++)
        if (large[i] != value)
            fail_msg("%s: byte %zu of the host is %u", row->name, i, large[i]);
    if (row->blob)
        assert_int_equal(blob, value);
    for (unsigned i = 0; row->steps && i < STEPS; i++)
        if (steps[i][0] != (float)(value * 1000 + i) || steps[i][1] != -steps[i][0])
            fail_msg("%s: step %u is %f, %f", row->name, i, (double)steps[i][0],
                     (double)steps[i][1]);
}

/* The program opens its checkpoint and has its first snapshot behind it; returns its
 * last step.
 */
static uint64_t begin_life(struct played *f, const struct row *row)
{
    uint64_t step;
    int rc;

    fake.pinned(row->pinned ? steps : NULL, sizeof(steps));
    played_start(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), 0);
    pthread_join(f->agent.thread, NULL);
    name_regions(f->ck, row);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, stream), 0);
    played_slots(f);
    for (step = 2;; step++) {
        played_order(f, step, 0);
        rc = dlr_ckpt_begin(f->ck, step, stream);
        if (rc == 1)
            break;
        assert_int_equal(rc, -ENODEV); /* the slots are on their way */
        played_expect(f, DLR_LOCAL_DEAD);
    }
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    return step;
}

static void end_life(struct played *f)
{
    dlr_ckpt_close(f->ck);
    close(f->agent.conn);
    f->agent.conn = -1;
    f->agent.offer = false;
    atomic_store(&f->agent.page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(f->agent.page);
}

/* The next life finds the state that this step was begun with. */
static void assert_restored(struct played *f, const struct row *row, uint64_t step,
                            unsigned char value)
{
    uint64_t got = 0;

    fill_host(99);
    memset(fake.look(big), 99, BIG);
    played_offer(f, step, 1);
    played_start(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), 0);
    name_regions(f->ck, row);
    assert_int_equal(dlr_ckpt_restore(f->ck, &got), 1);
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(got, step);
    assert_all(row, value);
    end_life(f);
}

/* The stream is at work for a long time when begin is called: what it computes is the
 * state.
 */
static uint64_t begin_behind_gate(struct played *f, uint64_t step, unsigned char value)
{
    fill_host(value);
    fake.gate(stream);
    fake.fill(stream, big, value, BIG);
    played_order(f, ++step, 1);
    assert_int_equal(dlr_ckpt_begin(f->ck, step, stream), 1);
    return step;
}

/* The gate is closed: a host that waited would not come back. */
static void a_fence_returns_where_only_the_stream_must_wait(void **state)
{
    struct played *f = *state;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        uint64_t step;

        if (row->waits)
            continue;
        print_message("  %s\n", row->name);
        step = begin_behind_gate(f, begin_life(f, row), 7);
        assert_false(f->ck->host_waits); /* and not only since the copy is over */
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        fill_host(8); /* the next step */
        fake.fill(stream, big, 8, BIG);
        fake.open_gate();
        played_expect(f, DLR_LOCAL_SEALED);
        drain();
        end_life(f);
        assert_restored(f, row, step, 7);
    }
}

static void a_fence_waits_for_what_begin_does_not_copy(void **state)
{
    struct played *f = *state;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        uint64_t step;

        if (!row->waits)
            continue;
        print_message("  %s\n", row->name);
        setenv("DLROVER_CKPT_FENCE_MS", SHORT_MS, 1);
        step = begin_behind_gate(f, begin_life(f, row), 7);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), -ETIMEDOUT);
        fake.open_gate();
        played_expect(f, DLR_LOCAL_DEAD);
        assert_int_equal(f->agent.msg.step, step);
        step = begin_behind_gate(f, step, 5);
        fake.open_gate();
        played_expect(f, DLR_LOCAL_SEALED);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        drain();
        end_life(f);
        assert_restored(f, row, step, 5);
    }
}

/* Nothing but begin has read it. */
static void what_begin_copies_may_change_at_once(void **state)
{
    const struct row *row = &rows[sizeof(rows) / sizeof(rows[0]) - 1];
    struct played *f = *state;
    uint64_t step;

    step = begin_behind_gate(f, begin_life(f, row), 7);
    fill_host(8);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    drain();
    end_life(f);
    assert_restored(f, row, step, 7);
}

/* Time passes while the stream is at work: that is not the snapshot's. */
static void a_stream_that_is_late_costs_no_snapshot(void **state)
{
    const struct row *row = &rows[0];
    struct played *f = *state;
    uint64_t step = begin_behind_gate(f, begin_life(f, row), 7);

    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    later_ns += 3600 * INT64_C(1000000000);
    fake.open_gate();
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(f->agent.msg.step, step);
    drain();
    end_life(f);
}

/* The copies take 40 ms of the device's time, and the host none of it. */
static void a_held_stream_spaces_saves(void **state)
{
    const struct row *row = &rows[0];
    struct played *f = *state;
    struct dlr_page *page = f->agent.page;
    struct dlr_cadence cadence = {.budget_ppm = 10000, .step_ms = 100};
    uint64_t step = begin_life(f, row), host;
    struct dlr_ckpt_stats stats;

    for (unsigned i = 1; i <= DLR_CADENCE_LEARN; i++) {
        fake.clock(0);
        fake.hold_copies(true);
        played_order(f, ++step, i % 2);
        assert_int_equal(dlr_ckpt_begin(f->ck, step, stream), 1);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        fake.await_held(stream);
        assert_int_equal(dlr_ckpt_begin(f->ck, ++step, stream), 0); /* not known yet */
        assert_int_equal(atomic_load(&page->held_ns), (i - 1) * HELD_NS);
        host = atomic_load(&page->blocked_ns);
        fake.clock(HELD_NS);
        fake.hold_copies(false);
        played_expect(f, DLR_LOCAL_SEALED);
        drain();
        assert_int_equal(dlr_ckpt_begin(f->ck, ++step, stream), 0);
        assert_int_equal(atomic_load(&page->held_ns), i * HELD_NS);
        assert_int_equal(atomic_load(&page->blocked_ns), host + HELD_NS);
    }
    dlr_ckpt_stats(f->ck, &stats);
    assert_int_equal(stats.held_ns, DLR_CADENCE_LEARN * HELD_NS);
    cadence.saves = (unsigned)(stats.saves - 1);
    cadence.blocked_ms =
        (double)atomic_load(&page->blocked_ns) / 1e6 / (double)cadence.saves;
    assert_true(dlr_cadence_every(&cadence) >= 40);
    assert_true(atomic_load(&page->plain_ns) < INT64_MAX); /* no step below zero */
    assert_true(atomic_load(&page->saved_ns) < INT64_MAX);
    end_life(f);
}

static void *close_it(void *arg)
{
    end_life(arg);
    return NULL;
}

/* Hours pass for the library while it closes. */
static void close_in_time(struct played *f)
{
    pthread_t thread;
    struct timespec soon;

    assert_int_equal(pthread_create(&thread, NULL, close_it, f), 0);
    do {
        later_ns += 3600 * INT64_C(1000000000);
        clock_gettime(CLOCK_MONOTONIC, &soon);
        soon.tv_nsec = (soon.tv_nsec + 1000000) % 1000000000;
    } while (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &soon) != 0);
}

/* Something hangs on the stream, before a snapshot or behind it: the program ends
 * nevertheless. What the stream waits for is there when it comes to it.
 */
static void a_stream_that_hangs_does_not_hold_up_the_end(void **state)
{
    static const char *const ways[] = {"after the copies", "before them"};
    struct played *f = *state;

    for (unsigned copied = 2; copied-- > 0;) {
        char said[128] =
            "a GPU's stream does not come to its last snapshot: memory for "
            "copies stays";
        uint64_t step;

        print_message("  %s\n", ways[!copied]);
        setenv("DLROVER_CKPT_FENCE_MS", END_MS, 1);
        step = begin_life(f, &rows[0]);
        if (!copied)
            fake.gate(stream);
        played_order(f, ++step, 1);
        fake.hold_copies(copied); /* so that the fence has something to wait for */
        assert_int_equal(dlr_ckpt_begin(f->ck, step, stream), 1);
        if (copied)
            fake.gate(stream);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        fake.hold_copies(false);
        if (copied)
            played_expect(f, DLR_LOCAL_SEALED);
        else
            dlr_format(said, sizeof(said),
                       "the copies of step %d do not end: going on without", (int)step);
        close_in_time(f);
        assert_string_equal(f->warned, said);
        drain();
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, played_setup, played_teardown)
    const struct CMUnitTest tests[] = {
        T(a_fence_returns_where_only_the_stream_must_wait),
        T(a_fence_waits_for_what_begin_does_not_copy),
        T(what_begin_copies_may_change_at_once),
        T(a_stream_that_is_late_costs_no_snapshot),
    };

    /* With one queue the events beside a wait come after the copies as well, so no time
     * is seen, and all streams hang with one.
     */
    const struct CMUnitTest several[] = {
        T(a_held_stream_spaces_saves),
        T(a_stream_that_hangs_does_not_hold_up_the_end),
    };

    return cmocka_run_group_tests(tests, load, NULL) +
           cmocka_run_group_tests(several, NULL, NULL) +
           cmocka_run_group_tests_name("one hardware queue", tests, one_queue, unload);
}

#endif
