/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the CUDA driver, built as libcuda.so.1: streams are threads with a queue,
 * device memory is host memory under an address that the host may not touch. It checks order
 * and ownership, nothing about speed; no GPU is involved.
 */
#include "tests/fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/device_kernel.h"
#include "tests/fake_cuda_capture.h"
#include "tests/fake_cuda_memory.h"

enum kind {
    COPY,
    RECORD,
    WAIT_EVENT,
    WAIT_VALUE,
    GATE,
    GATE_WAITED,
    FILL,
    CALL,
    SUM,
    MOVE,
    END
};

struct op {
    enum kind kind;
    void *dst;
    CUhostFn fn; /* called with dst */
    const void *src;
    size_t bytes;
    size_t rows, src_pitch, dst_pitch; /* 0 rows: one */
    uint32_t value;
    bool to_host, spoilt; /* spoilt: on its way there */
    struct fake_pinned *to;
    struct {
        CUdeviceptr list, table;
        uint32_t n, blocks, groups, threads;
    } kernel;
    struct CUevent_st *event;
    struct op *next;
};

struct CUstream_st {
    pthread_t thread;
    bool held;
    struct op *first, **last;
};

struct CUevent_st {
    unsigned recorded, done; /* counts of records put on a stream, and reached */
    int64_t at_ns;           /* the last one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct CUstream_st legacy; /* the stream called NULL; its thread starts on use */
static bool gate_open, copies_held;
static int64_t clock_ns;
static int fail_copy, spoil;
static const char *pinned; /* the program's */
static size_t pinned_bytes;
static unsigned waits;               /* of streams for events */
static unsigned copies;              /* to the host */
static char sum_kernel, move_kernel; /* their addresses are the functions */
static int context;                  /* its address is the only context */

/* Whether op may be carried out now. Under the lock. */
static bool ready(const struct op *op)
{
    if (op->kind == GATE)
        return gate_open;
    if (op->kind == COPY && op->to_host)
        return !copies_held;
    if (op->kind == GATE_WAITED)
        return waits != op->value;
    if (op->kind == WAIT_EVENT)
        return (int)(op->event->done - op->value) >= 0;
    if (op->kind == WAIT_VALUE)
        return (int)(__atomic_load_n((const uint32_t *)op->src, __ATOMIC_ACQUIRE) -
                     op->value) >= 0;
    return true;
}

/* All threads of a launch, one after the other. */
static void run_kernel(const struct op *op)
{
    size_t bytes = op->kernel.n * sizeof(struct dlr_kernel_piece);
    struct dlr_kernel_piece *list = malloc(bytes);
    const uint32_t *table = (const void *)fake_to_host((uintptr_t)op->kernel.table);

    memcpy(list, fake_to_host((uintptr_t)op->kernel.list), bytes);
    for (uint32_t i = 0; i < op->kernel.n; i++)
        list[i].src = (uint64_t)(uintptr_t)fake_to_host((uintptr_t)list[i].src);
    for (uint32_t g = 0; g < op->kernel.groups; g++)
        for (uint32_t t = 0; t < op->kernel.threads; t++) {
            uint32_t block = g * op->kernel.threads + t;

            if (op->kind == MOVE)
                dlr_kernel_move(list, op->kernel.n, op->dst, g, t, op->kernel.threads);
            else if (block < op->kernel.blocks)
                dlr_kernel_sum(list, op->kernel.n, table, op->dst, block);
        }
    for (uint32_t i = 0; op->spoilt && i < op->kernel.n; i++)
        if (list[i].moved) {
            ((char *)op->dst)[list[i].at] ^= 4;
            break;
        }
    free(list);
}

static void carry_out(struct op *op)
{
    if (op->kind == SUM || op->kind == MOVE)
        run_kernel(op);
    for (size_t i = 0; op->kind == COPY && i < (op->rows ? op->rows : 1); i++)
        memcpy((char *)op->dst + i * op->dst_pitch,
               (const char *)op->src + i * op->src_pitch, op->bytes);
    if (op->kind == COPY && op->spoilt)
        ((char *)op->dst)[op->bytes / 2] ^= 4;
    if (op->to)
        fake_pinned_over(op->to);
    if (op->kind == FILL)
        memset(op->dst, (int)op->value, op->bytes);
    if (op->kind == RECORD) {
        op->event->done = op->value;
        op->event->at_ns = clock_ns;
    }
}

/* A program's function on a stream: others go on meanwhile. Under the lock. */
static void call(const struct op *op)
{
    pthread_mutex_unlock(&lock);
    op->fn(op->dst);
    pthread_mutex_lock(&lock);
}

static void *run(void *arg)
{
    struct CUstream_st *s = arg;
    bool end = false;

    pthread_mutex_lock(&lock);
    while (!end) {
        struct op *op = s->first;

        if (!op || !ready(op)) {
            struct timespec soon;

            if (op && op->kind == WAIT_VALUE && !s->held) {
                s->held = true;
                pthread_cond_broadcast(&changed);
            }
            /* A value in memory changes without a signal: a GPU polls it, so does this. */
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_nsec += 1000000;
            if (soon.tv_nsec >= 1000000000) {
                soon.tv_sec++;
                soon.tv_nsec -= 1000000000;
            }
            pthread_cond_timedwait(&changed, &lock, &soon);
            continue;
        }
        s->held = false;
        if (op->kind == CALL)
            call(op);
        carry_out(op);
        end = op->kind == END;
        s->first = op->next;
        if (!s->first)
            s->last = &s->first;
        free(op);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void put(struct CUstream_st *s, struct op op)
{
    struct op *copy;

    if (fake_capture_takes(s))
        return;
    copy = malloc(sizeof(*copy));
    *copy = op;
    copy->next = NULL;
    if (op.to)
        fake_pinned_begun(op.to);
    pthread_mutex_lock(&lock);
    if (!s)
        s = &legacy;
    if (!s->last) {
        s->last = &s->first;
        pthread_create(&s->thread, NULL, run, s);
        if (s == &legacy)
            pthread_detach(s->thread);
    }
    if (op.kind == RECORD)
        copy->value = ++op.event->recorded;
    if (op.kind == WAIT_EVENT) {
        copy->value = op.event->recorded;
        waits++;
    }
    if (op.kind == GATE_WAITED)
        copy->value = waits;
    *s->last = copy;
    s->last = &copy->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_gate(CUstream stream)
{
    pthread_mutex_lock(&lock);
    gate_open = false;
    pthread_mutex_unlock(&lock);
    put(stream, (struct op){.kind = GATE});
}

void fake_cuda_open_gate(void)
{
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_hold_copies(bool hold)
{
    pthread_mutex_lock(&lock);
    copies_held = hold;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_await_held(CUstream stream)
{
    pthread_mutex_lock(&lock);
    while (!stream->held)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_clock(int64_t ns)
{
    pthread_mutex_lock(&lock);
    clock_ns = ns;
    pthread_mutex_unlock(&lock);
}

void fake_cuda_gate_waited(CUstream stream)
{
    put(stream, (struct op){.kind = GATE_WAITED});
}

void fake_cuda_fill(CUstream stream, CUdeviceptr ptr, unsigned char value, size_t bytes)
{
    put(stream, (struct op){.kind = FILL,
                            .dst = fake_to_host((uintptr_t)ptr),
                            .value = value,
                            .bytes = bytes});
}

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
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        *(CUcontext *)data = (CUcontext)&context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
    return ctx == (CUcontext)&context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ctx)
{
    *ctx = (CUcontext)&context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags)
{
    *stream = calloc(1, sizeof(**stream));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
    bool used;

    pthread_mutex_lock(&lock);
    used = stream->last != NULL;
    pthread_mutex_unlock(&lock);
    if (used) {
        put(stream, (struct op){.kind = END});
        pthread_join(stream->thread, NULL);
    }
    free(stream);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    put(stream, (struct op){.kind = WAIT_EVENT, .event = event});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr addr,
                                     cuuint32_t value, unsigned flags)
{
    if (flags != CU_STREAM_WAIT_VALUE_GEQ)
        return CUDA_ERROR_NOT_SUPPORTED;
    put(stream, (struct op){.kind = WAIT_VALUE,
                            .src = (void *)(uintptr_t)addr,
                            .value = value});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags)
{
    *event = calloc(1, sizeof(**event));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    put(stream, (struct op){.kind = RECORD, .event = event});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
    bool reached;

    fake_capture_unsafe();
    pthread_mutex_lock(&lock);
    reached = event->done == event->recorded;
    pthread_mutex_unlock(&lock);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* The name without a version, which every driver has. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent from, CUevent to);
CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent from, CUevent to)
{
    pthread_mutex_lock(&lock);
    *ret_ms = (float)((double)(to->at_ns - from->at_ns) / 1e6);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
    fake_capture_unsafe();
    pthread_mutex_lock(&lock);
    while (event->done != event->recorded)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
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
    put(stream, (struct op){.kind = COPY,
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
    put(stream, (struct op){.kind = COPY,
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
    put(stream, (struct op){.kind = COPY,
                            .dst = fake_to_host((uintptr_t)dst),
                            .src = src,
                            .bytes = bytes});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    *module = (CUmodule)&context;
    return strstr(image, ".visible .entry dlr_sum(") ? CUDA_SUCCESS
                                                     : CUDA_ERROR_INVALID_PTX;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
    *ret = (CUfunction)(strcmp(name, "dlr_sum") == 0 ? &sum_kernel : &move_kernel);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned groups, unsigned gy, unsigned gz,
                                unsigned threads, unsigned ty, unsigned tz,
                                unsigned shared, CUstream stream, void **with,
                                void **extra)
{
    struct op op = {.kind = SUM};

    op.kernel.list = *(CUdeviceptr *)with[0];
    op.kernel.n = *(uint32_t *)with[1];
    op.kernel.groups = groups;
    op.kernel.threads = threads;
    if (f == (CUfunction)&move_kernel) {
        op.kind = MOVE;
        op.dst = (void *)(uintptr_t) * (CUdeviceptr *)with[2];
        op.to = fake_pinned_of(op.dst, 1);
        op.spoilt = spoil > 0 && --spoil == 0;
    } else {
        op.kernel.blocks = *(uint32_t *)with[2];
        op.kernel.table = *(CUdeviceptr *)with[3];
        op.dst = (void *)(uintptr_t) * (CUdeviceptr *)with[4];
    }
    put(stream, op);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    put(stream, (struct op){.kind = CALL, .fn = fn, .dst = arg});
    return CUDA_SUCCESS;
}
