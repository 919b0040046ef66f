/* SPDX-License-Identifier: Apache-2.0 */
#ifdef DLR_HAVE_CUDA

#include "device/cuda_fetch.h"

#include <errno.h>
#include <stdlib.h>

int dlr_cuda_result(CUresult r)
{
    switch (r) {
    case CUDA_SUCCESS:
        return 0;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_ERROR_INVALID_VALUE:
        return -EINVAL;
    case CUDA_ERROR_NOT_SUPPORTED:
        return -ENOTSUP;
    case CUDA_ERROR_DEINITIALIZED:
        return -ENODEV;
    default:
        return -EIO;
    }
}

CUresult dlr_cuda_grow(struct dlr_device *dev, unsigned n)
{
    CUresult r = CUDA_SUCCESS;
    struct dlr_cuda_window *windows;

    if (n <= dev->nwindows)
        return r;
    windows = reallocarray(dev->windows, n, sizeof(*windows));
    if (!windows)
        return CUDA_ERROR_OUT_OF_MEMORY;
    dev->windows = windows;
    while (r == CUDA_SUCCESS && dev->nwindows < n) {
        struct dlr_cuda_window *w = &windows[dev->nwindows];

        *w = (struct dlr_cuda_window){0};
        r = CU(cuEventCreate)(&w->there, DLR_CUDA_EVENT);
        dev->nwindows += r == CUDA_SUCCESS;
    }
    return r;
}

int dlr_cuda_reserve(struct dlr_device *dev, unsigned windows)
{
    return dlr_cuda_result(dlr_cuda_grow(dev, windows));
}

static bool reaches(void *host, CUdeviceptr *ret)
{
    return host &&
           CU(cuPointerGetAttribute)(ret, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                     (CUdeviceptr)(uintptr_t)host) == CUDA_SUCCESS;
}

/* Kernels have lists for two windows. */
bool dlr_cuda_ahead(struct dlr_device *dev, void *to)
{
    CUdeviceptr there;

    return !dev->kernels && reaches(to, &there);
}

void dlr_cuda_clear(struct dlr_device *dev, unsigned window, void *to)
{
    struct dlr_cuda_window *w = &dev->windows[window];
    size_t half = window % 2;

    if (reaches(to, &w->to_dev)) {
        w->to = to;
    } else {
        w->to = dev->stage + half * DLR_DEVICE_HALF;
        w->to_dev = dev->stage_dev + half * DLR_DEVICE_HALF;
    }
    if (dev->kernels)
        dlr_kernels_reset(dev->kernels, half);
}

static int copy(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                size_t bytes)
{
    return dlr_cuda_result(CU(cuMemcpyDtoHAsync)(
        dev->windows[window].to + at, (CUdeviceptr)(uintptr_t)src, bytes, dev->stream));
}

int dlr_cuda_fetch(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                   size_t bytes)
{
    if (dev->kernels && dlr_kernels_add(dev->kernels, window % 2, (uint32_t)at,
                                        (CUdeviceptr)(uintptr_t)src, bytes))
        return 0;
    return copy(dev, window, at, src, bytes);
}

/* A pitch that goes backwards, or beyond what the driver takes, leaves one row at a
 * time.
 */
int dlr_cuda_fetch_rows(struct dlr_device *dev, unsigned window, size_t at,
                        const void *src, size_t size, size_t rows, ptrdiff_t pitch)
{
    CUDA_MEMCPY2D all = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = (CUdeviceptr)(uintptr_t)src,
                         .srcPitch = (size_t)pitch,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = dev->windows[window].to + at,
                         .dstPitch = size,
                         .WidthInBytes = size,
                         .Height = rows};
    int rc = 0;

    if (pitch >= 0 && pitch <= DLR_CUDA_PITCH_MAX && rows > 1)
        return dlr_cuda_result(CU(cuMemcpy2DAsync)(&all, dev->stream));
    for (size_t i = 0; rc == 0 && i < rows; i++)
        rc = copy(dev, window, at + i * size, (const char *)src + (ptrdiff_t)i * pitch,
                  size);
    return rc;
}

bool dlr_cuda_sum(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                  size_t bytes)
{
    return dev->kernels && dlr_kernels_sum(dev->kernels, window % 2, (uint32_t)at,
                                           (CUdeviceptr)(uintptr_t)src, bytes);
}

/* The event comes after what was started, whether that was all or not. */
int dlr_cuda_flush(struct dlr_device *dev, unsigned window)
{
    CUresult r = dev->kernels
                     ? dlr_kernels_launch(dev->kernels, window % 2,
                                          dev->windows[window].to_dev, dev->stream)
                     : CUDA_SUCCESS;
    CUresult event = CU(cuEventRecord)(dev->windows[window].there, dev->stream);

    return dlr_cuda_result(r != CUDA_SUCCESS ? r : event);
}

bool dlr_cuda_expect(struct dlr_device *dev, unsigned window, size_t at, size_t bytes,
                     uint32_t *ret_crc)
{
    return dev->kernels && dlr_kernels_expect(dev->kernels, window % 2, (uint32_t)at,
                                              (uint32_t)bytes, ret_crc);
}

int dlr_cuda_wait(struct dlr_device *dev, unsigned window, const void **ret_host)
{
    *ret_host = dev->windows[window].to;
    return dlr_cuda_result(CU(cuEventSynchronize)(dev->windows[window].there));
}

#else
typedef int dlr_no_device_fetch; /* a file may not be empty */
#endif
