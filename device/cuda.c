/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA by the driver's interface.
 *
 * A program's stream never waits for something that the host is still to do, such as a
 * word in memory (cuStreamWaitValue32): "synchronization ordering established through
 * these APIs is not visible to CUDA", and work that it orders can be put behind the
 * wait, in the same hardware queue (CUDA Driver API, "Stream Memory Operations";
 * CUDA_DEVICE_MAX_CONNECTIONS is the number of queues: CUDA Programming Guide,
 * "Environment Variables"). Calls that wait for the whole device would not return
 * either: cuMemFree, the loading of a kernel at its first launch ("Lazy Loading",
 * Potential Hazards). It waits for an event behind copies that are all on our stream
 * already.
 */
#include "device/device.h"

#ifndef DLR_HAVE_CUDA

const struct dlr_device_ops *dlr_device_cuda(void)
{
    return NULL;
}

#else

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "device/cuda_fetch.h"

static __thread CUstreamCaptureMode mode_before; /* enter(): it is not nested */

/* 0: memory that the driver does not know. */
static unsigned memory_type(const void *addr)
{
    unsigned type = 0;
    CUresult r = CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                           (CUdeviceptr)(uintptr_t)addr);

    return r == CUDA_SUCCESS ? type : 0;
}

static bool owns(const void *addr)
{
    return memory_type(addr) == CU_MEMORYTYPE_DEVICE;
}

static bool writes(const void *addr)
{
    return memory_type(addr) == CU_MEMORYTYPE_HOST;
}

/* What a thread of ours asks of the driver does not break off a graph that the program
 * captures meanwhile: by default many calls of any thread would.
 */
static CUresult push(struct dlr_device *dev)
{
    CUresult r = CU(cuCtxPushCurrent)(dev->ctx);

    if (r != CUDA_SUCCESS)
        return r;
    mode_before = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU(cuThreadExchangeStreamCaptureMode)(&mode_before);
    return CUDA_SUCCESS;
}

static int enter(struct dlr_device *dev)
{
    return dlr_cuda_result(push(dev));
}

static void leave(struct dlr_device *dev)
{
    CUcontext old;

    CU(cuThreadExchangeStreamCaptureMode)(&mode_before);
    CU(cuCtxPopCurrent)(&old);
}

static int ordinal(const void *addr)
{
    int n = -1;
    CUresult r = CU(cuPointerGetAttribute)(&n, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                           (CUdeviceptr)(uintptr_t)addr);

    return r == CUDA_SUCCESS ? n : -1;
}

/* Memory that was mapped (cuMemMap: PyTorch's expandable_segments) or comes from a pool
 * (cudaMallocAsync) belongs to a device and to no context: the attribute is refused, or
 * NULL. The primary context is the one that the CUDA runtime and so the program uses
 * (CUDA Driver API, "Primary Context Management"); UCX and Open MPI take it for such
 * memory, too.
 */
static CUresult find_context(struct dlr_device *dev, const void *addr)
{
    CUresult r = CU(cuPointerGetAttribute)(&dev->ctx, CU_POINTER_ATTRIBUTE_CONTEXT,
                                           (CUdeviceptr)(uintptr_t)addr);

    if (r == CUDA_SUCCESS && dev->ctx)
        return r;
    r = CU(cuDeviceGet)(&dev->device, ordinal(addr));
    if (r == CUDA_SUCCESS)
        r = CU(cuDevicePrimaryCtxRetain)(&dev->ctx, dev->device);
    dev->retained = r == CUDA_SUCCESS;
    return r;
}

/* In the device's context. */
static void destroy(struct dlr_device *dev)
{
    dlr_kernels_free(dev->kernels);
    for (unsigned i = 0; i < dev->nwindows; i++)
        CU(cuEventDestroy)(dev->windows[i].there);
    dlr_stalls_done(&dev->stalls);
    if (dev->stage)
        CU(cuMemFreeHost)(dev->stage);
    if (dev->fetched)
        CU(cuEventDestroy)(dev->fetched);
    if (dev->begun)
        CU(cuEventDestroy)(dev->begun);
    if (dev->stream)
        CU(cuStreamDestroy)(dev->stream);
}

