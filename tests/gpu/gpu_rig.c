/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_rig.h"

#ifndef DLR_HAVE_CUDA
typedef int no_gpu_rig; /* a file may not be empty */
#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define NAME(fn) NAME_(fn)
#define NAME_(fn) #fn
#define BYTES ((size_t)256 << 20)
#define SMALLS 13600u
#define TAIL (gpu_bytes - (1u << 20)) /* where the view begins */
#define SMALL_ALL ((size_t)gpu_smalls * GPU_SMALL)

struct gpu_calls gpu_calls;
size_t gpu_bytes = BYTES;
unsigned gpu_smalls = SMALLS;
CUdeviceptr gpu_big, gpu_small;
CUstream gpu_stream;

static unsigned char *pattern;

void gpu_need(bool good, const char *what)
{
    if (good)
        return;
    fflush(stdout);
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static bool load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

    if (!lib)
        return false;
#define LOAD(fn)                                                                       \
    GPU(fn) = (__typeof__(GPU(fn)))dlsym(lib, NAME(fn));                               \
    gpu_need(GPU(fn) != NULL, NAME(fn));
    GPU_FUNCTIONS(LOAD)
    return true;
}

bool gpu_find(void)
{
    char name[128];
    CUcontext ctx;
    CUdevice dev;

    if (!load() || GPU(cuInit)(0) != CUDA_SUCCESS ||
        GPU(cuDeviceGet)(&dev, 0) != CUDA_SUCCESS)
        return false;
    gpu_need(GPU(cuDevicePrimaryCtxRetain)(&ctx, dev) == CUDA_SUCCESS &&
                 GPU(cuCtxSetCurrent)(ctx) == CUDA_SUCCESS &&
                 GPU(cuDeviceGetName)(name, sizeof(name), dev) == CUDA_SUCCESS,
             "a context");
    printf("GPU: %s\n", name);
    gpu_smalls = (unsigned)(SMALLS * gpu_bytes / BYTES);
    pattern = malloc(gpu_bytes);
    gpu_need(pattern && GPU(cuMemAlloc)(&gpu_big, gpu_bytes) == CUDA_SUCCESS &&
                 GPU(cuMemAlloc)(&gpu_small, SMALL_ALL) == CUDA_SUCCESS &&
                 GPU(cuStreamCreate)(&gpu_stream, CU_STREAM_NON_BLOCKING) ==
                     CUDA_SUCCESS,
             "memory");
    for (size_t i = 0; i < gpu_bytes; i++)
        pattern[i] = (unsigned char)(i * 13 + i / 4099);
    gpu_fill();
    return true;
}

void gpu_fill(void)
{
    gpu_need(GPU(cuMemcpyHtoD)(gpu_big, pattern, gpu_bytes) == CUDA_SUCCESS &&
                 GPU(cuMemcpyHtoD)(gpu_small, pattern + 7, SMALL_ALL) == CUDA_SUCCESS,
             "a copy to the device");
}

void gpu_clear(void)
{
    DLR_AUTO_FREE unsigned char *zeros = calloc(1, gpu_bytes);

    gpu_need(zeros && GPU(cuMemcpyHtoD)(gpu_big, zeros, gpu_bytes) == CUDA_SUCCESS &&
                 GPU(cuMemcpyHtoD)(gpu_small, zeros, SMALL_ALL) == CUDA_SUCCESS,
             "a copy to the device");
}

/* Columns 3 to 10 of 16 are the view; the small regions differ a little in their size.
 */
void gpu_name(struct dlr_ckpt *ck, unsigned smalls)
{
    struct dlr_ckpt_region view = {.name = "view",
                                   .kind = DLR_CKPT_SHARD,
                                   .dtype = "u8",
                                   .item_size = 1,
                                   .ndim = 2,
                                   .global_shape = {65536, 8},
                                   .local_shape = {65536, 8},
                                   .stride = {16, 1},
                                   .addr = (void *)(uintptr_t)(gpu_big + TAIL + 3)};
    char name[32];

    gpu_need(dlr_ckpt_add(ck, &view) == 0 &&
                 dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1,
                                    (void *)(uintptr_t)gpu_big, TAIL) == 0,
             dlr_ckpt_error(ck));
    for (unsigned i = 0; i < smalls; i++) {
        CUdeviceptr at = gpu_small + (size_t)i * GPU_SMALL;

        dlr_format(name, sizeof(name), "small.%u", i);
        gpu_need(dlr_ckpt_add_array(ck, name, DLR_CKPT_LOCAL, "u8", 1,
                                    (void *)(uintptr_t)at, GPU_SMALL - i % 7) == 0,
                 dlr_ckpt_error(ck));
    }
}

void gpu_look(unsigned smalls)
{
    DLR_AUTO_FREE unsigned char *got = malloc(gpu_bytes);

    gpu_need(got && GPU(cuMemcpyDtoH)(got, gpu_big, gpu_bytes) == CUDA_SUCCESS,
             "a copy back");
    gpu_need(memcmp(got, pattern, TAIL) == 0, "the large region's bytes");
    for (size_t i = TAIL; i < gpu_bytes; i++)
        gpu_need(got[i] == (i % 16 >= 3 && i % 16 < 11 ? pattern[i] : 0),
                 "the view's bytes");
    gpu_need(GPU(cuMemcpyDtoH)(got, gpu_small, SMALL_ALL) == CUDA_SUCCESS,
             "a copy back");
    for (size_t i = 0; i < (size_t)smalls * GPU_SMALL; i++)
        gpu_need(
            got[i] ==
                (i % GPU_SMALL < GPU_SMALL - i / GPU_SMALL % 7 ? pattern[i + 7] : 0),
            "the small regions' bytes");
}

#endif
