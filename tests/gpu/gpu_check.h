/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLR_TESTS_GPU_GPU_CHECK_H
#define DLR_TESTS_GPU_GPU_CHECK_H

#include <stdbool.h>

/* Snapshots of device memory on a real GPU, one line for each thing that holds. The
 * first that does not ends the program. After gpu_find().
 */
void gpu_check(void);

/* How fast they leave it, beside the fastest copy into pinned memory. After gpu_find().
 */
void gpu_bench(void);

/* The bytes that come back are those of begin, whatever comes after the fence; whether
 * the host waits in it for the device is told, and with few small tensors must not be:
 * the last lines of gpu_check().
 */
void gpu_check_fence(unsigned smalls, bool must_go_on);

#endif
