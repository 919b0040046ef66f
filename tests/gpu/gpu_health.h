/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLR_TESTS_GPU_GPU_HEALTH_H
#define DLR_TESTS_GPU_GPU_HEALTH_H

/* The checks of GPUs on this machine's, a line for each: verdict, seconds, reason. 0; 1
 * when one fails, or is not judged though there is a GPU.
 */
int gpu_health(void);

/* What NCCL's all-reduce over this machine's GPUs carries, by its own measure (busbw of
 * nccl-tests). 0, also where there is no NCCL or only one GPU, with a line "skipped:";
 * 1 when it fails.
 */
int gpu_nccl(void);

#endif
