/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_crc32c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/base/copy_crc.h"
#include "ckpt/base/crc32c.h"
#include "ckpt/client/copy.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"

#define ROOM 20000
#define GUARD 0xa5

uint32_t __real_dlr_crc32c(uint32_t crc, const void *buf, size_t size);
uint32_t __wrap_dlr_crc32c(uint32_t crc, const void *buf, size_t size);

/* A thread of the program that writes its memory whenever a part of it has just been
 * summed.
 */
static unsigned char *writer;
static size_t written;

uint32_t __wrap_dlr_crc32c(uint32_t crc, const void *buf, size_t size)
{
    uint32_t sum = __real_dlr_crc32c(crc, buf, size);

    for (size_t i = 0; i < written; i++)
        writer[i]++;
    return sum;
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        p[i] = (unsigned char)(seed >> 16);
    }
}

/* Every alignment of both sides, and lengths around those of lines and blocks. */
static void a_copy_is_whole_summed_and_stays_in_its_bounds(void **state)
{
    static const size_t sizes[] = {0,    1,    63,   64,   65,    1023,
                                   1024, 1025, 4095, 4096, 4097,  4160,
                                   8191, 8192, 8255, 9000, 12288, 16411};
    static _Alignas(64) unsigned char src[ROOM], dst[ROOM];

    fill(src, sizeof(src), 7);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
        for (size_t a = 0; a < 64; a++) {
            size_t b = (a * 29 + k) % 64, n = sizes[k];

            memset(dst, GUARD, sizeof(dst));
            assert_int_equal(dlr_copy_crc(dst + 64 + a, src + b, n, 0x1234),
                             dlr_crc32c(0x1234, src + b, n));
            assert_memory_equal(dst + 64 + a, src + b, n);
            for (size_t i = 0; i < 64 + a; i++)
                assert_int_equal(dst[i], GUARD);
            for (size_t i = 64 + a + n; i < 64 + a + n + 200; i++)
                assert_int_equal(dst[i], GUARD);
        }
}

/* Whatever of it is kept, a restore takes what has its sum. */
static void a_sum_is_of_what_was_written_though_the_source_changes(void **state)
{
    static const size_t sizes[] = {1, 64, 1000, 1024, 4096, 4100, 12345};
    static _Alignas(64) unsigned char src[ROOM], dst[ROOM];

    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
        for (size_t a = 0; a < 64; a += 7) {
            size_t n = sizes[k];
            uint32_t sum;

            fill(src, sizeof(src), 9);
            writer = src;
            written = sizeof(src);
            sum = dlr_copy_crc(dst + a, src + 3, n, 0x77);
            written = 0;
            assert_int_equal(sum, dlr_crc32c(0x77, dst + a, n));
        }
}

/* Regions of sizes that leave gaps, over more than one block, by one and by three
 * threads.
 */
static void a_snapshot_holds_its_regions_with_zeros_between(void **state)
{
    static const uint64_t sizes[] = {1, 1500000, 63, 0, 4097, 700001, 65, 1u << 20};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    static const struct dlr_slot_owner owner = {7, 0, 1};
    static const char *const names[N] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static const atomic_bool stop;
    static const _Atomic int64_t deadline;
    struct dlr_ckpt_region regions[N] = {0};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    const void *src[N];

    for (unsigned i = 0; i < N; i++) {
        unsigned char *p = malloc(sizes[i] + 1);

        fill(p, sizes[i], i);
        src[i] = p;
        regions[i] = (struct dlr_ckpt_region){.name = names[i],
                                              .dtype = "u8",
                                              .item_size = 1,
                                              .ndim = 1,
                                              .global_shape = {sizes[i]},
                                              .local_shape = {sizes[i]}};
    }
    assert_int_equal(dlr_slot_plan_new(regions, N, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        const struct dlr_copy_job job = {.slot = slot,
                                         .plan = plan,
                                         .src = src,
                                         .stop = &stop,
                                         .deadline_ns = &deadline};
        struct dlr_slot_piece p;
        struct dlr_copy *copy;
        uint64_t at = 0;

        assert_int_equal(dlr_copy_new(threads, &copy, NULL), 0);
        assert_int_equal(
            dlr_slot_begin(slot, plan, (struct dlr_version){1, threads}, NULL), 0);
        memset(dlr_slot_data(slot, plan, 0), GUARD, dlr_slot_plan_data(plan));
        assert_int_equal(dlr_copy_run(copy, &job), 0);
        dlr_slot_seal(slot, plan);
        assert_int_equal(dlr_slot_verify(slot, NULL), 0);
        while (dlr_slot_plan_piece(plan, at, dlr_slot_plan_data(plan), &p)) {
            for (; at < p.off; at++)
                assert_int_equal(*(unsigned char *)dlr_slot_data(slot, plan, at), 0);
            assert_memory_equal(dlr_slot_data(slot, plan, p.off),
                                (const unsigned char *)src[p.region] + p.at, p.bytes);
            at = p.off + p.bytes;
        }
        dlr_copy_free(copy);
    }
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
    for (unsigned i = 0; i < N; i++)
        free((void *)src[i]);
}

/* A column of a matrix, larger than a block of the copy. */
static void a_views_slot_is_sound_though_its_memory_changes(void **state)
{
    enum { N = 30011, ROW = 3 };
    static const struct dlr_slot_owner owner = {7, 0, 1};
    static const atomic_bool stop;
    static const _Atomic int64_t deadline;
    static unsigned char matrix[N * ROW];
    struct dlr_strides column = {.run = 1, .ndim = 1, .len = {N}, .step = {ROW}};
    struct dlr_strides *views[] = {&column};
    const struct dlr_ckpt_region region = {.name = "column",
                                           .dtype = "u8",
                                           .item_size = 1,
                                           .ndim = 1,
                                           .global_shape = {N},
                                           .local_shape = {N}};
    const void *src[] = {matrix + 1};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    struct dlr_copy *copy;

    fill(matrix, sizeof(matrix), 5);
    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_copy_new(1, &copy, NULL), 0);
    for (uint64_t step = 1; step <= 2; step++) {
        const struct dlr_copy_job job = {
            slot, plan, src, views, .stop = &stop, .deadline_ns = &deadline};

        dlr_slot_begin(slot, plan, (struct dlr_version){1, step}, NULL);
        writer = matrix;
        written = step == 1 ? 0 : sizeof(matrix);
        assert_int_equal(dlr_copy_run(copy, &job), 0);
        written = 0;
        dlr_slot_seal(slot, plan);
        assert_int_equal(dlr_slot_verify(slot, NULL), 0);
        for (size_t i = 0; step == 1 && i < N; i++)
            assert_int_equal(((unsigned char *)dlr_slot_data(slot, plan, 0))[i],
                             matrix[i * ROW + 1]);
    }
    dlr_copy_free(copy);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_whole_summed_and_stays_in_its_bounds),
        cmocka_unit_test(a_sum_is_of_what_was_written_though_the_source_changes),
        cmocka_unit_test(a_views_slot_is_sound_though_its_memory_changes),
        cmocka_unit_test(a_snapshot_holds_its_regions_with_zeros_between),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
