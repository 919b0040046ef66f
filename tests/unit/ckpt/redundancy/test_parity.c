/* SPDX-License-Identifier: Apache-2.0 */
/* Every loss that a code promises to survive, for every code up to 8 + 3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/redundancy/parity.h"

#define N_MAX 8u
#define M_MAX 3u
#define BYTES 777u /* the longest; odd, and more than any vector */

struct set {
    unsigned n, m;
    size_t bytes[N_MAX];
    unsigned char shard[N_MAX + M_MAX][BYTES];
};

/* Shards of different lengths, one of them empty; what is behind their end is zero. */
static void make_set(struct set *s, unsigned n, unsigned m)
{
    unsigned char coef[N_MAX];

    memset(s, 0, sizeof(*s));
    s->n = n;
    s->m = m;
    for (unsigned i = 0; i < n; i++) {
        s->bytes[i] = i == 0 ? BYTES : i == 1 ? 0 : 1 + (size_t)rand() % BYTES;
        for (size_t b = 0; b < s->bytes[i]; b++)
            s->shard[i][b] = (unsigned char)rand();
    }
    for (unsigned j = n; j < n + m; j++) {
        assert_int_equal(dlr_parity_row(n, m, j, coef), 0);
        for (unsigned i = 0; i < n; i++)
            dlr_parity_add(coef[i], s->shard[i], s->shard[j], s->bytes[i]);
    }
}

/* The lost ones of mask, each from the first n that are left. */
static void rebuild(const struct set *s, unsigned mask)
{
    unsigned have[N_MAX + M_MAX], count = 0;

    for (unsigned i = 0; i < s->n + s->m; i++)
        if (!(mask >> i & 1))
            have[count++] = i;
    for (unsigned lost = 0; lost < s->n + s->m; lost++) {
        unsigned char sum[BYTES] = {0}, coef[N_MAX];

        if (!(mask >> lost & 1))
            continue;
        assert_int_equal(dlr_parity_rebuild(s->n, s->m, lost, have, coef), 0);
        for (unsigned i = s->n; i-- > 0;)
            dlr_parity_add(coef[i], s->shard[have[i]], sum,
                           have[i] < s->n ? s->bytes[have[i]] : BYTES);
        if (memcmp(sum, s->shard[lost], BYTES) != 0)
            fail_msg("%u+%u, lost %#x: shard %u is wrong", s->n, s->m, mask, lost);
    }
}

static void every_loss_of_at_most_m_gives_the_same_bytes_back(void **state)
{
    static struct set s;
    unsigned tried = 0;

    srand(3);
    for (unsigned n = 1; n <= N_MAX; n++)
        for (unsigned m = 1; m <= M_MAX; m++) {
            make_set(&s, n, m);
            for (unsigned mask = 1; mask < 1u << (n + m); mask++)
                if ((unsigned)__builtin_popcount(mask) <= m) {
                    rebuild(&s, mask);
                    tried++;
                }
        }
    print_message("%u losses\n", tried);
}

static void the_largest_code_works(void **state)
{
    unsigned n = DLR_PARITY_DATA_MAX, m = DLR_PARITY_ROWS_MAX;
    unsigned char data[DLR_PARITY_DATA_MAX], sums[DLR_PARITY_ROWS_MAX] = {0}, coef[32];
    unsigned have[DLR_PARITY_DATA_MAX];

    for (unsigned i = 0; i < n; i++)
        data[i] = (unsigned char)(7 * i + 1);
    for (unsigned j = 0; j < m; j++) {
        assert_int_equal(dlr_parity_row(n, m, n + j, coef), 0);
        for (unsigned i = 0; i < n; i++)
            dlr_parity_add(coef[i], &data[i], &sums[j], 1);
    }
    for (unsigned i = 0; i < n; i++)
        have[i] = i + m; /* the first m are lost */
    for (unsigned lost = 0; lost < m; lost++) {
        unsigned char sum = 0;

        assert_int_equal(dlr_parity_rebuild(n, m, lost, have, coef), 0);
        for (unsigned i = 0; i < n; i++)
            dlr_parity_add(coef[i], have[i] < n ? &data[have[i]] : &sums[have[i] - n],
                           &sum, 1);
        assert_int_equal(sum, data[lost]);
    }
}

static void one_parity_shard_is_the_xor(void **state)
{
    unsigned char coef[4];

    assert_int_equal(dlr_parity_row(4, 1, 4, coef), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(coef[i], 1);
}

static void what_cannot_be_is_refused(void **state)
{
    unsigned char coef[DLR_PARITY_DATA_MAX];
    const unsigned twice[2] = {1, 1}, itself[2] = {0, 2}, far[2] = {1, 4};

    assert_int_not_equal(dlr_parity_row(0, 1, 0, coef), 0);
    assert_int_not_equal(dlr_parity_row(2, 0, 0, coef), 0);
    assert_int_not_equal(dlr_parity_row(DLR_PARITY_DATA_MAX + 1, 1, 0, coef), 0);
    assert_int_not_equal(dlr_parity_row(2, DLR_PARITY_ROWS_MAX + 1, 0, coef), 0);
    assert_int_not_equal(dlr_parity_row(2, 2, 4, coef), 0);
    assert_int_not_equal(dlr_parity_rebuild(2, 2, 0, twice, coef), 0);
    assert_int_not_equal(dlr_parity_rebuild(2, 2, 0, itself, coef), 0);
    assert_int_not_equal(dlr_parity_rebuild(2, 2, 0, far, coef), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_of_at_most_m_gives_the_same_bytes_back),
        cmocka_unit_test(the_largest_code_works),
        cmocka_unit_test(one_parity_shard_is_the_xor),
        cmocka_unit_test(what_cannot_be_is_refused),
    };

    return cmocka_run_group_tests_name("parity", tests, NULL, NULL);
}
