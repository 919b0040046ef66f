/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open needs-cuda=tests/fake/libcuda.so.1 */
/* A program's calls with its state in device memory, alone and under a job, against a
 * stand-in for the CUDA driver (tests/support/fake_cuda.c). What a GPU does is not
 * tested here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/device_rig.h"
#include "tests/support/played_agent.h"

#ifndef DLR_HAVE_CUDA

int main(void)
{
    return device_skip();
}

#else

/* More than both halves of the staging buffer, and than a piece that is registered. */
#define BIG ((36u << 20) + 12345)
#define SMALL 1000u

static CUdeviceptr big, small;
static CUstream stream;

static int load(void **state)
{
    device_load(state);
    assert_int_equal(fake.alloc(&big, BIG), CUDA_SUCCESS);
    assert_int_equal(fake.alloc(&small, SMALL), CUDA_SUCCESS);
    assert_int_equal(fake.stream_create(&stream, 0), CUDA_SUCCESS);
    return 0;
}

/* The same again: CUDA_DEVICE_MAX_CONNECTIONS=1. */
static int one_queue(void **state)
{
    fake.queues(1);
    return 0;
}

/* Half of small, and columns of its other half. */
static void name_rest(struct dlr_ckpt *ck)
{
    const struct dlr_ckpt_region view = {.name = "view",
                                         .kind = DLR_CKPT_SHARD,
                                         .dtype = "u8",
                                         .item_size = 1,
                                         .ndim = 2,
                                         .global_shape = {50, 3},
                                         .local_shape = {50, 3},
                                         .stride = {10, 1},
                                         .addr = (void *)(uintptr_t)(small + 2)};

    assert_int_equal(dlr_ckpt_add(ck, &view), 0);
    assert_int_equal(dlr_ckpt_add_array(ck, "small", DLR_CKPT_SHARD, "u8", 1,
                                        (void *)(uintptr_t)(small + SMALL / 2),
                                        SMALL / 2),
                     0);
}

/* All is in device memory. */
static void name_regions(struct dlr_ckpt *ck)
{
    assert_int_equal(dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1,
                                        (void *)(uintptr_t)big, BIG),
                     0);
    name_rest(ck);
}

/* A program, with these settings: "NAME=value" or NULL. */
static void join(struct played *f, const char *first, const char *second)
{
    const char *given[] = {first, second};
    char name[64], *value;

    for (unsigned i = 0; i < 2; i++)
        if (given[i]) {
            dlr_format(name, sizeof(name), "DLROVER_CKPT_%s", given[i]);
            value = strchr(name, '=');
            *value = '\0';
            setenv(name, value + 1, 1);
        }
    played_start(f);
    assert_int_equal(dlr_ckpt_open(NULL, &f->ck), 0);
    pthread_join(f->agent.thread, NULL);
    unsetenv("DLROVER_CKPT_AUDIT");
    unsetenv("DLROVER_CKPT_DEVICE_SUM");
    unsetenv("DLROVER_CKPT_DEVICE_GATHER");
    unsetenv("DLROVER_CKPT_DEVICE_PIN");
    name_regions(f->ck);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, stream), 0);
    played_slots(f);
}

static void leave(struct played *f)
{
    dlr_ckpt_close(f->ck);
    close(f->agent.conn);
    f->agent.conn = -1;
    atomic_store(&f->agent.page->begun_step, DLR_PAGE_NEVER);
    dlr_page_clear_orders(f->agent.page);
}

/* The step that was saved; none is until the slots have come. */
static uint64_t save_from(struct played *f, uint64_t step, uint64_t slot)
{
    for (;; step++) {
        int rc;

        played_order(f, step, slot);
        rc = dlr_ckpt_begin(f->ck, step, stream);
        if (rc == 1)
            return step;
        assert_true(rc == -ENODEV || rc == 0); /* none is here yet, or no larger one */
        played_expect(f, DLR_LOCAL_DEAD);
    }
}

/* The same, to its end. */
static uint64_t save_whole(struct played *f, uint64_t step, uint64_t slot)
{
    step = save_from(f, step, slot);
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_slot_verify(f->agent.slots[slot], NULL), 0);
    return step;
}

/* What a slot has registered of it. */
static size_t registered_of(const struct played *f)
{
    struct dlr_slot_info info;

    assert_int_equal(dlr_slot_info(f->agent.slots[0], &info), 0);
    return dlr_align_up(info.data_bytes, DLR_SLOT_PAGE);
}

/* What changes is changed by work that the stream has not done when the fence is
 * called. Where the device sums, the audit brings nothing to the host but the view.
 */
