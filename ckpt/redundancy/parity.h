/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of parity: n shards of data and m of parity, of which any n give all
 * the others back. Bytes are elements of GF(256) (polynomial 0x11d, as ISA-L has it); a
 * parity shard is a sum of multiples of the data shards, row by row of a Cauchy matrix,
 * and with m = 1 their XOR. A shorter shard counts as if zeros followed. Pure: no I/O,
 * no state.
 */
#ifndef DLR_CKPT_REDUNDANCY_PARITY_H
#define DLR_CKPT_REDUNDANCY_PARITY_H

#include <stddef.h>

#include "common/base/err.h"

#define DLR_PARITY_DATA_MAX 32u
#define DLR_PARITY_ROWS_MAX 4u

/* Shards are numbered: 0 to n-1 the data, n to n+m-1 the parity. */

/* What each of the n data shards is multiplied with in shard number shard. -EINVAL. */
int dlr_parity_row(unsigned n, unsigned m, unsigned shard, unsigned char *ret_coef);

/* What each of the n shards have[] (all different, none of them lost) is multiplied
 * with in the sum that is shard number lost. -EINVAL; never fails otherwise.
 */
int dlr_parity_rebuild(unsigned n, unsigned m, unsigned lost, const unsigned *have,
                       unsigned char *ret_coef);

/* sum[i] += coef * shard[i]. Begin with zeros; the order of the shards does not matter.
 */
void dlr_parity_add(unsigned char coef, const void *shard, void *sum, size_t bytes);

#endif
