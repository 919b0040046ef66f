/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA device's handle, and how windows of a snapshot are fetched with it: what
 * struct dlr_device_ops says of the functions of these names. For device/ only.
 */
#ifndef DLR_DEVICE_CUDA_FETCH_H
#define DLR_DEVICE_CUDA_FETCH_H

#ifdef DLR_HAVE_CUDA

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda_driver.h"
#include "device/device.h"
#include "device/kernels.h"
#include "device/stalls.h"

#define DLR_CUDA_PITCH_MAX INT32_MAX /* every device takes at least this */
#define DLR_CUDA_EVENT (CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC)

struct dlr_cuda_window {
    CUevent there; /* its copies */
    unsigned char *to;
    CUdeviceptr to_dev; /* the same for kernels */
};

struct dlr_device {
    CUcontext ctx;
    CUdevice device;
    bool retained;        /* ctx is the device's primary one, and we hold it */
    CUstream stream;      /* of the copies */
    CUevent begun;        /* what the caller's stream had at begin */
    CUevent fetched;      /* all copies of the snapshot */
    unsigned char *stage; /* pinned, two halves */
    CUdeviceptr stage_dev;
    struct dlr_cuda_window *windows;
    unsigned nwindows;
    struct dlr_kernels *kernels; /* NULL: none are used */
    uint32_t turn;               /* the last snapshot that was begun */
    struct dlr_stalls stalls;
};

int dlr_cuda_result(CUresult r);

/* In the device's context: there may be n windows. */
CUresult dlr_cuda_grow(struct dlr_device *dev, unsigned n);

int dlr_cuda_reserve(struct dlr_device *dev, unsigned windows);
bool dlr_cuda_ahead(struct dlr_device *dev, void *to);
void dlr_cuda_clear(struct dlr_device *dev, unsigned window, void *to);
int dlr_cuda_fetch(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                   size_t bytes);
int dlr_cuda_fetch_rows(struct dlr_device *dev, unsigned window, size_t at,
                        const void *src, size_t size, size_t rows, ptrdiff_t pitch);
bool dlr_cuda_sum(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                  size_t bytes);
int dlr_cuda_flush(struct dlr_device *dev, unsigned window);
bool dlr_cuda_expect(struct dlr_device *dev, unsigned window, size_t at, size_t bytes,
                     uint32_t *ret_crc);
int dlr_cuda_wait(struct dlr_device *dev, unsigned window, const void **ret_host);

#endif
#endif
