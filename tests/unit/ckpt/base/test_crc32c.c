/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of parts put together, and those that a device makes: its code, run here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "device/kernel.h"

#define N 4096u

static unsigned char data[N + 64];
static uint32_t table[DLR_KERNEL_TABLE];

static int fill(void **state)
{
    uint32_t seed = 1;

    for (unsigned i = 0; i < sizeof(data); i++) {
        seed = seed * 1103515245u + 12345u;
        data[i] = (unsigned char)(seed >> 16);
    }
    dlr_crc32c_table(table);
    return 0;
}

static void the_sum_is_that_of_the_standard(void **state)
{
    assert_int_equal(dlr_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(dlr_kernel_crc((const uint8_t *)"123456789", 9, table),
                     0xe3069283u);
}

static void the_device_sums_every_length_at_every_alignment_alike(void **state)
{
    for (uint32_t n = 0; n <= N; n++)
        assert_int_equal(dlr_kernel_crc(data + n % 8, n, table),
                         dlr_crc32c(0, data + n % 8, n));
}

static void sums_of_parts_make_the_sum_of_the_whole(void **state)
{
    for (uint32_t n = 0; n <= N; n++) {
        uint32_t a = n * 31 % (n + 1);

        assert_int_equal(dlr_crc32c_join(dlr_crc32c(0, data, a),
                                         dlr_crc32c(0, data + a, n - a),
                                         dlr_crc32c_op(n - a)),
                         dlr_crc32c(0, data, n));
    }
}

/* Zeros beyond what memory holds: twice a half is the whole. */
static void lengths_beyond_four_gigabytes_are_right(void **state)
{
    for (unsigned i = 10; i < 63; i++) {
        uint32_t half = dlr_crc32c_op(UINT64_C(1) << i);

        assert_int_equal(dlr_crc32c_op(UINT64_C(2) << i),
                         dlr_crc32c_join(half, 0, half));
    }
}

/* Blocks of a list of pieces: each thread finds its own, what is moved lands where it
 * should.
 */
static void blocks_find_their_piece_and_move_it_whole(void **state)
{
    static unsigned char big[3 * DLR_KERNEL_BLOCK + 11], out[5 * DLR_KERNEL_BLOCK];
    static const uint32_t sizes[] = {5, 3 * DLR_KERNEL_BLOCK + 11, 4096, 1, 1000};
    enum { PIECES = 5 };
    struct dlr_kernel_piece list[PIECES];
    uint32_t blocks = 0, at = 1, sums[16];

    for (unsigned i = 0; i < sizeof(big); i++)
        big[i] = data[i % N] ^ (unsigned char)(i / N);
    for (unsigned i = 0; i < PIECES; i++) {
        const unsigned char *src = sizes[i] > N ? big : data + i;

        list[i] = (struct dlr_kernel_piece){(uint64_t)(uintptr_t)src, sizes[i], at,
                                            blocks, i != 2};
        at += sizes[i] + i;
        blocks += (sizes[i] + DLR_KERNEL_BLOCK - 1) / DLR_KERNEL_BLOCK;
    }
    for (uint32_t block = 0; block < blocks; block++) {
        dlr_kernel_sum(list, PIECES, table, sums, block);
        for (uint32_t t = 0; t < 7; t++)
            dlr_kernel_move(list, PIECES, out, block, t, 7);
    }
    for (unsigned i = 0; i < PIECES; i++) {
        const unsigned char *src = (const unsigned char *)(uintptr_t)list[i].src;
        uint32_t first = sizes[i] < DLR_KERNEL_BLOCK ? sizes[i] : DLR_KERNEL_BLOCK;

        assert_int_equal(sums[list[i].first], dlr_crc32c(0, src, first));
        for (uint32_t k = 0; k < sizes[i]; k++)
            assert_int_equal(out[list[i].at + k], list[i].moved ? src[k] : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_the_standard),
        cmocka_unit_test(the_device_sums_every_length_at_every_alignment_alike),
        cmocka_unit_test(sums_of_parts_make_the_sum_of_the_whole),
        cmocka_unit_test(lengths_beyond_four_gigabytes_are_right),
        cmocka_unit_test(blocks_find_their_piece_and_move_it_whole),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