static void cuda_close(struct dlr_device *dev)
{
    if (dev->ctx && enter(dev) == 0) {
        destroy(dev);
        leave(dev);
    }
    if (dev->retained)
        CU(cuDevicePrimaryCtxRelease)(dev->device);
    free(dev->windows);
    free(dev);
}

/* In the device's context: stream, events, staging buffer. */
static CUresult build(struct dlr_device *dev)
{
    CUresult r = CU(cuStreamCreate)(&dev->stream, CU_STREAM_NON_BLOCKING);

    if (r == CUDA_SUCCESS)
        r = CU(cuEventCreate)(&dev->begun, DLR_CUDA_EVENT);
    if (r == CUDA_SUCCESS)
        r = CU(cuEventCreate)(&dev->fetched, DLR_CUDA_EVENT);
    if (r == CUDA_SUCCESS)
        r = dlr_cuda_grow(dev, 2);
    if (r == CUDA_SUCCESS)
        r = dlr_stalls_init(&dev->stalls);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostAlloc)((void **)&dev->stage, 2 * DLR_DEVICE_HALF,
                               CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostGetDevicePointer)(&dev->stage_dev, dev->stage, 0);
    return r;
}

/* Saving goes on without kernels where they cannot be. */
static void build_kernels(struct dlr_device *dev, unsigned what,
                          const struct dlr_device_crc *crc)
{
    CUresult r = dlr_kernels_new(what, crc, &dev->kernels);

    if (r != CUDA_SUCCESS)
        dlr_warn("device memory is neither summed nor gathered on the device: CUDA "
                 "error %d",
                 (int)r);
}

static int cuda_open(const void *addr, unsigned kernels,
                     const struct dlr_device_crc *crc, struct dlr_device **ret,
                     struct dlr_err *err)
{
    struct dlr_device *dev = calloc(1, sizeof(*dev));
    CUresult r;

    if (!dev)
        return dlr_fail(err, -ENOMEM, "no memory");
    r = find_context(dev, addr);
    if (r == CUDA_SUCCESS)
        r = push(dev);
    if (r != CUDA_SUCCESS) {
        if (dev->retained)
            CU(cuDevicePrimaryCtxRelease)(dev->device);
        free(dev);
        return dlr_fail(err, dlr_cuda_result(r),
                        "cannot use the GPU's context: CUDA error %d", (int)r);
    }
    r = build(dev);
    if (r == CUDA_SUCCESS && kernels)
        build_kernels(dev, kernels, crc);
    leave(dev);
    if (r != CUDA_SUCCESS) {
        cuda_close(dev);
        return dlr_fail(err, dlr_cuda_result(r),
                        "cannot prepare copies from the GPU: CUDA error %d", (int)r);
    }
    *ret = dev;
    return 0;
}

/* Work on the legacy stream while another stream is captured is refused by the driver
 * itself.
 */
static int usable(struct dlr_device *dev, void *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r;
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    r = CU(cuStreamIsCapturing)(stream, &status);
    leave(dev);
    return r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
                   status != CU_STREAM_CAPTURE_STATUS_NONE
               ? -EINPROGRESS
               : dlr_cuda_result(r);
}

static int after(struct dlr_device *dev, void *stream)
{
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    rc = dlr_cuda_result(CU(cuEventRecord)(dev->begun, stream));
    if (rc == 0)
        rc = dlr_cuda_result(CU(cuStreamWaitEvent)(dev->stream, dev->begun, 0));
    leave(dev);
    if (rc == 0)
        dev->turn++;
    return rc;
}

