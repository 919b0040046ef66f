/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices of floats in row order, one thread, blocked for the caches. The
 * order of every sum depends on the sizes alone.
 */
#ifndef DLR_EXAMPLES_MATMUL_H
#define DLR_EXAMPLES_MATMUL_H

#include <stddef.h>

struct matmul; /* the blocks being worked on: one for each thread */

/* NULL: no memory. matmul_free(). */
struct matmul *matmul_new(void);

/* Accepts NULL. */
void matmul_free(struct matmul *mm);

/* c[m][n] = a[m][k] . b[k][n] */
void matmul(struct matmul *mm, float *c, const float *a, const float *b, size_t m,
            size_t n, size_t k);

/* c[m][n] = transposed(a[k][m]) . b[k][n] */
void matmul_turned(struct matmul *mm, float *c, const float *a, const float *b,
                   size_t m, size_t n, size_t k);

#endif
