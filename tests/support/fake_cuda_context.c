/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of the stand-in for the CUDA driver: the primary one of each device, and
 * which of them a thread has.
 */
#include <stdatomic.h>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cuda_memory.h"
#include "tests/support/fake_cuda_stream.h"

#define DEPTH 8

static char primary[FAKE_DEVICES]; /* their addresses are the contexts */
static atomic_uint retained;
static __thread CUcontext current[DEPTH]; /* [0]: none */
static __thread unsigned depth;

CUcontext fake_context(int device)
{
    return (CUcontext)&primary[device];
}

int fake_device(void)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        if (current[depth] == fake_context(i))
            return i;
    return -1;
}

unsigned fake_cuda_retained(void)
{
    return atomic_load(&retained);
}

static bool known(CUcontext ctx)
{
    return ctx == fake_context(0) || ctx == fake_context(1);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
    if (!known(ctx) || depth + 1 == DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    current[++depth] = ctx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ctx)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *ctx = current[depth--];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
    current[depth] = ctx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *ret, int ordinal)
{
    if (ordinal < 0 || ordinal >= FAKE_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    *ret = fake_context(device);
    atomic_fetch_add(&retained, 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
    atomic_fetch_sub(&retained, 1);
    return CUDA_SUCCESS;
}