static int reach(struct dlr_device *dev)
{
    return dlr_cuda_result(CU(cuEventSynchronize)(dev->begun));
}

static int asked(struct dlr_device *dev)
{
    return dlr_cuda_result(CU(cuEventRecord)(dev->fetched, dev->stream));
}

/* The events beside it only measure: without them the hold is as good. */
static int hold(struct dlr_device *dev, void *stream)
{
    int rc = enter(dev);
    bool timed;

    if (rc < 0)
        return rc;
    timed = dlr_stalls_from(&dev->stalls, dev->turn, stream);
    rc = dlr_cuda_result(CU(cuStreamWaitEvent)(stream, dev->fetched, 0));
    if (rc == 0 && timed)
        dlr_stalls_to(&dev->stalls, dev->turn, stream);
    leave(dev);
    return rc;
}

static bool over(struct dlr_device *dev)
{
    bool passed = true;

    if (enter(dev) == 0) {
        passed = dlr_stalls_await(&dev->stalls);
        leave(dev);
    }
    return passed;
}

static uint64_t held(struct dlr_device *dev)
{
    uint64_t ns;

    if (!dlr_stalls_open(&dev->stalls) || enter(dev) < 0)
        return 0;
    ns = dlr_stalls_tell(&dev->stalls);
    leave(dev);
    return ns;
}

static int pin(struct dlr_device *dev, void *host, size_t bytes)
{
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    rc = dlr_cuda_result(
        CU(cuMemHostRegister)(host, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    leave(dev);
    return rc;
}

static void unpin(struct dlr_device *dev, void *host)
{
    if (enter(dev) < 0)
        return;
    CU(cuMemHostUnregister)(host);
    leave(dev);
}

static int store(struct dlr_device *dev, void *dst, const void *src, size_t bytes)
{
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    rc = dlr_cuda_result(CU(cuMemcpyHtoD)((CUdeviceptr)(uintptr_t)dst, src, bytes));
    leave(dev);
    return rc;
}

static int store_rows(struct dlr_device *dev, void *dst, const void *src, size_t size,
                      size_t rows, ptrdiff_t pitch)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = src,
                          .srcPitch = size,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = (CUdeviceptr)(uintptr_t)dst,
                          .dstPitch = (size_t)pitch,
                          .WidthInBytes = size,
                          .Height = rows};
    bool whole = pitch >= 0 && pitch <= DLR_CUDA_PITCH_MAX && rows > 1;
    int rc = whole ? enter(dev) : 0;

    if (whole && rc == 0) {
        rc = dlr_cuda_result(CU(cuMemcpy2DUnaligned)(&copy));
        leave(dev);
    }
    for (size_t i = 0; !whole && rc == 0 && i < rows; i++)
        rc = store(dev, (char *)dst + (ptrdiff_t)i * pitch,
                   (const char *)src + i * size, size);
    return rc;
}

const struct dlr_device_ops *dlr_device_cuda(void)
{
    static const struct dlr_device_ops ops = {
        .name = "CUDA",
        .owns = owns,
        .writes = writes,
        .ordinal = ordinal,
        .open = cuda_open,
        .close = cuda_close,
        .usable = usable,
        .after = after,
        .reach = reach,
        .hold = hold,
        .asked = asked,
        .over = over,
        .reserve = dlr_cuda_reserve,
        .ahead = dlr_cuda_ahead,
        .held = held,
        .enter = enter,
        .leave = leave,
        .clear = dlr_cuda_clear,
        .fetch = dlr_cuda_fetch,
        .fetch_rows = dlr_cuda_fetch_rows,
        .sum = dlr_cuda_sum,
        .flush = dlr_cuda_flush,
        .wait = dlr_cuda_wait,
        .expect = dlr_cuda_expect,
        .pin = pin,
        .unpin = unpin,
        .store = store,
        .store_rows = store_rows,
    };

    return dlr_cu_load() ? &ops : NULL;
}

#endif
