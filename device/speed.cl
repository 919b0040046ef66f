/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix multiply that shows whether a GPU computes as fast as its neighbours, and
 * the same twice: `make ptx` makes speed_ptx.c of this. c = a * b, each of n x n, n a
 * multiple of the side of a group, which is DLR_SPEED_TILE x DLR_SPEED_TILE threads.
 */
#include "device/speed_kernel.h"

__kernel void dlr_multiply(__global const float *a, __global const float *b,
                           __global float *c, uint n)
{
    __local float tile_a[DLR_SPEED_TILE][DLR_SPEED_TILE];
    __local float tile_b[DLR_SPEED_TILE][DLR_SPEED_TILE];
    uint x = __nvvm_read_ptx_sreg_tid_x(), y = __nvvm_read_ptx_sreg_tid_y();
    uint column = __nvvm_read_ptx_sreg_ctaid_x() * DLR_SPEED_TILE + x;
    uint row = __nvvm_read_ptx_sreg_ctaid_y() * DLR_SPEED_TILE + y;
    float sum = 0;

    for (uint at = 0; at < n; at += DLR_SPEED_TILE) {
        tile_a[y][x] = a[row * n + at + x];
        tile_b[y][x] = b[(at + y) * n + column];
        __syncthreads();
        for (uint k = 0; k < DLR_SPEED_TILE; k++)
            sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
