/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL is opened where it is there (libnccl.so.2, or what GPU_NCCL names: PyTorch brings
 * one of its own); types and numbers are those of nccl.h, which keeps them.
 */
#include "tests/gpu/gpu_health.h"

#ifndef DLR_HAVE_CUDA

#include <stdio.h>

int gpu_nccl(void)
{
    puts("skipped: NCCL: built without CUDA headers");
    return 0;
}

#else

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"

#define GPUS 16
#define BYTES (256u << 20) /* nccl-tests' figures of an NVLink node are at such sizes */
#define TIMES 20
#define FLOAT 7 /* ncclFloat32 */
#define SUM 0   /* ncclSum */

#define CALLS(X)                                                                       \
    X(cuda, cuInit, (unsigned))                                                        \
    X(cuda, cuDeviceGetCount, (int *))                                                 \
    X(cuda, cuDeviceGet, (CUdevice *, int))                                            \
    X(cuda, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                         \
    X(cuda, cuCtxSetCurrent, (CUcontext))                                              \
    X(cuda, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                    \
    X(cuda, cuStreamCreate, (CUstream *, unsigned))                                    \
    X(cuda, cuStreamSynchronize, (CUstream))                                           \
    X(nccl, ncclCommInitAll, (void **comms, int n, const int *devices))                \
    X(nccl, ncclGroupStart, (void))                                                    \
    X(nccl, ncclGroupEnd, (void))                                                      \
    X(nccl, ncclAllReduce,                                                             \
      (const void *, void *, size_t n, int type, int op, void *comm, CUstream))        \
    X(nccl, ncclGetVersion, (int *))

#define POINTER(lib, name, arguments) static int(*p_##name) arguments;
CALLS(POINTER)

struct gpu {
    CUcontext ctx;
    CUdeviceptr from, to;
    CUstream stream;
};

static bool load(void *cuda, void *nccl)
{
    bool all = true;

#define LOAD(lib, name, arguments)                                                     \
    p_##name = (__typeof__(p_##name))dlsym(lib, #name);                                \
    all = all && p_##name;
    CALLS(LOAD)
    return all;
}

static int prepare(struct gpu *gpus, int n)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < n; i++) {
        CUdevice device;

        rc = p_cuDeviceGet(&device, i);
        if (rc == 0)
            rc = p_cuDevicePrimaryCtxRetain(&gpus[i].ctx, device);
        if (rc == 0)
            rc = p_cuCtxSetCurrent(gpus[i].ctx);
        if (rc == 0)
            rc = p_cuMemAlloc_v2(&gpus[i].from, BYTES);
        if (rc == 0)
            rc = p_cuMemAlloc_v2(&gpus[i].to, BYTES);
        if (rc == 0)
            rc = p_cuStreamCreate(&gpus[i].stream, CU_STREAM_NON_BLOCKING);
    }
    return rc;
}

static int reduce(struct gpu *gpus, void **comms, int n, int times)
{
    int rc = 0;

    for (int t = 0; rc == 0 && t < times; t++) {
        rc = p_ncclGroupStart();
        for (int i = 0; rc == 0 && i < n; i++)
            rc = p_ncclAllReduce((void *)gpus[i].from, (void *)gpus[i].to,
                                 BYTES / sizeof(float), FLOAT, SUM, comms[i],
                                 gpus[i].stream);
        if (rc == 0)
            rc = p_ncclGroupEnd();
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        p_cuCtxSetCurrent(gpus[i].ctx);
        rc = p_cuStreamSynchronize(gpus[i].stream);
    }
    return rc;
}

static int measure(int n)
{
    struct gpu gpus[GPUS] = {{0}};
    void *comms[GPUS] = {0};
    int version = 0, rc;
    double s;
    int64_t t0;

    rc = prepare(gpus, n);
    if (rc == 0)
        rc = p_ncclCommInitAll(comms, n, NULL);
    if (rc == 0)
        rc = reduce(gpus, comms, n, 5);
    t0 = dlr_now_ns();
    if (rc == 0)
        rc = reduce(gpus, comms, n, TIMES);
    s = (double)(dlr_now_ns() - t0) / 1e9 / TIMES;
    if (rc) {
        fprintf(stderr, "failed: NCCL over %d GPUs: error %d\n", n, rc);
        return 1;
    }
    p_ncclGetVersion(&version);
    printf("NCCL %d: all-reduce of %u MiB over %d GPUs: busbw %.1f GB/s\n", version,
           BYTES >> 20, n, BYTES / s / 1e9 * 2 * (n - 1) / n);
    return 0;
}

int gpu_nccl(void)
{
    const char *name = getenv("GPU_NCCL");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *nccl = cuda ? dlopen(name ? name : "libnccl.so.2", RTLD_NOW) : NULL;
    int n = 0;

    if (!nccl || !load(cuda, nccl)) {
        printf("skipped: NCCL: %s\n", !cuda  ? "no GPU"
                                      : nccl ? "not all of its functions"
                                             : "no libnccl.so.2 (GPU_NCCL=PATH)");
        return 0;
    }
    if (p_cuInit(0) != 0 || p_cuDeviceGetCount(&n) != 0 || n < 2) {
        printf("skipped: NCCL: %s\n", n == 1 ? "one GPU" : "no GPU");
        return 0;
    }
    return measure(n < GPUS ? n : GPUS);
}

#endif
