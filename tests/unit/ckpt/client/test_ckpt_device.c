/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap-cuda=dlr_crc32c needs-cuda=tests/fake/libcuda.so.1 */
/* The CUDA back end against a stand-in for the driver (tests/support/fake_cuda.c):
 * order, ownership and failures. What a GPU does is not tested here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/client/copy.h"
#include "ckpt/client/device_crc.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "device/device.h"
#include "device/pin.h"
#include "tests/support/device_rig.h"

#ifndef DLR_HAVE_CUDA

int main(void)
{
    return device_skip();
}

#else

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "common/base/clock.h"

#define BIG ((20u << 20) + 12345) /* more than both halves of the staging buffer */
#define SMALL 1000u

#define THREADS 3u /* that copy and sum */
#define WAIT_S 30

static CUdeviceptr big, small;
static unsigned char host[SMALL];

/* Sums wait until there are so many at a time, or for ever: which is given up after a
 * while.
 */
static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sums_changed = PTHREAD_COND_INITIALIZER;
static unsigned sums_want, sums_inside;
static bool sums_late;

uint32_t __real_dlr_crc32c(uint32_t crc, const void *buf, size_t size);
uint32_t __wrap_dlr_crc32c(uint32_t crc, const void *buf, size_t size);

static void let_sums_go(unsigned want)
{
    pthread_mutex_lock(&sums_lock);
    sums_late &= want == 0;
    sums_want = want;
    pthread_cond_broadcast(&sums_changed);
    pthread_mutex_unlock(&sums_lock);
}

uint32_t __wrap_dlr_crc32c(uint32_t crc, const void *buf, size_t size)
{
    struct timespec until;
    int rc = 0;

    pthread_mutex_lock(&sums_lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    if (++sums_inside == sums_want)
        sums_want = 0;
    pthread_cond_broadcast(&sums_changed);
    while (rc == 0 && sums_want > 0)
        rc = pthread_cond_clockwait(&sums_changed, &sums_lock, CLOCK_MONOTONIC, &until);
    sums_late |= rc != 0;
    sums_want = 0;
    sums_inside--;
    pthread_mutex_unlock(&sums_lock);
    return __real_dlr_crc32c(crc, buf, size);
}

static int load_fake(void **state)
{
    assert_null(
        dlr_device_of(host)); /* without a driver in the program there is no device */
    device_load(state);
    assert_int_equal(fake.alloc(&big, BIG), CUDA_SUCCESS);
    assert_int_equal(fake.alloc(&small, SMALL), CUDA_SUCCESS);
    return 0;
}

/* The same again: CUDA_DEVICE_MAX_CONNECTIONS=1. */
static int one_queue(void **state)
{
    fake.queues(1);
    return 0;
}

struct fixture {
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    struct dlr_copy *copy;
    struct dlr_copy_job job;
    CUstream stream;
    pthread_t thread;
    sem_t asked;
    atomic_bool stop;
    _Atomic int64_t deadline_ns;
    unsigned spoilt;
    int rc;
};

static const void *src[3];
static const bool on_device[3] = {true, false, true};

static void tell_asked(void *arg)
{
    struct fixture *f = arg;

    sem_post(&f->asked);
}

static int setup_with(void **state, unsigned kernels, unsigned threads)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const struct dlr_slot_owner owner = {1, 0, 1};
    struct dlr_ckpt_region regions[3] = {
        {"big", DLR_CKPT_SHARD, "u8", 1, 1, {BIG}, {0}, {BIG}, {0}, NULL},
        {"host", DLR_CKPT_SHARD, "u8", 1, 1, {SMALL}, {0}, {SMALL}, {0}, NULL},
        {"small", DLR_CKPT_SHARD, "u8", 1, 1, {SMALL}, {0}, {SMALL}, {0}, NULL}};

    src[0] = (void *)(uintptr_t)big;
    src[1] = host;
    src[2] = (void *)(uintptr_t)small;
    f->ops = dlr_device_of(src[0]);
    assert_non_null(f->ops);
    assert_int_equal(f->ops->open(src[0], kernels, &dlr_device_crc32c, &f->dev, NULL),
                     0);
    assert_int_equal(dlr_slot_plan_new(regions, 3, &owner, &f->plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(f->plan), &f->slot, NULL),
                     0);
    assert_int_equal(dlr_copy_new(threads, &f->copy, NULL), 0);
    assert_int_equal(sem_init(&f->asked, 0, 0), 0);
    f->job = (struct dlr_copy_job){.slot = f->slot,
                                   .plan = f->plan,
                                   .src = src,
                                   .ops = f->ops,
                                   .dev = f->dev,
                                   .on_device = on_device,
                                   .ret_spoilt = &f->spoilt,
                                   .asked = tell_asked,
                                   .arg = f,
                                   .stop = &f->stop,
                                   .deadline_ns = &f->deadline_ns};
    assert_int_equal(fake.stream_create(&f->stream, 0), CUDA_SUCCESS);
    memset(fake.look(big), 1, BIG);
    memset(fake.look(small), 1, SMALL);
    memset(host, 1, SMALL);
    fake.open_gate();
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 0, 1);
}

