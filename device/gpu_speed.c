/* SPDX-License-Identifier: Apache-2.0 */
#include "device/gpu_speed.h"

#ifndef DLR_HAVE_CUDA

int dlr_gpu_speed_tell(FILE *out)
{
    return 0;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "device/gpu_facts.h"
#include "device/speed_kernel.h"

#define COPY_BYTES (64u << 20) /* large enough for the link's full speed */
#define SIDE 2048u             /* of a matrix: 17 Gflop each time */
#define TIMES 5u               /* the first is not counted: it warms the GPU up */
#define MATRIX_BYTES (SIDE * SIDE * sizeof(float))

struct speed {
    CUresult (*init)(unsigned flags);
    CUresult (*count)(int *ret);
    CUresult (*bus)(char *ret, int size, CUdevice device);
    CUresult (*name)(char *ret, int size, CUdevice device);
};

/* Contexts take a second or two to make, and so each GPU has a thread. */
struct gpu {
    const struct speed *speed;
    int index;
    pthread_t thread;
    char *text; /* what it has to tell */
    size_t size;
};

/* Copies are measured one GPU after the other: they share host memory and links. */
static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;

struct bench {
    CUstream stream;
    CUevent from, to;
    CUmodule module;
    CUfunction multiply;
    CUdeviceptr device; /* a, b, c one after the other */
    float *host;        /* COPY_BYTES, pinned */
};

static CUresult make(struct bench *b)
{
    CUresult r = CU(cuStreamCreate)(&b->stream, CU_STREAM_NON_BLOCKING);

    if (r == CUDA_SUCCESS)
        r = CU(cuEventCreate)(&b->from, CU_EVENT_DEFAULT);
    if (r == CUDA_SUCCESS)
        r = CU(cuEventCreate)(&b->to, CU_EVENT_DEFAULT);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemHostAlloc)((void **)&b->host, COPY_BYTES, 0);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemAlloc)(&b->device, COPY_BYTES);
    if (r == CUDA_SUCCESS)
        r = CU(cuModuleLoadData)(&b->module, dlr_speed_ptx);
    if (r == CUDA_SUCCESS)
        r = CU(cuModuleGetFunction)(&b->multiply, b->module, "dlr_multiply");
    return r;
}

/* Small whole numbers: every sum of their products is exact in f32. */
static float element(unsigned row, unsigned column)
{
    return (float)((row * 31 + column * 17) % 8) - 3;
}

static void fill(struct bench *b)
{
    for (unsigned i = 0; i < SIDE; i++)
        for (unsigned k = 0; k < SIDE; k++) {
            b->host[i * SIDE + k] = element(i, k);
            b->host[(SIDE + i) * SIDE + k] = element(k + 1, i);
        }
}

enum work { TO_DEVICE, TO_HOST, MULTIPLY };

static CUresult put(struct bench *b, enum work work)
{
    CUdeviceptr at[3] = {b->device, b->device + MATRIX_BYTES,
                         b->device + 2 * MATRIX_BYTES};
    unsigned n = SIDE, groups = SIDE / DLR_SPEED_TILE;
    void *args[] = {&at[0], &at[1], &at[2], &n};

    if (work == TO_DEVICE)
        return CU(cuMemcpyHtoDAsync)(b->device, b->host, COPY_BYTES, b->stream);
    if (work == TO_HOST)
        return CU(cuMemcpyDtoHAsync)(b->host, b->device, COPY_BYTES, b->stream);
    return CU(cuLaunchKernel)(b->multiply, groups, groups, 1, DLR_SPEED_TILE,
                              DLR_SPEED_TILE, 1, 0, b->stream, args, NULL);
}

/* The quickest of several: what the hardware can. */
static CUresult measure(struct bench *b, enum work work, float *ret_ms)
{
    float best = 0, ms;
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; r == CUDA_SUCCESS && i <= TIMES; i++) {
        r = CU(cuEventRecord)(b->from, b->stream);
        if (r == CUDA_SUCCESS)
            r = put(b, work);
        if (r == CUDA_SUCCESS)
            r = CU(cuEventRecord)(b->to, b->stream);
        if (r == CUDA_SUCCESS)
            r = CU(cuEventSynchronize)(b->to);
        if (r == CUDA_SUCCESS)
            r = dlr_cu.elapsed(&ms, b->from, b->to);
        if (r == CUDA_SUCCESS && i > 0 && (best == 0 || ms < best))
            best = ms;
    }
    *ret_ms = best;
    return r;
}

/* Rows of the product on the host, one in 64. */
static unsigned count_wrong(const struct bench *b)
{
    const float *c = b->host + 2 * SIDE * SIDE;
    unsigned wrong = 0;

    for (unsigned row = 0; row < SIDE; row += 64)
        for (unsigned column = 0; column < SIDE; column += 64) {
            float sum = 0;

            for (unsigned k = 0; k < SIDE; k++)
                sum += element(row, k) * element(column + 1, k);
            wrong += c[row * SIDE + column] != sum;
        }
    return wrong;
}

