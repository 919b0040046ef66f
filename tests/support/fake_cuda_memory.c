/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_cuda_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cuda_capture.h"
#include "tests/support/fake_cuda_stream.h"

struct memory {
    char *device, *host;
    size_t bytes;
    int on;
    enum fake_context context;
    struct memory *next;
};

struct fake_pinned {
    char *from;
    size_t bytes;
    bool registered; /* else the driver's own */
    unsigned busy;   /* copies under way */
    struct fake_pinned *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct memory *memories;
static struct fake_pinned *all;
static unsigned straight, torn;
static int fail_register;
static bool held, inside;
static int place;
static enum fake_context place_context;

static const struct memory *find(uintptr_t address)
{
    for (const struct memory *m = memories; m; m = m->next)
        if (address >= (uintptr_t)m->device &&
            address < (uintptr_t)m->device + m->bytes)
            return m;
    return NULL;
}

char *fake_to_host(uintptr_t address)
{
    const struct memory *m = find(address);

    return m ? m->host + (address - (uintptr_t)m->device) : NULL;
}

int fake_memory_device(uintptr_t address)
{
    return find(address)->on;
}

CUresult fake_memory_context(uintptr_t address, CUcontext *ret)
{
    const struct memory *m = find(address);

    if (m->context == FAKE_CONTEXT_REFUSED)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = m->context == FAKE_CONTEXT ? fake_context(m->on) : NULL;
    return CUDA_SUCCESS;
}

void fake_cuda_place(int device, enum fake_context context)
{
    place = device;
    place_context = context;
}

CUresult fake_cuda_alloc(CUdeviceptr *ret, size_t bytes)
{
    struct memory *m = calloc(1, sizeof(*m));
    int fd = memfd_create("device", 0);

    if (ftruncate(fd, (off_t)bytes) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->bytes = bytes;
    m->on = place;
    m->context = place_context;
    m->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m->device = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    close(fd);
    pthread_mutex_lock(&lock);
    m->next = memories;
    memories = m;
    pthread_mutex_unlock(&lock);
    *ret = (CUdeviceptr)(uintptr_t)m->device;
    return CUDA_SUCCESS;
}

void *fake_cuda_look(CUdeviceptr ptr)
{
    return fake_to_host((uintptr_t)ptr);
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *ret, size_t bytes)
{
    fake_capture_unsafe();
    return fake_cuda_alloc(ret, bytes);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr ptr)
{
    struct memory **at = &memories, *m;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->device != (char *)(uintptr_t)ptr)
        at = &(*at)->next;
    m = *at;
    if (m)
        *at = m->next;
    pthread_mutex_unlock(&lock);
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    fake_sync(m->on); /* as cudaFree */
    munmap(m->device, m->bytes);
    munmap(m->host, m->bytes);
    free(m);
    return CUDA_SUCCESS;
}

struct fake_pinned *fake_pinned_of(const void *p, size_t bytes)
{
    const char *at = p;
    struct fake_pinned *found;

    pthread_mutex_lock(&lock);
    for (found = all; found; found = found->next)
        if (at >= found->from && at + bytes <= found->from + found->bytes)
            break;
    pthread_mutex_unlock(&lock);
    return found;
}

void fake_pinned_begun(struct fake_pinned *pinned)
{
    pthread_mutex_lock(&lock);
    pinned->busy++;
    straight += pinned->registered;
    pthread_mutex_unlock(&lock);
}

void fake_pinned_over(struct fake_pinned *pinned)
{
    pthread_mutex_lock(&lock);
    pinned->busy--;
    pthread_mutex_unlock(&lock);
}

static void add(char *from, size_t bytes, bool registered)
{
    struct fake_pinned *pinned = malloc(sizeof(*pinned));

    *pinned = (struct fake_pinned){from, bytes, registered, 0, all};
    all = pinned;
}

/* False: there is none that begins there. */
static bool forget(const void *from, bool registered)
{
    struct fake_pinned **at = &all, *gone;

    while (*at && ((*at)->from != from || (*at)->registered != registered))
        at = &(*at)->next;
    gone = *at;
    if (!gone)
        return false;
    *at = gone->next;
    /* Memory that is gone already, or that a copy still writes to. */
    torn +=
        gone->busy > 0 || (registered && msync(gone->from, gone->bytes, MS_ASYNC) < 0);
    free(gone);
    return true;
}

void fake_cuda_fail_register(int n)
{
    pthread_mutex_lock(&lock);
    fail_register = n;
    pthread_mutex_unlock(&lock);
}

void fake_cuda_hold_register(bool hold)
{
    pthread_mutex_lock(&lock);
    held = hold;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_await_register(void)
{
    pthread_mutex_lock(&lock);
    while (!inside)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static size_t registered(void)
{
    size_t bytes = 0;

    for (struct fake_pinned *p = all; p; p = p->next)
        bytes += p->registered ? p->bytes : 0;
    return bytes;
}

size_t fake_cuda_registered(void)
{
    size_t bytes;

    pthread_mutex_lock(&lock);
    bytes = registered();
    pthread_mutex_unlock(&lock);
    return bytes;
}

void fake_cuda_await_registered(size_t bytes)
{
    pthread_mutex_lock(&lock);
    while (registered() < bytes)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

unsigned fake_cuda_straight(void)
{
    return straight;
}

unsigned fake_cuda_torn(void)
{
    return torn;
}

CUresult CUDAAPI cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    if (fake_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *ret = malloc(bytes);
    fake_capture_unsafe();
    pthread_mutex_lock(&lock);
    add(*ret, bytes, false);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    bool known;

    fake_capture_unsafe();
    fake_sync(fake_device());
    pthread_mutex_lock(&lock);
    known = forget(p, false);
    pthread_mutex_unlock(&lock);
    free(p);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *ret, void *host, unsigned flags)
{
    *ret = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
    CUresult r = CUDA_SUCCESS;

    fake_capture_unsafe();
    pthread_mutex_lock(&lock);
    inside = true;
    pthread_cond_broadcast(&changed);
    while (held)
        pthread_cond_wait(&changed, &lock);
    inside = false;
    for (struct fake_pinned *o = all; o; o = o->next)
        if (o->from < (char *)p + bytes && (char *)p < o->from + o->bytes)
            r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (fail_register > 0 && --fail_register == 0)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        add(p, bytes, true);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    bool known;

    fake_capture_unsafe();
    fake_sync(fake_device());
    pthread_mutex_lock(&lock);
    known = forget(p, true);
    pthread_mutex_unlock(&lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
