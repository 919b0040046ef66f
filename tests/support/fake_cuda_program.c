/* SPDX-License-Identifier: Apache-2.0 */
/* What a program beside the library asks of the driver: a device and a context,
 * blocking copies, captures. For tests/gpu/gpu.c, which is tried without a GPU so.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cuda_memory.h"

static unsigned broken; /* when a capture began */

CUresult CUDAAPI cuInit(unsigned flags)
{
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
    strncpy(name, "none: the tests' stand-in for a driver", (size_t)size - 1);
    name[size - 1] = '\0';
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes)
{
    char *to = fake_to_host((uintptr_t)dst);

    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to, src, bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes)
{
    const char *from = fake_to_host((uintptr_t)src);

    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(dst, from, bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c)
{
    char *dst = fake_to_host((uintptr_t)c->dstDevice);

    if (!dst || c->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
        c->dstPitch < c->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < c->Height; i++)
        memcpy(dst + i * c->dstPitch, (const char *)c->srcHost + i * c->srcPitch,
               c->WidthInBytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes,
                                 CUstream stream)
{
    fake_cuda_fill(stream, dst, value, bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
    CUevent event;

    cuEventCreate(&event, CU_EVENT_DEFAULT);
    cuEventRecord(event, stream);
    cuEventSynchronize(event);
    cuEventDestroy(event);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    broken = fake_cuda_broken();
    fake_cuda_capture(stream, true);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
    fake_cuda_capture(stream, false);
    *ret = NULL;
    return fake_cuda_broken() == broken ? CUDA_SUCCESS
                                        : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
    return CUDA_SUCCESS;
}
