/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver's functions as they were found in the program. For device/ only. */
#ifndef DLR_DEVICE_CUDA_DRIVER_H
#define DLR_DEVICE_CUDA_DRIVER_H

#ifdef DLR_HAVE_CUDA

#include <cuda.h>
#include <stdbool.h>

/* cuda.h maps some of these names to newer versions. */
#define DLR_CU_FUNCTIONS(X)                                                            \
    X(cuPointerGetAttribute)                                                           \
    X(cuCtxPushCurrent)                                                                \
    X(cuCtxPopCurrent)                                                                 \
    X(cuDeviceGet)                                                                     \
    X(cuDevicePrimaryCtxRetain)                                                        \
    X(cuDevicePrimaryCtxRelease)                                                       \
    X(cuStreamCreate)                                                                  \
    X(cuStreamDestroy)                                                                 \
    X(cuStreamWaitEvent)                                                               \
    X(cuStreamIsCapturing)                                                             \
    X(cuThreadExchangeStreamCaptureMode)                                               \
    X(cuEventCreate)                                                                   \
    X(cuEventDestroy)                                                                  \
    X(cuEventRecord)                                                                   \
    X(cuEventQuery)                                                                    \
    X(cuEventSynchronize)                                                              \
    X(cuMemAlloc)                                                                      \
    X(cuMemFree)                                                                       \
    X(cuMemHostAlloc)                                                                  \
    X(cuMemHostGetDevicePointer)                                                       \
    X(cuMemFreeHost)                                                                   \
    X(cuMemHostRegister)                                                               \
    X(cuMemHostUnregister)                                                             \
    X(cuMemcpyDtoHAsync)                                                               \
    X(cuMemcpyHtoDAsync)                                                               \
    X(cuMemcpyHtoD)                                                                    \
    X(cuMemcpy2DAsync)                                                                 \
    X(cuMemcpy2DUnaligned)                                                             \
    X(cuModuleLoadData)                                                                \
    X(cuModuleUnload)                                                                  \
    X(cuModuleGetFunction)                                                             \
    X(cuLaunchKernel)

#define DLR_CU_POINTER(fn) __typeof__(&fn) p_##fn;
#define DLR_CU_NAMED_POINTER(fn) DLR_CU_POINTER(fn)

/* One pointer per function, called p_<name as cuda.h maps it>. */
extern struct dlr_cu {
    DLR_CU_FUNCTIONS(DLR_CU_NAMED_POINTER)
    /* cuEventElapsedTime by the name that every driver has: CUDA 13 maps it to one of
     * 12.8
     */
    CUresult (*elapsed)(float *ret_ms, CUevent from, CUevent to);
} dlr_cu;

/* Whether they are there: the library is taken only where the program has loaded it
 * already, so that nothing here initialises a GPU. From any thread; to be asked until
 * it is true.
 */
bool dlr_cu_load(void);

#define CU(fn) CU_(fn)
#define CU_(fn) dlr_cu.p_##fn

#endif
#endif
