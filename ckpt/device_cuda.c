/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA by the driver's interface. The library is taken only where the program has loaded it
 * already, so that nothing here initialises a GPU.
 */
#include "ckpt/device.h"

#ifndef DLR_HAVE_CUDA

const struct dlr_device_ops *dlr_device_cuda(void)
{
    return NULL;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ckpt/device_kernels.h"
#include "ckpt/device_stalls.h"
#include "common/log.h"

#define NAME(fn) NAME_(fn)
#define NAME_(fn) #fn

#define PITCH_MAX INT32_MAX /* every device takes at least this */

struct dlr_cu dlr_cu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static struct dlr_device *left; /* what streams of the program may still look at */
static __thread CUstreamCaptureMode mode_before; /* enter(): it is not nested */

struct dlr_device {
    CUcontext ctx;
    CUstream stream;       /* of the copies */
    CUevent begun;         /* what the caller's stream had at begin */
    CUevent fetched[2];    /* the copies into a half */
    unsigned char *stage;  /* pinned, two halves */
    CUdeviceptr stage_dev; /* the same for kernels */
    unsigned char *to[2];  /* what stands for each half now */
    CUdeviceptr to_dev[2];
    struct dlr_kernels *kernels; /* NULL: none are used */
    _Atomic uint32_t *done;      /* pinned: the last snapshot that was released */
    CUdeviceptr done_dev;        /* the same word for streams */
    uint32_t turn;               /* the last snapshot that was begun */
    struct dlr_stalls stalls;
    struct dlr_device *next; /* left behind */
};

static void load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!lib)
        return;
    loaded = true;
#define LOAD(fn)                                                                       \
    CU(fn) = (__typeof__(CU(fn)))dlsym(lib, NAME(fn));                                 \
    loaded = loaded && CU(fn);
    DLR_CU_FUNCTIONS(LOAD)
    dlr_cu.elapsed = (__typeof__(dlr_cu.elapsed))dlsym(lib, "cuEventElapsedTime");
    loaded = loaded && dlr_cu.elapsed;
    if (!loaded)
        dlclose(lib);
}

static int result(CUresult r)
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

/* What a thread of ours asks of the driver does not break off a graph that the program captures
 * meanwhile: by default many calls of any thread would.
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
    return result(push(dev));
}

static void leave(struct dlr_device *dev)
{
    CUcontext old;

    CU(cuThreadExchangeStreamCaptureMode)(&mode_before);
    CU(cuCtxPopCurrent)(&old);
}

/* In the device's context. */
static void destroy(struct dlr_device *dev)
{
    dlr_kernels_free(dev->kernels);
    for (unsigned i = 0; i < 2; i++)
        if (dev->fetched[i])
            CU(cuEventDestroy)(dev->fetched[i]);
    dlr_stalls_done(&dev->stalls);
    if (dev->stage)
        CU(cuMemFreeHost)(dev->stage);
    if (dev->done)
        CU(cuMemFreeHost)((void *)dev->done);
    if (dev->begun)
        CU(cuEventDestroy)(dev->begun);
    if (dev->stream)
        CU(cuStreamDestroy)(dev->stream);
}

/* A word that a stream waits for must not go: better some memory than a GPU that reads what is
 * somebody else's, or a program that does not end.
 */
static void leave_behind(struct dlr_device *dev)
{
    dlr_warn(
        "a GPU's stream does not come to its last snapshot: memory for copies stays");
    pthread_mutex_lock(&lock);
    dev->next = left;
    left = dev;
    pthread_mutex_unlock(&lock);
}

static void cuda_close(struct dlr_device *dev)
{
    bool over = true;

    if (enter(dev) == 0) {
        over = dlr_stalls_await(&dev->stalls);
        if (over)
            destroy(dev);
        leave(dev);
    }
    if (over)
        free(dev);
    else
        leave_behind(dev);
}