static int setup_threads(void **state)
{
    return setup_with(state, 0, THREADS);
}

static int setup_sum(void **state)
{
    return setup_with(state, DLR_DEVICE_SUM, 1);
}

static int setup_gather(void **state)
{
    return setup_with(state, DLR_DEVICE_GATHER, 1);
}

static int setup_both(void **state)
{
    return setup_with(state, DLR_DEVICE_SUM | DLR_DEVICE_GATHER, THREADS);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->ops->close(f->dev);
    fake.stream_destroy(f->stream);
    dlr_copy_free(f->copy);
    dlr_slot_plan_free(f->plan);
    dlr_slot_unmap(f->slot);
    sem_destroy(&f->asked);
    free(f);
    return 0;
}

static void *copy_thread(void *arg)
{
    struct fixture *f = arg;

    f->rc = dlr_copy_run(f->copy, &f->job);
    return NULL;
}

/* As a fence: when the device has all to do. */
static void hold(struct fixture *f)
{
    assert_int_equal(sem_wait(&f->asked), 0);
    assert_int_equal(f->ops->hold(f->dev, f->stream), 0);
}

static void begin(struct fixture *f)
{
    assert_int_equal(dlr_slot_begin(f->slot, f->plan, (struct dlr_version){0, 1}, NULL),
                     0);
    assert_int_equal(f->ops->after(f->dev, f->stream), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, copy_thread, f), 0);
}

static int finish(struct fixture *f)
{
    pthread_join(f->thread, NULL);
    return f->rc;
}

/* All of the snapshot's bytes are 1 and its sums are right. */
static void assert_snapshot_of_ones(struct fixture *f)
{
    struct dlr_slot_piece p;
    uint64_t data = dlr_slot_plan_data(f->plan);

    dlr_slot_seal(f->slot, f->plan);
    assert_int_equal(dlr_slot_verify(f->slot, NULL), 0);
    for (uint64_t at = 0; dlr_slot_plan_piece(f->plan, at, data, &p);
         at = p.off + p.bytes) {
        const unsigned char *bytes = dlr_slot_data(f->slot, f->plan, p.off);

        for (uint64_t i = 0; i < p.bytes; i++)
            if (bytes[i] != 1)
                fail_msg("byte %d of region %u is %u", (int)i, p.region, bytes[i]);
    }
}

static void host_memory_has_no_device(void **state)
{
    struct fixture *f = *state;

    assert_null(dlr_device_of(host));
    assert_null(dlr_device_of(f));
    assert_string_equal(dlr_device_of((void *)(uintptr_t)(big + BIG - 1))->name,
                        "CUDA");
}

static void a_snapshot_takes_both_memories(void **state)
{
    struct fixture *f = *state;

    begin(f);
    assert_int_equal(finish(f), 0);
    assert_snapshot_of_ones(f);
}

static void copies_wait_for_the_stream_and_the_stream_for_the_copies(void **state)
{
    struct fixture *f = *state;

    memset(fake.look(big), 9, BIG);
    fake.gate(f->stream); /* a long computation that ends in the state to be saved */
    fake.fill(f->stream, big, 1, BIG);
    begin(f);
    fake.open_gate();
    hold(f);
    fake.fill(f->stream, big, 2, BIG); /* the update */
    fake.fill(f->stream, small, 2, SMALL);
    assert_int_equal(finish(f), 0);
    assert_snapshot_of_ones(f);
    fake.stream_destroy(f->stream); /* after all that was put on it */
    assert_int_equal(fake.stream_create(&f->stream, 0), CUDA_SUCCESS);
    assert_int_equal(((unsigned char *)fake.look(big))[BIG - 1], 2);
}

static void a_given_up_snapshot_releases_the_stream(void **state)
{
    struct fixture *f = *state;

    fake.gate(f->stream);
    begin(f);
    atomic_store(&f->deadline_ns, dlr_now_ns());
    fake.open_gate();
    hold(f);
    fake.fill(f->stream, big, 2, BIG);
    assert_int_equal(finish(f), -ETIMEDOUT);
    fake.stream_destroy(f->stream);
    assert_int_equal(fake.stream_create(&f->stream, 0), CUDA_SUCCESS);
    assert_int_equal(((unsigned char *)fake.look(big))[0], 2);
}

