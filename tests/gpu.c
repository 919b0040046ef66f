/* SPDX-License-Identifier: Apache-2.0 */
/* gpu check | bench: snapshots of device memory on a real GPU. check saves and restores, whole
 * regions, small ones and views, with and without sums on the device. bench prints how fast a
 * snapshot leaves the device, beside the fastest copy into pinned memory. Without a GPU it says
 * so and ends with 0.
 */
#include <stdio.h>

#ifndef DLR_HAVE_CUDA

int main(void)
{
    puts("skipped: built without CUDA headers");
    return 0;
}

#else

#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "ckpt/copy.h"
#include "ckpt/device.h"
#include "ckpt/slot_meta.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/str.h"

#define BIG ((size_t)256 << 20)
#define SMALLS 13600u /* tensors of a model with many layers */
#define SMALL 1504u
#define ROUNDS 5

#define NAME(fn) NAME_(fn)
#define NAME_(fn) #fn
#define FUNCTIONS(X)                                                                   \
    X(cuInit)                                                                          \
    X(cuDeviceGet)                                                                     \
    X(cuDeviceGetName)                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                        \
    X(cuCtxSetCurrent)                                                                 \
    X(cuMemAlloc)                                                                      \
    X(cuMemHostAlloc)                                                                  \
    X(cuMemcpyHtoD)                                                                    \
    X(cuMemcpyDtoH)                                                                    \
    X(cuMemcpyDtoHAsync)                                                               \
    X(cuStreamCreate)                                                                  \
    X(cuStreamSynchronize)
#define POINTER(fn) __typeof__(&fn) p_##fn;
#define NAMED_POINTER(fn) POINTER(fn)

static struct {
    FUNCTIONS(NAMED_POINTER)
} cu;
#define CU(fn) CU_(fn)
#define CU_(fn) cu.p_##fn

static CUdeviceptr big, small;
static CUstream stream;
static unsigned char *pattern;

static void need(bool good, const char *what)
{
    if (good)
        return;
    printf("failed: %s\n", what);
    exit(1);
}

/* False: there is no GPU. */
static bool find_gpu(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    char name[128];
    CUcontext ctx;
    CUdevice dev;

    if (!lib)
        return false;
#define LOAD(fn)                                                                       \
    CU(fn) = (__typeof__(CU(fn)))dlsym(lib, NAME(fn));                                 \
    need(CU(fn) != NULL, NAME(fn));
    FUNCTIONS(LOAD)
    if (CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDeviceGet)(&dev, 0) != CUDA_SUCCESS)
        return false;
    need(CU(cuDevicePrimaryCtxRetain)(&ctx, dev) == CUDA_SUCCESS &&
             CU(cuCtxSetCurrent)(ctx) == CUDA_SUCCESS &&
             CU(cuDeviceGetName)(name, sizeof(name), dev) == CUDA_SUCCESS,
         "a context");
    printf("GPU: %s\n", name);
    return true;
}

static void fill(void)
{
    size_t all = (size_t)SMALLS * SMALL;

    pattern = malloc(BIG);
    need(pattern && CU(cuMemAlloc)(&big, BIG) == CUDA_SUCCESS &&
             CU(cuMemAlloc)(&small, all) == CUDA_SUCCESS &&
             CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS,
         "memory");
    for (size_t i = 0; i < BIG; i++)
        pattern[i] = (unsigned char)(i * 13 + i / 4099);
    need(CU(cuMemcpyHtoD)(big, pattern, BIG) == CUDA_SUCCESS &&
             CU(cuMemcpyHtoD)(small, pattern + 7, all) == CUDA_SUCCESS,
         "a copy to the device");
}

/* --- check -------------------------------------------------------------------------- */

static struct dlr_ckpt *name_all(const char *dir, bool sums)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .fence_ms = 60000};
    /* Columns 3..10 of 16 of the last MiB. */
    struct dlr_ckpt_region view = {.name = "view",
                                   .kind = DLR_CKPT_SHARD,
                                   .dtype = "u8",
                                   .item_size = 1,
                                   .ndim = 2,
                                   .global_shape = {65536, 8},
                                   .local_shape = {65536, 8},
                                   .stride = {16, 1}};
    struct dlr_ckpt *ck;
    char name[32];

    setenv("DLROVER_CKPT_DEVICE_SUM", sums ? "on" : "off", 1);
    need(dlr_ckpt_open(&conf, &ck) == 0, dlr_ckpt_error(NULL));
    view.addr = (void *)(uintptr_t)(big + BIG - (1u << 20) + 3);
    need(dlr_ckpt_add(ck, &view) == 0 &&
             dlr_ckpt_add_array(ck, "big", DLR_CKPT_SHARD, "u8", 1,
                                (void *)(uintptr_t)big, BIG - (1u << 20)) == 0,
         dlr_ckpt_error(ck));
    for (unsigned i = 0; i < SMALLS; i++) {
        dlr_format(name, sizeof(name), "small.%u", i);
        need(dlr_ckpt_add_array(ck, name, DLR_CKPT_LOCAL, "u8", 1,
                                (void *)(uintptr_t)(small + (size_t)i * SMALL),
                                SMALL - i % 7) == 0,
             dlr_ckpt_error(ck));
    }
    return ck;
}

