/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLR_TESTS_GPU_GPU_CHECK_H
#define DLR_TESTS_GPU_GPU_CHECK_H

/* Snapshots of device memory on a real GPU, one line for each thing that holds. The first that does
 * not ends the program. After gpu_find().
 */
void gpu_check(void);

/* How fast they leave it, beside the fastest copy into pinned memory. After gpu_find(). */
void gpu_bench(void);

/* That a fence does not make the host wait: the last line of gpu_check(). */
void gpu_check_fence(void);

#endif
