/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_check.h"

#ifndef DLR_HAVE_CUDA
typedef int no_gpu_bench; /* a file may not be empty */
#else

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/client/copy.h"
#include "ckpt/client/device_crc.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/gpu/gpu_rig.h"

#define ROUNDS 5
#define PIN_LIMIT_MS 60000
#define LOOK_NS 1000000

/* A slot as under a job, in shared memory, and what fills it. */
struct target {
    struct dlr_copy_job job;
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    struct dlr_copy *copy;
};

static double gbs(size_t bytes, int64_t ns)
{
    return (double)bytes / (double)ns;
}

static void pinned_peak(void)
{
    void *host;

    gpu_need(GPU(cuMemHostAlloc)(&host, gpu_bytes, 0) == CUDA_SUCCESS, "pinned memory");
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t began = dlr_now_ns();

        gpu_need(GPU(cuMemcpyDtoHAsync)(host, gpu_big, gpu_bytes, gpu_stream) ==
                         CUDA_SUCCESS &&
                     GPU(cuStreamSynchronize)(gpu_stream) == CUDA_SUCCESS,
                 "a copy from the device");
        printf("peak: copy into pinned memory: %.2f GB/s\n",
               gbs(gpu_bytes, dlr_now_ns() - began));
    }
}

static void make_slot(struct target *t)
{
    int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[] = "dlr-gpu-bench";
    struct dlr_err err;

    gpu_need(fd >= 0, "/dev/shm");
    gpu_need(dlr_slot_create(fd, name, dlr_slot_plan_bytes(t->plan), &t->slot, &err) ==
                 0,
             err.text);
    unlinkat(fd, name, 0);
    close(fd);
}

/* Waits until all of the slot is registered, and tells how long that took. */
static void pin_slot(struct target *t)
{
    const struct timespec look = {0, LOOK_NS};
    size_t bytes = dlr_align_up(dlr_slot_plan_data(t->plan), DLR_SLOT_PAGE);
    char *from = dlr_slot_data(t->slot, t->plan, 0);
    int64_t began = dlr_now_ns(), limit = dlr_now_ms() + PIN_LIMIT_MS;
    size_t last = (bytes - 1) / DLR_DEVICE_HALF * DLR_DEVICE_HALF;

    gpu_need(dlr_pin_new(t->job.ops, t->job.dev, &t->job.pin, NULL) == 0, "a thread");
    dlr_pin_want(t->job.pin, from, bytes);
    while (!dlr_pin_ready(t->job.pin, from + last, bytes - last)) {
        gpu_need(dlr_now_ms() < limit, "the slot was not registered");
        nanosleep(&look, NULL);
    }
    printf("registering a slot beside the steps, pauses included: %.2f GB/s\n",
           gbs(bytes, dlr_now_ns() - began));
}

static const struct {
    const char *name;
    unsigned flags;
} kernels[] = {{"off", 0},
               {"gather", DLR_DEVICE_GATHER},
               {"gather and sum", DLR_DEVICE_GATHER | DLR_DEVICE_SUM}};

static void save(struct target *t, const char *what, const char *with)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t began = dlr_now_ns();

        gpu_need(dlr_slot_begin(t->slot, t->plan, (struct dlr_version){0, i + 1},
                                NULL) == 0 &&
                     t->job.ops->after(t->job.dev, gpu_stream) == 0 &&
                     dlr_copy_run(t->copy, &t->job) == 0,
                 "a snapshot");
        printf("snapshot of %s, kernels %s, %s: %.2f GB/s\n", what, with,
               t->job.pin ? "into a registered slot" : "through the buffer",
               gbs(dlr_slot_plan_data(t->plan), dlr_now_ns() - began));
    }
}

/* n regions of a size, one after the other from addr on. */
static void snapshot(const char *what, CUdeviceptr addr, unsigned n, size_t bytes,
                     unsigned k)
{
    DLR_AUTO_FREE struct dlr_ckpt_region *regions = calloc(n, sizeof(*regions));
    DLR_AUTO_FREE const void **src = calloc(n, sizeof(*src));
    DLR_AUTO_FREE bool *there = calloc(n, sizeof(*there));
    const struct dlr_slot_owner owner = {1, 0, 1};
    static const atomic_bool stop;
    static const _Atomic int64_t never;
    struct target t = {
        {.src = src, .on_device = there, .stop = &stop, .deadline_ns = &never}};

    gpu_need(regions && src && there, "memory");
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
    t.job.ops = dlr_device_of(src[0]);
    gpu_need(t.job.ops &&
                 t.job.ops->open(src[0], kernels[k].flags, &dlr_device_crc32c,
                                 &t.job.dev, NULL) == 0 &&
                 dlr_slot_plan_new(regions, n, &owner, &t.plan, NULL) == 0 &&
                 dlr_copy_new(1, &t.copy, NULL) == 0,
             "what a snapshot takes");
    make_slot(&t);
    t.job.slot = t.slot;
    t.job.plan = t.plan;
    save(&t, what, kernels[k].name);
    pin_slot(&t);
    save(&t, what, kernels[k].name);
    dlr_pin_free(t.job.pin);
    t.job.ops->close(t.job.dev);
    dlr_copy_free(t.copy);
    dlr_slot_unmap(t.slot);
    dlr_slot_plan_free(t.plan);
}

void gpu_bench(void)
{
    char small[64];

    dlr_format(small, sizeof(small), "%u regions of %u bytes", gpu_smalls, GPU_SMALL);
    pinned_peak();
    for (unsigned k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
        snapshot("one region", gpu_big, 1, gpu_bytes, k);
        snapshot(small, gpu_small, gpu_smalls, GPU_SMALL, k);
    }
}

#endif
