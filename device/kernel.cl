/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, as PTX: `make ptx` makes ptx.c of this. */
#include "device/kernel.h"

__kernel void dlr_sum(__global const struct dlr_kernel_piece *list, uint n, uint blocks,
                      __global const uint *table, __global uint *sums)
{
    uint block = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
                 __nvvm_read_ptx_sreg_tid_x();

    if (block < blocks)
        dlr_kernel_sum(list, n, table, sums, block);
}

__kernel void dlr_move(__global const struct dlr_kernel_piece *list, uint n,
                       __global uchar *to)
{
    dlr_kernel_move(list, n, to, __nvvm_read_ptx_sreg_ctaid_x(),
                    __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_ntid_x());
}
