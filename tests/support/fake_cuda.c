/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the CUDA driver, built as libcuda.so.1: streams are threads with a
 * queue, device memory is host memory under an address that the host may not touch. It
 * checks order and ownership, nothing about speed; no GPU is involved.
 */
#include "tests/support/fake_cuda.h"

#include <string.h>

#include "tests/support/fake_cuda_memory.h"
#include "tests/support/fake_cuda_speed.h"
#include "tests/support/fake_cuda_stream.h"

static int fail_copy, spoil;
static const char *pinned; /* the program's */
static size_t pinned_bytes;
static unsigned copies; /* to the host */
static char sum_kernel, move_kernel,
    multiply_kernel; /* their addresses are the functions */

void fake_cuda_spoil(int n)
{
    spoil = n;
}

unsigned fake_cuda_copies(void)
{
    return copies;
}

void fake_cuda_fail_copy(int n)
{
    fail_copy = n;
}

void fake_cuda_pinned(const void *from, size_t bytes)
{
    pinned = from;
    pinned_bytes = bytes;
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                       CUdeviceptr ptr)
{
    bool known = fake_pinned_of((void *)(uintptr_t)ptr, 1);

    if (pinned && ptr - (uintptr_t)pinned < pinned_bytes &&
        attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        *(unsigned *)data = CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    }
    if (known && attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
        *(CUdeviceptr *)data = ptr;
        return CUDA_SUCCESS;
    }
    if (!fake_to_host((uintptr_t)ptr))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = fake_memory_device((uintptr_t)ptr);
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        return fake_memory_context((uintptr_t)ptr, data);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes,
                                   CUstream stream)
{
    struct fake_pinned *to = fake_pinned_of(dst, bytes);

    if (!fake_to_host((uintptr_t)src) || (fail_copy > 0 && --fail_copy == 0))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!to) /* the driver would take it, and block */
        return CUDA_ERROR_INVALID_VALUE;
    copies++;
    fake_put(stream, (struct fake_op){.kind = FAKE_COPY,
                                      .dst = dst,
                                      .src = fake_to_host((uintptr_t)src),
                                      .to_host = true,
                                      .spoilt = spoil > 0 && --spoil == 0,
                                      .to = to,
                                      .bytes = bytes});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream)
{
    char *src = fake_to_host((uintptr_t)c->srcDevice);
    struct fake_pinned *to = fake_pinned_of(c->dstHost, c->Height * c->dstPitch);

    if (!src || !to ||
        !fake_to_host((uintptr_t)c->srcDevice + (c->Height - 1) * c->srcPitch) ||
        c->srcMemoryType != CU_MEMORYTYPE_DEVICE || c->srcPitch < c->WidthInBytes ||
        (fail_copy > 0 && --fail_copy == 0))
        return CUDA_ERROR_INVALID_VALUE;
    fake_put(stream, (struct fake_op){.kind = FAKE_COPY,
                                      .dst = c->dstHost,
                                      .to_host = true,
                                      .src = src,
                                      .to = to,
                                      .bytes = c->WidthInBytes,
                                      .rows = c->Height,
                                      .src_pitch = c->srcPitch,
                                      .dst_pitch = c->dstPitch});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes,
                                   CUstream stream)
{
    if (!fake_to_host((uintptr_t)dst))
        return CUDA_ERROR_INVALID_VALUE;
    fake_put(stream, (struct fake_op){.kind = FAKE_COPY,
                                      .dst = fake_to_host((uintptr_t)dst),
                                      .src = src,
                                      .bytes = bytes});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    if (fake_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_sync(fake_device());
    *module = (CUmodule)&sum_kernel;
    return strstr(image, ".visible .entry dlr_sum(") ||
                   strstr(image, ".visible .entry dlr_multiply(")
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_PTX;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
    fake_sync(fake_device());
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
    *ret = (CUfunction)(strcmp(name, "dlr_sum") == 0        ? &sum_kernel
                        : strcmp(name, "dlr_multiply") == 0 ? &multiply_kernel
                                                            : &move_kernel);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned groups, unsigned gy, unsigned gz,
                                unsigned threads, unsigned ty, unsigned tz,
                                unsigned shared, CUstream stream, void **with,
                                void **extra)
{
    struct fake_op op = {.kind = FAKE_SUM};

    if (f == (CUfunction)&multiply_kernel) {
        op = (struct fake_op){.kind = FAKE_CALL, .fn = fake_multiply};
        op.dst = fake_multiply_of(with);
        fake_put(stream, op);
        return CUDA_SUCCESS;
    }
    op.kernel.list = *(CUdeviceptr *)with[0];
    op.kernel.n = *(uint32_t *)with[1];
    op.kernel.groups = groups;
    op.kernel.threads = threads;
    if (f == (CUfunction)&move_kernel) {
        op.kind = FAKE_MOVE;
        op.dst = (void *)(uintptr_t) * (CUdeviceptr *)with[2];
        op.to = fake_pinned_of(op.dst, 1);
        op.spoilt = spoil > 0 && --spoil == 0;
    } else {
        op.kernel.blocks = *(uint32_t *)with[2];
        op.kernel.table = *(CUdeviceptr *)with[3];
        op.dst = (void *)(uintptr_t) * (CUdeviceptr *)with[4];
    }
    fake_put(stream, op);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    fake_put(stream, (struct fake_op){.kind = FAKE_CALL, .fn = fn, .dst = arg});
    return CUDA_SUCCESS;
}
