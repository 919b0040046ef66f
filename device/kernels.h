/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of ours on a CUDA device: they sum what is fetched at its source, and move
 * pieces that are too small for a copy of their own into the staging buffer, all of a
 * half in one launch.
 */
#ifndef DLR_DEVICE_KERNELS_H
#define DLR_DEVICE_KERNELS_H

#ifdef DLR_HAVE_CUDA

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda_driver.h"
#include "device/device.h"

struct dlr_kernels; /* opaque; calls are made in the device's context */

/* The PTX, checked in as text (make ptx). */
extern const char dlr_device_ptx[];

/* what: a sum of DLR_DEVICE_SUM, DLR_DEVICE_GATHER. crc stays the caller's, and there.
 */
CUresult dlr_kernels_new(unsigned what, const struct dlr_device_crc *crc,
                         struct dlr_kernels **ret);
struct dlr_kernels *dlr_kernels_free(struct dlr_kernels *k); /* accepts NULL */

/* Before what is added to a half: it is empty again. */
void dlr_kernels_reset(struct dlr_kernels *k, unsigned half);

/* bytes at src go to byte 'at' of the half, ascending. True: a kernel moves them;
 * false: the caller copies them, as all that is large or where nothing is gathered.
 * What there is no room to note is not summed.
 */
bool dlr_kernels_add(struct dlr_kernels *k, unsigned half, uint32_t at, CUdeviceptr src,
                     uint64_t bytes);

/* The same for bytes that are only summed. False: there is no room for all of them. */
bool dlr_kernels_sum(struct dlr_kernels *k, unsigned half, uint32_t at, CUdeviceptr src,
                     uint64_t bytes);

/* Puts the work for the half on stream; to is the half as the device sees it. */
CUresult dlr_kernels_launch(struct dlr_kernels *k, unsigned half, CUdeviceptr to,
                            CUstream stream);

/* After the half has come, from any thread: the CRC32C that bytes [at, at + bytes) had
 * at their source, if it was made; they are not wider than from one multiple of
 * DLR_DEVICE_CUT to the next.
 */
bool dlr_kernels_expect(const struct dlr_kernels *k, unsigned half, uint32_t at,
                        uint32_t bytes, uint32_t *ret_crc);

#endif
#endif