static void end_now(void *arg)
{
    struct fixture *f = arg;

    atomic_store(&f->deadline_ns, 1);
}

/* Who limits the copies is told when the stream has come to them. */
static void a_limit_can_begin_with_the_copies(void **state)
{
    struct fixture *f = *state;

    f->job.begun = end_now;
    fake.gate(f->stream);
    begin(f);
    assert_int_equal(atomic_load(&f->deadline_ns), 0);
    fake.open_gate();
    assert_int_equal(finish(f), -ETIMEDOUT);
    fake.stream_destroy(f->stream);
    assert_int_equal(fake.stream_create(&f->stream, 0), CUDA_SUCCESS);
}

static void a_failed_copy_is_told_and_the_next_snapshot_is_whole(void **state)
{
    struct fixture *f = *state;

    for (int n = 1; n <= 4; n++) { /* 3 pieces of "big", 1 of "small" */
        fake.fail_copy(n);
        begin(f);
        assert_int_equal(finish(f), -EIO);
    }
    fake.fail_copy(0);
    begin(f);
    assert_int_equal(finish(f), 0);
    assert_snapshot_of_ones(f);
}

/* "big" comes in three copies, "small" in one or by a kernel. */
static void a_bit_flipped_on_the_way_is_caught_and_its_region_named(void **state)
{
    struct fixture *f = *state;

    for (int n = 1; n <= 4; n++) {
        fake.spoil(n);
        f->spoilt = 99;
        begin(f);
        assert_int_equal(finish(f), -EBADMSG);
        assert_int_equal(f->spoilt, n <= 3 ? 0 : 2);
    }
    begin(f);
    assert_int_equal(finish(f), 0);
    assert_snapshot_of_ones(f);
}

/* Copies, or the kernel that moves "small". */
static void without_sums_on_the_device_nobody_sees_it(void **state)
{
    struct fixture *f = *state;

    for (int n = 1; n <= 4; n++) {
        fake.spoil(n);
        begin(f);
        assert_int_equal(finish(f), 0);
    }
}

/* "big" in three pieces, and "small" where no kernel moves it. */
static void copies(struct fixture *f, unsigned n)
{
    unsigned before = fake.copies();

    begin(f);
    assert_int_equal(finish(f), 0);
    assert_int_equal(fake.copies() - before, n);
    assert_snapshot_of_ones(f);
}

static void what_is_not_gathered_is_copied(void **state)
{
    copies(*state, 4);
}

static void what_is_gathered_is_not(void **state)
{
    copies(*state, 3);
}

static void all_threads_sum_what_has_come(void **state)
{
    struct fixture *f = *state;

    let_sums_go(THREADS);
    begin(f);
    assert_int_equal(finish(f), 0);
    assert_false(sums_late);
    assert_snapshot_of_ones(f);
}

static void CUDA_CB tell_reached(void *arg)
{
    sem_post(arg);
}

/* The slot is registered, so the device needs the host for nothing. */
static void the_stream_goes_on_before_copies_are_summed(void **state)
{
    static _Alignas(DLR_SLOT_PAGE) char last[DLR_SLOT_PAGE];
    struct fixture *f = *state;
    size_t bytes = dlr_align_up(dlr_slot_plan_data(f->plan), DLR_SLOT_PAGE);
    struct timespec until;
    sem_t reached;

    assert_int_equal(sem_init(&reached, 0, 0), 0);
    assert_int_equal(dlr_pin_new(f->ops, f->dev, &f->job.pin, NULL), 0);
    dlr_pin_want(f->job.pin, dlr_slot_data(f->slot, f->plan, 0), bytes);
    dlr_pin_want(f->job.pin, last, sizeof(last));
    fake.await_registered(bytes +
                          sizeof(last)); /* then what comes before it is ready */
    let_sums_go(THREADS + 1);            /* never */
    begin(f);
    hold(f);
    fake.fill(f->stream, big, 2, BIG); /* the update */
    fake.call(f->stream, tell_reached, &reached);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S / 2;
    if (sem_clockwait(&reached, CLOCK_MONOTONIC, &until) < 0)
        fail_msg("the stream waits for sums");
    let_sums_go(0);
    assert_int_equal(finish(f), 0);
    assert_false(sums_late);
    assert_snapshot_of_ones(f);
    f->job.pin = dlr_pin_free(f->job.pin);
    sem_destroy(&reached);
}

/* n regions of a size, none a multiple of anything: in one half there are more of them
 * than a list takes, then less.
 */
