/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for the CUDA driver (tests/support/fake_cuda.c) as a test calls it: it
 * is loaded as a program's driver is, so it is not linked.
 */
#ifndef DLR_TESTS_SUPPORT_DEVICE_RIG_H
#define DLR_TESTS_SUPPORT_DEVICE_RIG_H

#ifdef DLR_HAVE_CUDA

#include "tests/support/fake_cuda.h"

extern struct device_calls {
    __typeof__(&fake_cuda_alloc) alloc;
    __typeof__(&fake_cuda_place) place;
    __typeof__(&fake_cuda_queues) queues;
    __typeof__(&fake_cuda_retained) retained;
    __typeof__(&fake_cuda_look) look;
    __typeof__(&fake_cuda_gate) gate;
    __typeof__(&fake_cuda_open_gate) open_gate;
    __typeof__(&fake_cuda_gate_waited) gate_waited;
    __typeof__(&fake_cuda_fill) fill;
    __typeof__(&fake_cuda_fail_copy) fail_copy;
    __typeof__(&fake_cuda_spoil) spoil;
    __typeof__(&fake_cuda_copies) copies;
    __typeof__(&fake_cuda_pinned) pinned;
    __typeof__(&fake_cuda_hold_copies) hold_copies;
    __typeof__(&fake_cuda_await_held) await_held;
    __typeof__(&fake_cuda_clock) clock;
    __typeof__(&fake_cuda_straight) straight;
    __typeof__(&fake_cuda_torn) torn;
    __typeof__(&fake_cuda_registered) registered;
    __typeof__(&fake_cuda_await_registered) await_registered;
    __typeof__(&fake_cuda_hold_register) hold_register;
    __typeof__(&fake_cuda_await_register) await_register;
    __typeof__(&fake_cuda_fail_register) fail_register;
    __typeof__(&fake_cuda_capture) capture;
    __typeof__(&fake_cuda_kept) kept;
    __typeof__(&fake_cuda_broken) broken;
    __typeof__(&cuMemFree) release;
    __typeof__(&cuLaunchHostFunc) call;
    __typeof__(&cuCtxSetCurrent) set_current;
    __typeof__(&cuDevicePrimaryCtxRetain) primary;
    __typeof__(&cuStreamCreate) stream_create;
    __typeof__(&cuStreamDestroy) stream_destroy;
} fake;

/* A group's setup: the program has a driver from now on, and the thread the first
 * device's context.
 */
int device_load(void **state);
/* The thread's context is this device's from now on. */
void device_current(int device);

#else

/* The main of a test that needs the headers: says that it is skipped, and why. */
int device_skip(void);

#endif
#endif
