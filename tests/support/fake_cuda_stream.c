/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_cuda_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/kernel.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cuda_capture.h"
#include "tests/support/fake_cuda_memory.h"

/* Streams share the device's hardware queues: of those in one, everything is done in
 * the order in which it was put there, so what waits at its head keeps the others
 * waiting.
 */
#define QUEUES 8 /* CUDA_DEVICE_MAX_CONNECTIONS: 1 to 32, default 8 */
/* What a stream takes ahead; whoever puts more waits. Seen on an H100, driver
 * 580.159.04: of copies behind a stream that stood still the 1,021st was the last that
 * did not.
 */
#define DEPTH 1021

struct CUstream_st {
    pthread_t thread;
    bool held;
    int device;
    unsigned queue, pending;
    struct fake_op *first, **last;
    struct CUstream_st *next;
};

struct CUevent_st {
    unsigned recorded, done; /* counts of records put on a stream, and reached */
    unsigned users;          /* what was put on streams, and its owner */
    int device;
    int64_t at_ns; /* the last one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* The streams called NULL; their threads start on use. */
static struct CUstream_st legacy[FAKE_DEVICES] = {{.device = 0, .next = &legacy[1]},
                                                  {.device = 1}};
static struct CUstream_st *streams = &legacy[0];
static unsigned queues = QUEUES, created;
static uint64_t put;                   /* counts what was put on streams */
static unsigned syncing[FAKE_DEVICES]; /* calls that wait for all of a device */
static bool gate_open, copies_held;
static int64_t clock_ns;
static unsigned waits; /* of streams for events */

static void drop_event(struct CUevent_st *event)
{
    if (event && --event->users == 0)
        free(event);
}

/* Whether something else is to be done first in the stream's queue. Under the lock. */
static bool behind(const struct CUstream_st *s, const struct fake_op *op)
{
    for (const struct CUstream_st *o = streams; o; o = o->next)
        if (o->device == s->device && o->queue == s->queue && o->first &&
            o->first->number < op->number)
            return true;
    return false;
}

/* Whether op may be carried out now. Under the lock. */
static bool ready(const struct fake_op *op)
{
    if (op->kind == FAKE_GATE)
        return gate_open;
    if (op->kind == FAKE_COPY && op->to_host)
        return !copies_held;
    if (op->kind == FAKE_GATE_WAITED)
        return waits != op->value;
    if (op->kind == FAKE_WAIT_EVENT)
        return (int)(op->event->done - op->value) >= 0;
    return true;
}

/* All threads of a launch, one after the other. */
static void run_kernel(const struct fake_op *op)
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

            if (op->kind == FAKE_MOVE)
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

static void carry_out(struct fake_op *op)
{
    if (op->kind == FAKE_SUM || op->kind == FAKE_MOVE)
        run_kernel(op);
    for (size_t i = 0; op->kind == FAKE_COPY && i < (op->rows ? op->rows : 1); i++)
        memcpy((char *)op->dst + i * op->dst_pitch,
               (const char *)op->src + i * op->src_pitch, op->bytes);
    if (op->kind == FAKE_COPY && op->spoilt)
        ((char *)op->dst)[op->bytes / 2] ^= 4;
    if (op->to)
        fake_pinned_over(op->to);
    if (op->kind == FAKE_FILL)
        memset(op->dst, (int)op->value, op->bytes);
    if (op->kind == FAKE_RECORD) {
        op->event->done = op->value;
        op->event->at_ns = clock_ns;
    }
    drop_event(op->event);
}

/* A program's function on a stream: others go on meanwhile. Under the lock. */
static void call(const struct fake_op *op)
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
        struct fake_op *op = s->first;

