/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU and a state on it, for tests/gpu/gpu.c: gpu_bytes, of which the last MiB is
 * named as a view, and gpu_smalls small tensors. Whatever fails ends the program with a
 * line on stderr.
 */
#ifndef DLR_TESTS_GPU_GPU_RIG_H
#define DLR_TESTS_GPU_GPU_RIG_H

#ifdef DLR_HAVE_CUDA

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "ckpt/ckpt.h"

#define GPU_SMALL 1504u
/* small tensors whose copies a stream takes ahead: device/cuda.c */
#define GPU_FEW 300u

#define GPU_FUNCTIONS(X)                                                               \
    X(cuInit)                                                                          \
    X(cuDeviceGet)                                                                     \
    X(cuDeviceGetName)                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                        \
    X(cuCtxSetCurrent)                                                                 \
    X(cuGraphDestroy)                                                                  \
    X(cuLaunchHostFunc)                                                                \
    X(cuMemAlloc)                                                                      \
    X(cuMemHostAlloc)                                                                  \
    X(cuMemcpyHtoD)                                                                    \
    X(cuMemcpyDtoH)                                                                    \
    X(cuMemcpyDtoHAsync)                                                               \
    X(cuMemsetD8Async)                                                                 \
    X(cuStreamBeginCapture)                                                            \
    X(cuStreamCreate)                                                                  \
    X(cuStreamDestroy)                                                                 \
    X(cuStreamEndCapture)                                                              \
    X(cuStreamSynchronize)
#define GPU_POINTER(fn) __typeof__(&fn) p_##fn;
#define GPU_NAMED_POINTER(fn) GPU_POINTER(fn)

/* One pointer per function, called p_<name as cuda.h maps it>. */
extern struct gpu_calls {
    GPU_FUNCTIONS(GPU_NAMED_POINTER)
} gpu_calls;
#define GPU(fn) GPU_(fn)
#define GPU_(fn) gpu_calls.p_##fn

extern size_t gpu_bytes;    /* 256 MiB; other sizes are set before gpu_find() */
extern unsigned gpu_smalls; /* 13,600, as models of many layers have; in proportion */
extern CUdeviceptr gpu_big, gpu_small;
extern CUstream gpu_stream;

void gpu_need(bool good, const char *what);

/* False: there is none. Else its name is printed, and the state is on it. */
bool gpu_find(void);
void gpu_fill(void);
void gpu_clear(void);

/* The state's regions, with so many of the small tensors. */
void gpu_name(struct dlr_ckpt *ck, unsigned smalls);
/* These are there as gpu_fill() made them, on a device that was cleared. */
void gpu_look(unsigned smalls);

#endif
#endif
