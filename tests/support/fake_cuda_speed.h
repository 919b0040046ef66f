/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLR_TESTS_SUPPORT_FAKE_CUDA_SPEED_H
#define DLR_TESTS_SUPPORT_FAKE_CUDA_SPEED_H

#include <cuda.h>

/* The kernel's arguments, on the heap, for fake_multiply(), which frees them. */
void *fake_multiply_of(void **with);
void CUDA_CB fake_multiply(void *arg);

#endif
