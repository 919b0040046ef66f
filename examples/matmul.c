/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/matmul.h"

#include <stdlib.h>
#include <string.h>

/* A tile of TILE_M x TILE_N sums stays in registers, a block of a (64 KiB) in the
 * second level of cache, one panel of b (8 KiB) in the first.
 */
enum { TILE_M = 4, TILE_N = 8, BLOCK_M = 64, BLOCK_N = 256, BLOCK_K = 256, LANES = 4 };

/* Four floats, what every x86-64 and aarch64 has in a register: with plain arrays a
 * compiler does not reliably keep the sums there.
 */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));

struct matmul {
    float a[BLOCK_M * BLOCK_K]; /* strips of TILE_M rows: [strip][k][TILE_M] */
    float b[BLOCK_N * BLOCK_K]; /* panels of TILE_N columns: [panel][k][TILE_N] */
};

struct matmul *matmul_new(void)
{
    void *mm = NULL;

    return posix_memalign(&mm, 64, sizeof(struct matmul)) == 0 ? mm : NULL;
}

void matmul_free(struct matmul *mm)
{
    free(mm);
}

/* Copies rows x k items, item (r, i) of which is at from[r * row_step + i * k_step],
 * into strips of `tile` rows each; what is missing in the last strip is zero.
 */
static void pack(float *to, const float *from, size_t row_step, size_t k_step,
                 size_t rows, size_t k, size_t tile)
{
    for (size_t r = 0; r < rows; r += tile) {
        size_t have = rows - r < tile ? rows - r : tile;

        for (size_t i = 0; i < k; i++, to += tile)
            for (size_t t = 0; t < tile; t++)
                to[t] = t < have ? from[(r + t) * row_step + i * k_step] : 0.0f;
    }
}

/* tile = strip of a . panel of b, the sum over k in rising order */
static void multiply_tile(float *restrict tile, const float *restrict a,
                          const float *restrict b, size_t k)
{
    lanes sum[TILE_M][2] = {{{0}}};

    for (size_t i = 0; i < k; i++, a += TILE_M, b += TILE_N) {
        const lanes *row = (const lanes *)b;

        for (size_t r = 0; r < TILE_M; r++) {
            sum[r][0] += a[r] * row[0];
            sum[r][1] += a[r] * row[1];
        }
    }
    memcpy(tile, sum, sizeof(sum));
}

/* c += the packed blocks' product, rows x columns of it */
static void multiply_block(const struct matmul *mm, float *c, size_t step, size_t rows,
                           size_t columns, size_t k)
{
    float tile[TILE_M * TILE_N] __attribute__((aligned(64)));

    for (size_t j = 0; j < columns; j += TILE_N)
        for (size_t i = 0; i < rows; i += TILE_M) {
            size_t high = rows - i < TILE_M ? rows - i : TILE_M;
            size_t wide = columns - j < TILE_N ? columns - j : TILE_N;

            multiply_tile(tile, mm->a + i * k, mm->b + j * k, k);
            for (size_t r = 0; r < high; r++)
                for (size_t t = 0; t < wide; t++)
                    c[(i + r) * step + j + t] += tile[r * TILE_N + t];
        }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void multiply(struct matmul *mm, float *c, const float *a, size_t row_step,
                     size_t k_step, const float *b, size_t m, size_t n, size_t k)
{
    memset(c, 0, m * n * sizeof(float));
    for (size_t k0 = 0; k0 < k; k0 += BLOCK_K) {
        size_t kn = least(k - k0, BLOCK_K);

        for (size_t n0 = 0; n0 < n; n0 += BLOCK_N) {
            size_t nn = least(n - n0, BLOCK_N);

            pack(mm->b, b + k0 * n + n0, 1, n, nn, kn, TILE_N);
            for (size_t m0 = 0; m0 < m; m0 += BLOCK_M) {
                size_t mn = least(m - m0, BLOCK_M);

                pack(mm->a, a + m0 * row_step + k0 * k_step, row_step, k_step, mn, kn,
                     TILE_M);
                multiply_block(mm, c + m0 * n + n0, n, mn, nn, kn);
            }
        }
    }
}

void matmul(struct matmul *mm, float *c, const float *a, const float *b, size_t m,
            size_t n, size_t k)
{
    multiply(mm, c, a, k, 1, b, m, n, k);
}

void matmul_turned(struct matmul *mm, float *c, const float *a, const float *b,
                   size_t m, size_t n, size_t k)
{
    multiply(mm, c, a, 1, m, b, m, n, k);
}
