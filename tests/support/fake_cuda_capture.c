/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_cuda_capture.h"

#include <stdatomic.h>

#include "tests/support/fake_cuda.h"

static _Atomic(CUstream) captured; /* one at a time */
static atomic_uint broken, kept;
static __thread CUstreamCaptureMode mode; /* 0: the global one, as in the driver */

void fake_cuda_capture(CUstream stream, bool on)
{
    atomic_store(&captured, on ? stream : NULL);
}

unsigned fake_cuda_broken(void)
{
    return atomic_load(&broken);
}

unsigned fake_cuda_kept(void)
{
    return atomic_load(&kept);
}

bool fake_capture_takes(CUstream stream)
{
    bool takes = stream && atomic_load(&captured) == stream;

    if (takes)
        atomic_fetch_add(&kept, 1);
    return takes;
}

void fake_capture_unsafe(void)
{
    if (atomic_load(&captured) && mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        atomic_fetch_add(&broken, 1);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode was = mode;

    mode = *other;
    *other = was;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    CUstream now = atomic_load(&captured);

    if (!stream && now)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *ret = stream && now == stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                   : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