static void an_audit_finds_device_memory_changed_before_its_fence(void **state)
{
    static const struct {
        const char *sums, *changed;
        unsigned offset, copies; /* contiguous ones to the host */
    } rows[] = {
        {"DEVICE_SUM=off", NULL, 0, 3 * 6},
        {"DEVICE_SUM=off", "big", BIG - 1, 3 * 6},
        {"DEVICE_SUM=off", "view", 13, 3 * 6},
        {"DEVICE_SUM=off", "small", SMALL - 1, 3 * 6},
        {"DEVICE_SUM=on", NULL, 0, 6},
        {"DEVICE_SUM=on", "big", BIG - 1, 6},
        {"DEVICE_SUM=on", "view", 13, 6},
        {"DEVICE_SUM=on", "small", SMALL - 1, 6},
    };
    struct played *f = *state;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CUdeviceptr from =
            rows[i].changed && dlr_streq(rows[i].changed, "big") ? big : small;
        unsigned before = fake.copies();
        char text[128];
        uint64_t step;

        memset(fake.look(big), 1, BIG);
        memset(fake.look(small), 1, SMALL);
        join(f, "AUDIT=1", rows[i].sums);
        step = save_from(f, 2, 0);
        played_expect(f, DLR_LOCAL_SEALED);
        if (rows[i].changed) {
            fake.gate_waited(stream);
            fake.fill(stream, from + rows[i].offset, 2, 1);
        }
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), rows[i].changed ? -EBADMSG : 0);
        assert_int_equal(fake.copies() - before, rows[i].copies);
        if (rows[i].changed) {
            dlr_format(text, sizeof(text),
                       "region '%s' (1 in all) changed between begin and fence",
                       rows[i].changed);
            assert_non_null(strstr(dlr_ckpt_error(f->ck), text));
            played_expect(f, DLR_LOCAL_DEAD);
            assert_int_equal(f->agent.msg.step, step);
        }
        save_from(f, step + 1, 1); /* and the next one is sound */
        played_expect(f, DLR_LOCAL_SEALED);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        leave(f);
    }
}

static void pattern(unsigned with)
{
    unsigned char *look = fake.look(big);

    for (unsigned i = 0; i < BIG; i++)
        look[i] = (unsigned char)(i * 13 + i / 256 + with);
    look = fake.look(small);
    for (unsigned i = 0; i < SMALL; i++)
        look[i] = (unsigned char)(i * 7 + with);
}

/* All of a slot but what differs with its step. */
static void assert_same_data(const struct dlr_slot *a, const struct dlr_slot *b)
{
    struct dlr_slot_info info;

    assert_int_equal(dlr_slot_info(a, &info), 0);
    for (uint32_t i = 0; i < info.nblocks; i++) {
        void *data[2];
        size_t bytes[2];
        uint32_t crc[2];

        dlr_slot_block(a, i, &data[0], &bytes[0], &crc[0]);
        dlr_slot_block(b, i, &data[1], &bytes[1], &crc[1]);
        assert_int_equal(bytes[0], bytes[1]);
        assert_int_equal(crc[0], crc[1]);
        assert_memory_equal(data[0], data[1], bytes[0]);
    }
}

static void registered_slots_are_filled_without_a_buffer_and_hold_the_same(void **state)
{
    static const char *const ways[] = {"DEVICE_SUM=off", "DEVICE_SUM=on",
                                       "DEVICE_GATHER=on"};
    struct played *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        unsigned before;
        uint64_t step;

        join(f, ways[i], NULL);
        step = save_whole(f, 2, 0);
        step = save_whole(f, step + 1, 1);
        fake.await_registered(2 * registered_of(f));
        pattern(i);
        before = fake.straight();
        step = save_whole(f, step + 1, 0);
        /* "big" in five halves of the buffer, the view, "small". */
        assert_int_equal(fake.straight() - before, 5 + 1 + 1);
        leave(f);
        assert_int_equal(fake.registered(), 0);

        before = fake.straight();
        join(f, ways[i], "DEVICE_PIN=off");
        step = save_whole(f, 2, 1);
        step = save_whole(f, step + 1, 1);
        assert_int_equal(fake.straight(), before);
        assert_int_equal(fake.registered(), 0);
        assert_same_data(f->agent.slots[0], f->agent.slots[1]);
        leave(f);
    }
    assert_int_equal(fake.torn(), 0);
}