static void look(void)
{
    size_t tail = BIG - (1u << 20), all = (size_t)SMALLS * SMALL;
    DLR_AUTO_FREE unsigned char *got = malloc(BIG);

    need(got && CU(cuMemcpyDtoH)(got, big, BIG) == CUDA_SUCCESS, "a copy back");
    need(memcmp(got, pattern, tail) == 0, "the large region's bytes");
    for (size_t i = tail; i < BIG; i++)
        need(got[i] == (i % 16 >= 3 && i % 16 < 11 ? pattern[i] : 0),
             "the view's bytes");
    need(CU(cuMemcpyDtoH)(got, small, all) == CUDA_SUCCESS, "a copy back");
    for (size_t i = 0; i < all; i++)
        need(got[i] == (i % SMALL < SMALL - i / SMALL % 7 ? pattern[i + 7] : 0),
             "the small regions' bytes");
}

static void check(bool sums)
{
    char dir[] = "/dev/shm/dlr-gpu-XXXXXX", command[64];
    DLR_AUTO_FREE unsigned char *zeros = calloc(1, BIG);
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    need(mkdtemp(dir) && zeros, "a directory");
    ck = name_all(dir, sums);
    need(dlr_ckpt_begin(ck, 7, stream) == 1 && dlr_ckpt_fence(ck, stream) == 0,
         dlr_ckpt_error(ck));
    dlr_ckpt_close(ck);
    need(CU(cuMemcpyHtoD)(big, zeros, BIG) == CUDA_SUCCESS &&
             CU(cuMemcpyHtoD)(small, zeros, (size_t)SMALLS * SMALL) == CUDA_SUCCESS,
         "a copy to the device");
    ck = name_all(dir, sums);
    need(dlr_ckpt_restore(ck, &step) == 1 && step == 7, dlr_ckpt_error(ck));
    dlr_ckpt_close(ck);
    look();
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    need(system(command) == 0, command);
    need(CU(cuMemcpyHtoD)(big, pattern, BIG) == CUDA_SUCCESS &&
             CU(cuMemcpyHtoD)(small, pattern + 7, (size_t)SMALLS * SMALL) ==
                 CUDA_SUCCESS,
         "a copy to the device");
    printf("ok: saved and restored, sums on the device %s\n", sums ? "on" : "off");
}

/* --- bench -------------------------------------------------------------------------- */

static double gbs(size_t bytes, int64_t ns)
{
    return (double)bytes / (double)ns;
}

static void pinned_peak(void)
{
    void *host;

    need(CU(cuMemHostAlloc)(&host, BIG, 0) == CUDA_SUCCESS, "pinned memory");
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t began = dlr_now_ns();

        need(CU(cuMemcpyDtoHAsync)(host, big, BIG, stream) == CUDA_SUCCESS &&
                 CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS,
             "a copy from the device");
        printf("pinned copy: %.2f GB/s\n", gbs(BIG, dlr_now_ns() - began));
    }
}

/* n regions of a size, one after the other from addr on. */
static void snapshot(const char *what, CUdeviceptr addr, unsigned n, size_t bytes,
                     bool sums)
{
    DLR_AUTO_FREE struct dlr_ckpt_region *regions = calloc(n, sizeof(*regions));
    DLR_AUTO_FREE const void **src = calloc(n, sizeof(*src));
    DLR_AUTO_FREE bool *there = calloc(n, sizeof(*there));
    const struct dlr_slot_owner owner = {1, 0, 1};
    static const atomic_bool stop;
    static const _Atomic int64_t never;
    struct dlr_copy_job job = {
        .src = src, .on_device = there, .stop = &stop, .deadline_ns = &never};
    struct dlr_slot_plan *plan = NULL;
    struct dlr_slot *slot = NULL;
    struct dlr_copy *copy = NULL;

    for (unsigned i = 0; i < n; i++) {
        regions[i] = (struct dlr_ckpt_region){.name = "r",
                                              .dtype = "u8",
                                              .item_size = 1,
                                              .ndim = 1,
                                              .global_shape = {bytes},
                                              .local_shape = {bytes}};
        src[i] = (void *)(uintptr_t)(addr + i * bytes);
        there[i] = true;
    }
    job.ops = dlr_device_of(src[0]);
    need(job.ops && job.ops->open(src[0], sums, &job.dev, NULL) == 0 &&
             dlr_slot_plan_new(regions, n, &owner, &plan, NULL) == 0 &&
             dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL) == 0 &&
             dlr_copy_new(1, &copy, NULL) == 0,
         "a slot");
    job.slot = slot;
    job.plan = plan;
    dlr_slot_touch(slot, 8);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t began = dlr_now_ns();

        need(dlr_slot_begin(slot, plan, (struct dlr_version){0, i + 1}, NULL) == 0 &&
                 job.ops->after(job.dev, stream) == 0 && dlr_copy_run(copy, &job) == 0,
             "a snapshot");
        job.ops->release(job.dev);
        printf("%s, sums %s: %.2f GB/s\n", what, sums ? "on" : "off",
               gbs(n * bytes, dlr_now_ns() - began));
    }
    job.ops->close(job.dev);
    dlr_copy_free(copy);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
}

int main(int argc, char **argv)
{
    bool bench = argc == 2 && dlr_streq(argv[1], "bench");

    if (argc != 2 || (!bench && !dlr_streq(argv[1], "check"))) {
        fprintf(stderr, "usage: gpu check|bench\n");
        return 2;
    }
    if (!find_gpu()) {
        puts("skipped: no GPU");
        return 0;
    }
    fill();
    if (!bench) {
        check(false);
        check(true);
        return 0;
    }
    pinned_peak();
    for (int sums = 0; sums < 2; sums++) {
        snapshot("one region of 256 MiB", big, 1, BIG, sums);
        snapshot("13,600 regions of 1,504 bytes", small, SMALLS, SMALL, sums);
    }
    return 0;
}

#endif