static void small_regions_do_not_cost_a_copy_each(void **state)
{
    static const struct {
        unsigned n, bytes, copies_max;
    } rows[] = {{3000, 997, 0}, {13600, 1501, 0}, {40000, 101, 40000 - 16000}};
    struct fixture *f = *state;

    for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        unsigned n = rows[k].n, bytes = rows[k].bytes, before;
        struct dlr_ckpt_region *regions = calloc(n, sizeof(*regions));
        bool *there = malloc(n);
        const void **from = calloc(n, sizeof(*from));
        const struct dlr_slot_owner owner = {1, 0, 1};
        char(*names)[12] = calloc(n, sizeof(*names));
        struct dlr_slot_plan *plan;
        struct dlr_slot_piece p;
        CUdeviceptr all;

        assert_int_equal(fake.alloc(&all, (size_t)n * bytes), CUDA_SUCCESS);
        for (size_t i = 0; i < (size_t)n * bytes; i++)
            ((unsigned char *)fake.look(all))[i] = (unsigned char)(i * 7 + i / 509);
        for (unsigned i = 0; i < n; i++) {
            dlr_format(names[i], sizeof(names[i]), "r%u", i);
            regions[i] = (struct dlr_ckpt_region){
                names[i], DLR_CKPT_LOCAL, "u8", 1, 1, {bytes}, {0}, {bytes}, {0}, NULL};
            from[i] = (void *)(uintptr_t)(all + (size_t)i * bytes);
            there[i] = true;
        }
        assert_int_equal(dlr_slot_plan_new(regions, n, &owner, &plan, NULL), 0);
        dlr_slot_plan_free(f->plan);
        dlr_slot_unmap(f->slot);
        f->plan = plan;
        assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &f->slot, NULL),
                         0);
        f->job.slot = f->slot;
        f->job.plan = plan;
        f->job.src = from;
        f->job.on_device = there;
        before = fake.copies();
        begin(f);
        assert_int_equal(finish(f), 0);
        assert_true(fake.copies() - before <= rows[k].copies_max);
        dlr_slot_seal(f->slot, plan);
        assert_int_equal(dlr_slot_verify(f->slot, NULL), 0);
        for (uint64_t at = 0;
             dlr_slot_plan_piece(plan, at, dlr_slot_plan_data(plan), &p);
             at = p.off + p.bytes)
            assert_memory_equal(
                dlr_slot_data(f->slot, plan, p.off),
                (char *)fake.look(all) + (size_t)p.region * bytes + p.at, p.bytes);
        assert_int_equal(fake.release(all), CUDA_SUCCESS);
        free(names);
        free(from);
        free(there);
        free(regions);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define N(f) cmocka_unit_test_setup_teardown(f, setup_threads, teardown)
#define S(f) cmocka_unit_test_setup_teardown(f, setup_sum, teardown)
#define G(f) cmocka_unit_test_setup_teardown(f, setup_gather, teardown)
#define B(f) cmocka_unit_test_setup_teardown(f, setup_both, teardown)
    const struct CMUnitTest tests[] = {
        T(host_memory_has_no_device),
        T(a_snapshot_takes_both_memories),
        T(copies_wait_for_the_stream_and_the_stream_for_the_copies),
        T(a_given_up_snapshot_releases_the_stream),
        T(a_limit_can_begin_with_the_copies),
        T(a_failed_copy_is_told_and_the_next_snapshot_is_whole),
        T(without_sums_on_the_device_nobody_sees_it),
        T(what_is_not_gathered_is_copied),
        S(what_is_not_gathered_is_copied),
        G(what_is_gathered_is_not),
        B(what_is_gathered_is_not),
        G(without_sums_on_the_device_nobody_sees_it),
        N(a_snapshot_takes_both_memories),
        N(a_failed_copy_is_told_and_the_next_snapshot_is_whole),
        N(a_given_up_snapshot_releases_the_stream),
        N(all_threads_sum_what_has_come),
        N(the_stream_goes_on_before_copies_are_summed),
        B(a_snapshot_takes_both_memories),
        B(copies_wait_for_the_stream_and_the_stream_for_the_copies),
        B(a_given_up_snapshot_releases_the_stream),
        S(a_bit_flipped_on_the_way_is_caught_and_its_region_named),
        B(a_bit_flipped_on_the_way_is_caught_and_its_region_named),
        G(small_regions_do_not_cost_a_copy_each),
        B(small_regions_do_not_cost_a_copy_each),
    };

    return cmocka_run_group_tests(tests, load_fake, NULL) +
           cmocka_run_group_tests_name("one hardware queue", tests, one_queue, NULL);
}

#endif
