/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/redundancy/parity.h"

#include <errno.h>
#include <isa-l/erasure_code.h>
#include <string.h>

#define SHARDS_MAX (DLR_PARITY_DATA_MAX + DLR_PARITY_ROWS_MAX)
#define TABLE 32         /* bytes that ISA-L makes of a coefficient */
#define PIECE (1u << 30) /* its lengths are int */

static int make_matrix(unsigned n, unsigned m, unsigned char *matrix)
{
    if (!n || !m || n > DLR_PARITY_DATA_MAX || m > DLR_PARITY_ROWS_MAX)
        return -EINVAL;
    gf_gen_cauchy1_matrix(matrix, (int)(n + m), (int)n);
    if (m == 1)
        memset(matrix + n * n, 1, n);
    return 0;
}

int dlr_parity_row(unsigned n, unsigned m, unsigned shard, unsigned char *ret_coef)
{
    unsigned char matrix[SHARDS_MAX * DLR_PARITY_DATA_MAX];

    if (make_matrix(n, m, matrix) < 0 || shard >= n + m)
        return -EINVAL;
    memcpy(ret_coef, matrix + shard * n, n);
    return 0;
}

/* With H the rows of what is there, data = H^-1 * have, and the lost one is its own row
 * times that. Any n rows of the matrix can be inverted.
 */
int dlr_parity_rebuild(unsigned n, unsigned m, unsigned lost, const unsigned *have,
                       unsigned char *ret_coef)
{
    unsigned char matrix[SHARDS_MAX * DLR_PARITY_DATA_MAX];
    unsigned char rows[DLR_PARITY_DATA_MAX * DLR_PARITY_DATA_MAX];
    unsigned char inverse[DLR_PARITY_DATA_MAX * DLR_PARITY_DATA_MAX];

    if (make_matrix(n, m, matrix) < 0 || lost >= n + m)
        return -EINVAL;
    for (unsigned i = 0; i < n; i++) {
        if (have[i] >= n + m || have[i] == lost)
            return -EINVAL;
        memcpy(rows + i * n, matrix + have[i] * n, n);
    }
    if (gf_invert_matrix(rows, inverse, (int)n) != 0)
        return -EINVAL; /* one of them is named twice */
    for (unsigned i = 0; i < n; i++) {
        ret_coef[i] = 0;
        for (unsigned k = 0; k < n; k++)
            ret_coef[i] ^= gf_mul(matrix[lost * n + k], inverse[k * n + i]);
    }
    return 0;
}

void dlr_parity_add(unsigned char coef, const void *shard, void *sum, size_t bytes)
{
    unsigned char table[TABLE];

    if (coef == 0)
        return;
    ec_init_tables(1, 1, &coef, table);
    for (size_t at = 0; at < bytes; at += PIECE) {
        unsigned char *to = (unsigned char *)sum + at;
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;

        ec_encode_data_update((int)n, 1, 1, 0, table, (unsigned char *)shard + at, &to);
    }
}