        if (!op || behind(s, op) || !ready(op)) {
            if (op && op->kind == FAKE_WAIT_EVENT && !ready(op) && !s->held) {
                s->held = true;
                pthread_cond_broadcast(&changed);
            }
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        s->held = false;
        if (op->kind == FAKE_CALL)
            call(op);
        carry_out(op);
        end = op->kind == FAKE_END;
        s->first = op->next;
        s->pending--;
        if (!s->first)
            s->last = &s->first;
        free(op);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void fake_put(struct CUstream_st *s, struct fake_op op)
{
    struct fake_op *copy;

    if (fake_capture_takes(s))
        return;
    copy = malloc(sizeof(*copy));
    *copy = op;
    copy->next = NULL;
    if (op.to)
        fake_pinned_begun(op.to);
    pthread_mutex_lock(&lock);
    if (!s)
        s = &legacy[fake_device()];
    /* Calls of other threads wait for one that waits for the device: the driver has
     * locks.
     */
    while (syncing[s->device] > 0 || s->pending >= DEPTH)
        pthread_cond_wait(&changed, &lock);
    s->pending++;
    if (!s->last) {
        s->last = &s->first;
        pthread_create(&s->thread, NULL, run, s);
        if (s == &legacy[s->device])
            pthread_detach(s->thread);
    }
    copy->number = ++put;
    if (op.event)
        op.event->users++;
    if (op.kind == FAKE_RECORD)
        copy->value = ++op.event->recorded;
    if (op.kind == FAKE_WAIT_EVENT) {
        copy->value = op.event->recorded;
        waits++;
    }
    if (op.kind == FAKE_GATE_WAITED)
        copy->value = waits;
    *s->last = copy;
    s->last = &copy->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static bool busy(int device, uint64_t number)
{
    for (const struct CUstream_st *s = streams; s; s = s->next)
        if (s->device == device && s->first && s->first->number <= number)
            return true;
    return false;
}

void fake_sync(int device)
{
    uint64_t number;

    pthread_mutex_lock(&lock);
    number = put;
    syncing[device]++;
    while (busy(device, number))
        pthread_cond_wait(&changed, &lock);
    syncing[device]--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_queues(unsigned n)
{
    pthread_mutex_lock(&lock);
    queues = n ? n : QUEUES;
    for (struct CUstream_st *s = streams; s; s = s->next)
        s->queue %= queues;
    pthread_mutex_unlock(&lock);
}

void fake_cuda_gate(CUstream stream)
{
    pthread_mutex_lock(&lock);
    gate_open = false;
    pthread_mutex_unlock(&lock);
    fake_put(stream, (struct fake_op){.kind = FAKE_GATE});
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
    fake_put(stream, (struct fake_op){.kind = FAKE_GATE_WAITED});
}

void fake_cuda_fill(CUstream stream, CUdeviceptr ptr, unsigned char value, size_t bytes)
{
    fake_put(stream, (struct fake_op){.kind = FAKE_FILL,
                                      .dst = fake_to_host((uintptr_t)ptr),
                                      .value = value,
                                      .bytes = bytes});
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags)
{
    if (fake_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *stream = calloc(1, sizeof(**stream));
    (*stream)->device = fake_device();
    pthread_mutex_lock(&lock);
    (*stream)->queue = ++created % queues;
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Under the lock. */
static void forget(struct CUstream_st *stream)
{
    struct CUstream_st **at = &streams;

    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
    bool used;

    pthread_mutex_lock(&lock);
    used = stream->last != NULL;
    pthread_mutex_unlock(&lock);
    if (used) {
        fake_put(stream, (struct fake_op){.kind = FAKE_END});
        pthread_join(stream->thread, NULL);
    }
    pthread_mutex_lock(&lock);
    forget(stream);
    pthread_mutex_unlock(&lock);
    free(stream);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    fake_put(stream, (struct fake_op){.kind = FAKE_WAIT_EVENT, .event = event});
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags)
{
    if (fake_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *event = calloc(1, sizeof(**event));
    (*event)->users = 1;
    (*event)->device = fake_device();
    return CUDA_SUCCESS;
}

/* It may be destroyed before it is reached. */
CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    pthread_mutex_lock(&lock);
    drop_event(event);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    if (event->device != (stream ? stream->device : fake_device()))
        return CUDA_ERROR_INVALID_HANDLE;
    fake_put(stream, (struct fake_op){.kind = FAKE_RECORD, .event = event});
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