/* In the device's context: stream, events, staging buffer, the word streams wait for. */
static CUresult build(struct dlr_device *dev)
{
    unsigned event = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
    CUresult r = CU(cuStreamCreate)(&dev->stream, CU_STREAM_NON_BLOCKING);

    if (r == CUDA_SUCCESS)
        r = CU(cuEventCreate)(&dev->begun, event);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++)
        r = CU(cuEventCreate)(&dev->fetched[i], event);
    if (r == CUDA_SUCCESS)
        r = dlr_stalls_init(&dev->stalls);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostAlloc)((void **)&dev->stage, 2 * DLR_DEVICE_HALF,
                               CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostGetDevicePointer)(&dev->stage_dev, dev->stage, 0);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostAlloc)((void **)&dev->done, sizeof(*dev->done),
                               CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == CUDA_SUCCESS) {
        atomic_store(dev->done, 0);
        r = CU(cuMemHostGetDevicePointer)(&dev->done_dev, (void *)dev->done, 0);
    }
    return r;
}

/* Saving goes on without kernels where they cannot be. */
static void build_kernels(struct dlr_device *dev, unsigned what)
{
    CUresult r = dlr_kernels_new(what, &dev->kernels);

    if (r != CUDA_SUCCESS)
        dlr_warn("device memory is neither summed nor gathered on the device: CUDA "
                 "error %d",
                 (int)r);
}

static int cuda_open(const void *addr, unsigned kernels, struct dlr_device **ret,
                     struct dlr_err *err)
{
    struct dlr_device *dev = calloc(1, sizeof(*dev));
    CUresult r;

    if (!dev)
        return dlr_fail(err, -ENOMEM, "no memory");
    r = CU(cuPointerGetAttribute)(&dev->ctx, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  (CUdeviceptr)(uintptr_t)addr);
    if (r == CUDA_SUCCESS)
        r = push(dev);
    if (r != CUDA_SUCCESS) {
        free(dev);
        return dlr_fail(err, result(r), "cannot use the GPU's context: CUDA error %d",
                        (int)r);
    }
    r = build(dev);
    if (r == CUDA_SUCCESS && kernels)
        build_kernels(dev, kernels);
    leave(dev);
    if (r != CUDA_SUCCESS) {
        cuda_close(dev);
        return dlr_fail(err, result(r),
                        "cannot prepare copies from the GPU: CUDA error %d", (int)r);
    }
    *ret = dev;
    return 0;
}

/* Work on the legacy stream while another stream is captured is refused by the driver itself. */
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
               : result(r);
}

static int after(struct dlr_device *dev, void *stream)
{
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    rc = result(CU(cuEventRecord)(dev->begun, stream));
    if (rc == 0)
        rc = result(CU(cuStreamWaitEvent)(dev->stream, dev->begun, 0));
    leave(dev);
    if (rc == 0)
        dev->turn++;
    return rc;
}

static int reach(struct dlr_device *dev)
{
    return result(CU(cuEventSynchronize)(dev->begun));
}

/* The events beside it only measure: without them the hold is as good. */
static int hold(struct dlr_device *dev, void *stream)
{
    int rc = enter(dev);
    bool timed;

    if (rc < 0)
        return rc;
    timed = dlr_stalls_from(&dev->stalls, dev->turn, stream);
    rc = result(CU(cuStreamWaitValue32)(stream, dev->done_dev, dev->turn,
                                        CU_STREAM_WAIT_VALUE_GEQ));
    if (rc == 0 && timed)
        dlr_stalls_to(&dev->stalls, dev->turn, stream);
    leave(dev);
    return rc;
}

