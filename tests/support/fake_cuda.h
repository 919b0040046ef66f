/* SPDX-License-Identifier: Apache-2.0 */
/* What a test tells the stand-in for the CUDA driver (tests/support/fake_cuda.c) beside
 * the driver's own calls.
 */
#ifndef DLR_TESTS_SUPPORT_FAKE_CUDA_H
#define DLR_TESTS_SUPPORT_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <stdbool.h>

/* stream is captured into a graph from now on; what it is given then is not done. */
void fake_cuda_capture(CUstream stream, bool on);
/* What captured streams were given; calls that would have broken off a capture, of
 * threads that did not ask for leave.
 */
unsigned fake_cuda_kept(void);
unsigned fake_cuda_broken(void);
/* How many hardware queues the streams share; 0: as many as by default. */
void fake_cuda_queues(unsigned n);
/* Memory that is allocated from now on is on this device (0, 1). */
enum fake_context {
    FAKE_CONTEXT,         /* its address tells a context */
    FAKE_CONTEXT_NONE,    /* tells none */
    FAKE_CONTEXT_REFUSED, /* is not asked for it with success */
};
void fake_cuda_place(int device, enum fake_context context);
/* How often the devices' primary contexts are retained. */
unsigned fake_cuda_retained(void);
/* "Device" memory: the address faults when the host touches it. */
CUresult fake_cuda_alloc(CUdeviceptr *ret, size_t bytes);
/* Where the host of the test finds the same bytes. */
void *fake_cuda_look(CUdeviceptr ptr);
/* A kernel that takes until fake_cuda_open(); one that fills memory. */
void fake_cuda_gate(CUstream stream);
void fake_cuda_open_gate(void);
/* One that takes until a stream is made to wait for an event: cuStreamWaitEvent(). */
void fake_cuda_gate_waited(CUstream stream);
void fake_cuda_fill(CUstream stream, CUdeviceptr ptr, unsigned char value,
                    size_t bytes);
/* A bit flips on the way of the n-th copy to the host from now on, or kernel that
 * writes there.
 */
void fake_cuda_spoil(int n);
/* Copies to the host so far. */
unsigned fake_cuda_copies(void);
/* Of them straight into memory that the program registered, kernels that move there
 * included.
 */
unsigned fake_cuda_straight(void);
/* Times memory was freed, or taken back after it was unmapped or while a copy to it was
 * under way.
 */
unsigned fake_cuda_torn(void);
/* Bytes that are registered now; waits until there are as many. */
size_t fake_cuda_registered(void);
void fake_cuda_await_registered(size_t bytes);
/* Registering takes until it is let go; waits until one has begun. */
void fake_cuda_hold_register(bool hold);
void fake_cuda_await_register(void);
/* Makes the n-th registration from now on fail. */
void fake_cuda_fail_register(int n);
/* Makes the n-th copy from now on fail (1: the next). */
void fake_cuda_fail_copy(int n);

/* Copies to the host take until they are let go. Waits until stream is held by an
 * event.
 */
void fake_cuda_hold_copies(bool hold);
void fake_cuda_await_held(CUstream stream);
/* The device's clock: events that are reached from now on say that it was so late. */
void fake_cuda_clock(int64_t ns);
/* The program has pinned this host memory; NULL: none. */
void fake_cuda_pinned(const void *from, size_t bytes);

#endif