/* n: of the two pieces of the first slot. */
static void what_cannot_be_registered_goes_on_through_the_buffer(void **state)
{
    struct played *f = *state;

    for (int n = 1; n <= 2; n++) {
        int64_t limit = dlr_now_ms() + PLAYED_WAIT_MS;
        unsigned before;
        uint64_t step;

        fake.fail_register(n);
        atomic_store(&f->was_warned, false);
        join(f, NULL, NULL);
        step = save_whole(f, 2, 0);
        while (!atomic_load(&f->was_warned) && dlr_now_ms() < limit)
            step = save_whole(f, step + 1, 0);
        assert_string_equal(f->warned, "copies from the device go on through a staging "
                                       "buffer: CUDA cannot register the snapshot's "
                                       "memory: Cannot allocate memory");
        atomic_store(&f->was_warned, false);
        before = fake.straight();
        for (unsigned slot = 0; slot < 4; slot++)
            step = save_whole(f, step + 1, slot % 2);
        assert_int_equal(fake.straight(), before);
        if (atomic_load(&f->was_warned)) /* told once */
            fail_msg("%s", f->warned);
        leave(f);
        assert_int_equal(fake.registered(), 0);
    }
    assert_int_equal(fake.torn(), 0);
}

static void slots_that_grow_are_taken_back_before_they_go(void **state)
{
    struct played *f = *state;
    CUdeviceptr more;
    uint64_t step;
    size_t old;

    assert_int_equal(fake.alloc(&more, BIG), CUDA_SUCCESS);
    memset(fake.look(more), 3, BIG);
    join(f, NULL, NULL);
    step = save_whole(f, 2, 0);
    step = save_whole(f, step + 1, 1);
    old = registered_of(f);
    fake.await_registered(2 * old);
    assert_int_equal(dlr_ckpt_add_array(f->ck, "more", DLR_CKPT_SHARD, "u8", 1,
                                        (void *)(uintptr_t)more, BIG),
                     0);
    assert_int_equal(dlr_ckpt_begin(f->ck, ++step, stream), 0);
    played_slots(f);
    step = save_whole(f, step + 1, 0);
    step = save_whole(f, step + 1, 1);
    assert_true(registered_of(f) > old + BIG - DLR_SLOT_PAGE);
    fake.await_registered(2 * registered_of(f));
    assert_int_equal(fake.torn(), 0);
    leave(f);
    assert_int_equal(fake.registered(), 0);
    assert_int_equal(fake.torn(), 0);
    assert_int_equal(fake.release(more), CUDA_SUCCESS);
}

/* Alone the library grows its only slot itself. */
static void a_slot_that_grows_alone_is_taken_back_before_it_goes(void **state)
{
    char dir[] = "/tmp/dlr-test-device-XXXXXX", command[64];
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
    struct dlr_ckpt *ck;

    unsetenv("DLROVER_AGENT_SOCKET");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1, (void *)(uintptr_t)big, BIG);
    for (uint64_t step = 1; step < 3; step++) {
        assert_int_equal(dlr_ckpt_begin(ck, step, stream), 1);
        assert_int_equal(dlr_ckpt_fence(ck, stream), 0);
        fake.await_registered(BIG);
        if (step == 1)
            name_rest(ck);
    }
    dlr_ckpt_close(ck);
    assert_int_equal(fake.registered(), 0);
    assert_int_equal(fake.torn(), 0);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void *close_it(void *arg)
{
    leave(arg);
    return NULL;
}

static void a_program_may_end_while_its_slot_is_registered(void **state)
{
    struct played *f = *state;
    pthread_t thread;

    join(f, NULL, NULL);
    fake.hold_register(true);
    save_whole(f, 2, 0);
    fake.await_register();
    assert_int_equal(pthread_create(&thread, NULL, close_it, f), 0);
    fake.hold_register(false);
    pthread_join(thread, NULL);
    assert_int_equal(fake.registered(), 0);
    assert_int_equal(fake.torn(), 0);
}

static void calls_in_a_capture_are_refused_and_leave_no_copy_behind(void **state)
{
    struct played *f = *state;
    unsigned kept = fake.kept();
    uint64_t step;

    pattern(7);
    join(f, NULL, NULL);
    step = save_from(f, 2, 0);
    fake.capture(stream, true);
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), -EINPROGRESS);
    assert_string_equal(dlr_ckpt_error(f->ck),
                        "fence was called while a CUDA graph is captured, which does "
                        "nothing of it when it runs: fence before the launch of the "
                        "graph, begin after it");
    memset(fake.look(big), 0, BIG); /* nobody reads it any more */
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), -EINPROGRESS); /* the driver's too */
    played_order(f, step + 1, 1);
    assert_int_equal(dlr_ckpt_begin(f->ck, step + 1, stream), -EINPROGRESS);
    fake.capture(stream, false);
    assert_int_equal(fake.kept(), kept);
    assert_int_equal(save_whole(f, step + 1, 1), step + 1); /* no step was announced */
    pattern(7);
    save_whole(f, step + 2, 1);
    assert_same_data(f->agent.slots[0], f->agent.slots[1]);
    leave(f);
}

