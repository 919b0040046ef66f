/* SPDX-License-Identifier: Apache-2.0 */
/* What the matrix multiply's kernel and its host agree upon. */
#ifndef DLR_DEVICE_SPEED_KERNEL_H
#define DLR_DEVICE_SPEED_KERNEL_H

#define DLR_SPEED_TILE 16u /* threads of a group, each way */

#ifndef __OPENCL_C_VERSION__
extern const char dlr_speed_ptx[]; /* checked in as text (make ptx) */
#endif

#endif
