/* SPDX-License-Identifier: Apache-2.0 */
/* What a test tells the stand-in for the CUDA driver (tests/fake_cuda.c) beside the driver's
 * own calls.
 */
#ifndef DLR_TESTS_FAKE_CUDA_H
#define DLR_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* "Device" memory: the address faults when the host touches it. */
CUresult fake_cuda_alloc(CUdeviceptr *ret, size_t bytes);
/* Where the host of the test finds the same bytes. */
void *fake_cuda_look(CUdeviceptr ptr);
/* A kernel that takes until fake_cuda_open(); one that fills memory. */
void fake_cuda_gate(CUstream stream);
void fake_cuda_open_gate(void);
void fake_cuda_fill(CUstream stream, CUdeviceptr ptr, unsigned char value,
                    size_t bytes);
/* A bit flips on the way of the n-th copy to the host from now on, or kernel that writes there. */
void fake_cuda_spoil(int n);
/* Copies to the host so far. */
unsigned fake_cuda_copies(void);
/* Makes the n-th copy from now on fail (1: the next). */
void fake_cuda_fail_copy(int n);

/* Copies to the host take until they are let go. Waits until stream is held by a value in memory.
 */
void fake_cuda_hold_copies(bool hold);
void fake_cuda_await_held(CUstream stream);
/* The device's clock: events that are reached from now on say that it was so late. */
void fake_cuda_clock(int64_t ns);
/* The program has pinned this host memory; NULL: none. */
void fake_cuda_pinned(const void *from, size_t bytes);

#endif