static void release(struct dlr_device *dev)
{
    atomic_store(dev->done,
                 dev->turn); /* begin makes no new turn while one is under way */
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

static void clear(struct dlr_device *dev, unsigned half, void *to)
{
    CUdeviceptr there;

    dev->to[half] = dev->stage + half * (size_t)DLR_DEVICE_HALF;
    dev->to_dev[half] = dev->stage_dev + half * (size_t)DLR_DEVICE_HALF;
    if (to && CU(cuPointerGetAttribute)(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                        (CUdeviceptr)(uintptr_t)to) == CUDA_SUCCESS) {
        dev->to[half] = to;
        dev->to_dev[half] = there;
    }
    if (dev->kernels)
        dlr_kernels_reset(dev->kernels, half);
}

static int copy(struct dlr_device *dev, unsigned half, size_t at, const void *src,
                size_t bytes)
{
    return result(CU(cuMemcpyDtoHAsync)(dev->to[half] + at, (CUdeviceptr)(uintptr_t)src,
                                        bytes, dev->stream));
}

static int fetch(struct dlr_device *dev, unsigned half, size_t at, const void *src,
                 size_t bytes)
{
    if (dev->kernels && dlr_kernels_add(dev->kernels, half, (uint32_t)at,
                                        (CUdeviceptr)(uintptr_t)src, bytes))
        return 0;
    return copy(dev, half, at, src, bytes);
}

/* A pitch that goes backwards, or beyond what the driver takes, leaves one row at a time. */
static int fetch_rows(struct dlr_device *dev, unsigned half, size_t at, const void *src,
                      size_t size, size_t rows, ptrdiff_t pitch)
{
    CUDA_MEMCPY2D all = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = (CUdeviceptr)(uintptr_t)src,
                         .srcPitch = (size_t)pitch,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = dev->to[half] + at,
                         .dstPitch = size,
                         .WidthInBytes = size,
                         .Height = rows};
    int rc = 0;

    if (pitch >= 0 && pitch <= PITCH_MAX && rows > 1)
        return result(CU(cuMemcpy2DAsync)(&all, dev->stream));
    for (size_t i = 0; rc == 0 && i < rows; i++)
        rc = copy(dev, half, at + i * size, (const char *)src + (ptrdiff_t)i * pitch,
                  size);
    return rc;
}

static bool sum(struct dlr_device *dev, unsigned half, size_t at, const void *src,
                size_t bytes)
{
    return dev->kernels && dlr_kernels_sum(dev->kernels, half, (uint32_t)at,
                                           (CUdeviceptr)(uintptr_t)src, bytes);
}

/* The event comes after what was started, whether that was all or not. */
static int flush(struct dlr_device *dev, unsigned half)
{
    CUresult r = dev->kernels ? dlr_kernels_launch(dev->kernels, half,
                                                   dev->to_dev[half], dev->stream)
                              : CUDA_SUCCESS;
    CUresult event = CU(cuEventRecord)(dev->fetched[half], dev->stream);

    return result(r != CUDA_SUCCESS ? r : event);
}

static bool expect(struct dlr_device *dev, unsigned half, size_t at, size_t bytes,
                   uint32_t *ret_crc)
{
    return dev->kernels && dlr_kernels_expect(dev->kernels, half, (uint32_t)at,
                                              (uint32_t)bytes, ret_crc);
}

static int wait(struct dlr_device *dev, unsigned half, const void **ret_host)
{
    *ret_host = dev->to[half];
    return result(CU(cuEventSynchronize)(dev->fetched[half]));
}

static int pin(struct dlr_device *dev, void *host, size_t bytes)
{
    int rc = enter(dev);

    if (rc < 0)
        return rc;
    rc = result(CU(cuMemHostRegister)(host, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
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
    rc = result(CU(cuMemcpyHtoD)((CUdeviceptr)(uintptr_t)dst, src, bytes));
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
    bool whole = pitch >= 0 && pitch <= PITCH_MAX && rows > 1;
    int rc = whole ? enter(dev) : 0;

    if (whole && rc == 0) {
        rc = result(CU(cuMemcpy2DUnaligned)(&copy));
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
        .open = cuda_open,
        .close = cuda_close,
        .usable = usable,
        .after = after,
        .reach = reach,
        .hold = hold,
        .release = release,
        .held = held,
        .enter = enter,
        .leave = leave,
        .clear = clear,
        .fetch = fetch,
        .fetch_rows = fetch_rows,
        .sum = sum,
        .flush = flush,
        .wait = wait,
        .expect = expect,
        .pin = pin,
        .unpin = unpin,
        .store = store,
        .store_rows = store_rows,
    };
    bool there;

    /* A program may load CUDA after the first handle was opened: ask until it is there. */
    pthread_mutex_lock(&lock);
    if (!loaded)
        load();
    there = loaded;
    pthread_mutex_unlock(&lock);
    return there ? &ops : NULL;
}

#endif