/* A thousand bytes in a ms are a MB/s, a million operations a Gflop/s. */
static void tell_rate(FILE *out, const char *key, double work, float ms)
{
    if (ms > 0)
        fprintf(out, "%s %.0f\n", key, work / ms);
}

static CUresult measure_copy(struct bench *b, enum work work, FILE *out)
{
    float ms = 0;
    CUresult r;

    pthread_mutex_lock(&link_lock);
    r = measure(b, work, &ms);
    pthread_mutex_unlock(&link_lock);
    if (r == CUDA_SUCCESS)
        tell_rate(out, work == TO_HOST ? "to_host" : "to_device", COPY_BYTES / 1e3, ms);
    return r;
}

/* In the GPU's context. The multiply lies between copies that show what it has made. */
static CUresult run(struct bench *b, FILE *out)
{
    float ms = 0;
    CUresult r = make(b);

    if (r == CUDA_SUCCESS) {
        fill(b);
        r = measure_copy(b, TO_DEVICE, out);
    }
    if (r == CUDA_SUCCESS)
        r = measure(b, MULTIPLY, &ms);
    if (r == CUDA_SUCCESS) {
        tell_rate(out, "multiply", 2.0 * SIDE * SIDE * SIDE / 1e6, ms);
        r = measure_copy(b, TO_HOST, out);
    }
    if (r == CUDA_SUCCESS)
        fprintf(out, "wrong %u\n", count_wrong(b));
    return r;
}

/* What is left of the rest ends with the process. */
static void tell_gpu(const struct speed *s, int i, FILE *out)
{
    struct bench b = {0};
    char bus[32] = "", name[64] = "";
    CUcontext ctx, old;
    CUdevice device;
    CUresult r = CU(cuDeviceGet)(&device, i);

    if (r == CUDA_SUCCESS && s->bus(bus, sizeof(bus), device) == CUDA_SUCCESS)
        fprintf(out, "bus %s\n", bus);
    if (r == CUDA_SUCCESS && s->name(name, sizeof(name) - 1, device) == CUDA_SUCCESS)
        fprintf(out, "name %s\n", name);
    if (r == CUDA_SUCCESS)
        r = CU(cuDevicePrimaryCtxRetain)(&ctx, device);
    if (r == CUDA_SUCCESS) {
        r = CU(cuCtxPushCurrent)(ctx);
        if (r == CUDA_SUCCESS) {
            r = run(&b, out);
            CU(cuCtxPopCurrent)(&old);
        }
        CU(cuDevicePrimaryCtxRelease)(device);
    }
    fprintf(out, "error %u\n", (unsigned)r);
}

static void *measure_gpu(void *arg)
{
    struct gpu *gpu = arg;
    FILE *out = open_memstream(&gpu->text, &gpu->size);

    if (!out)
        return NULL;
    tell_gpu(gpu->speed, gpu->index, out);
    fclose(out);
    return NULL;
}

static void tell_all(const struct speed *s, int n, FILE *out)
{
    struct gpu gpus[DLR_GPU_MAX] = {{0}};

    for (int i = 0; i < n; i++) {
        gpus[i].speed = s;
        gpus[i].index = i;
        if (pthread_create(&gpus[i].thread, NULL, measure_gpu, &gpus[i]) != 0)
            n = i;
    }
    for (int i = 0; i < n; i++) {
        fprintf(out, "gpu %d\n", i);
        pthread_join(gpus[i].thread, NULL);
        fputs(gpus[i].text ? gpus[i].text : "", out);
        free(gpus[i].text);
    }
}

int dlr_gpu_speed_tell(FILE *out)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    struct speed s = {0};
    CUresult r;
    int n = 0;

    if (!lib)
        return 0;
    fputs("library libcuda.so.1\n", out);
    s.init = (__typeof__(s.init))dlsym(lib, "cuInit");
    s.count = (__typeof__(s.count))dlsym(lib, "cuDeviceGetCount");
    s.bus = (__typeof__(s.bus))dlsym(lib, "cuDeviceGetPCIBusId");
    s.name = (__typeof__(s.name))dlsym(lib, "cuDeviceGetName");
    if (!dlr_cu_load() || !s.init || !s.count || !s.bus || !s.name) {
        fputs("lacks one_of_its_functions\n", out);
        return 0;
    }
    r = s.init(0);
    if (r == CUDA_SUCCESS)
        r = s.count(&n);
    fprintf(out, "init %u\n", (unsigned)r);
    if (r == CUDA_SUCCESS)
        tell_all(&s, n < DLR_GPU_MAX ? n : DLR_GPU_MAX, out);
    return ferror(out) ? -EIO : 0;
}

#endif