/* The copies of the last begin go on while another stream is captured, as a new shape's
 * graph is.
 */
static void copies_beside_a_capture_do_not_break_it_off(void **state)
{
    struct played *f = *state;
    CUstream other;

    assert_int_equal(fake.stream_create(&other, 0), CUDA_SUCCESS);
    join(f, NULL, NULL);
    fake.gate(stream);
    save_from(f, 2, 0);
    fake.capture(other, true);
    fake.open_gate();
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    played_expect(f, DLR_LOCAL_SEALED);
    fake.await_registered(registered_of(f));
    fake.capture(other, false);
    assert_int_equal(fake.broken(), 0);
    leave(f);
    fake.stream_destroy(other);
}

static void *free_memory(void *arg)
{
    device_current(0);
    fake.release(*(CUdeviceptr *)arg);
    return NULL;
}

/* The program goes on after its fence: what it gives the stream overwrites the state,
 * and it frees memory, which takes until all streams are done. The state is more than
 * the staging buffer.
 */
static void what_comes_behind_a_fence_keeps_no_copy_back(void **state)
{
    static const char *const pins[] = {"DEVICE_PIN=off", "DEVICE_PIN=on"};
    struct played *f = *state;

    for (unsigned i = 0; i < 2; i++) {
        struct timespec limit;
        CUdeviceptr other;
        pthread_t thread;
        uint64_t step;

        print_message("  %s\n", pins[i]);
        assert_int_equal(fake.alloc(&other, SMALL), CUDA_SUCCESS);
        join(f, pins[i], NULL);
        step = save_whole(f, 2, 0);
        step = save_whole(f, step + 1, 1);
        if (i == 1)
            fake.await_registered(2 * registered_of(f));
        pattern(3);
        step = save_from(f, step + 1, 0);
        assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
        fake.fill(stream, big, 99, BIG);
        fake.fill(stream, small, 99, SMALL);
        assert_int_equal(pthread_create(&thread, NULL, free_memory, &other), 0);
        played_expect(f, DLR_LOCAL_SEALED);
        clock_gettime(CLOCK_MONOTONIC, &limit);
        limit.tv_sec += PLAYED_WAIT_MS / 1000;
        assert_int_equal(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &limit),
                         0);
        pattern(3);
        save_whole(f, step + 1, 1);
        assert_same_data(f->agent.slots[0], f->agent.slots[1]);
        leave(f);
    }
    assert_int_equal(fake.torn(), 0);
}

/* The gate is closed: a host that waited would not come back. */
static void a_fence_over_registered_slots_lets_the_host_go_on(void **state)
{
    struct played *f = *state;
    uint64_t step;

    join(f, NULL, NULL);
    step = save_whole(f, 2, 0);
    step = save_whole(f, step + 1, 1);
    fake.await_registered(2 * registered_of(f));
    fake.gate(stream);
    fake.fill(stream, big, 7, BIG);
    step = save_from(f, step + 1, 0);
    assert_int_equal(dlr_ckpt_fence(f->ck, stream), 0);
    fake.fill(stream, big, 8, BIG); /* the next step */
    fake.open_gate();
    played_expect(f, DLR_LOCAL_SEALED);
    fake.fill(stream, big, 7, BIG);
    save_whole(f, step + 1, 1);
    assert_same_data(f->agent.slots[0], f->agent.slots[1]);
    leave(f);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, played_setup, played_teardown)
    const struct CMUnitTest tests[] = {
        T(an_audit_finds_device_memory_changed_before_its_fence),
        T(registered_slots_are_filled_without_a_buffer_and_hold_the_same),
        T(what_cannot_be_registered_goes_on_through_the_buffer),
        T(slots_that_grow_are_taken_back_before_they_go),
        T(a_slot_that_grows_alone_is_taken_back_before_it_goes),
        T(a_program_may_end_while_its_slot_is_registered),
        T(calls_in_a_capture_are_refused_and_leave_no_copy_behind),
        T(copies_beside_a_capture_do_not_break_it_off),
        T(what_comes_behind_a_fence_keeps_no_copy_back),
        T(a_fence_over_registered_slots_lets_the_host_go_on),
    };

    return cmocka_run_group_tests(tests, load, NULL) +
           cmocka_run_group_tests_name("one hardware queue", tests, one_queue, NULL);
}

#endif
