/* SPDX-License-Identifier: Apache-2.0 */
/* What dlrover-gpu asks of the driver to measure it: how many devices, where they are,
 * and its matrix multiply, of which only the elements that it looks at are made. Device
 * FAKE_CUDA_WRONG makes a wrong one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda_memory.h"
#include "tests/support/fake_cuda_speed.h"

#define LOOKED_AT 64u /* device/gpu_speed.c looks at one row and column in so many */

struct multiply {
    CUdeviceptr a, b, c;
    unsigned n;
};

CUresult CUDAAPI cuDeviceGetCount(int *ret)
{
    *ret = 2;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *ret, int size, CUdevice device)
{
    snprintf(ret, (size_t)size, "0000:%02X:00.0", 0x1b + (unsigned)device);
    return CUDA_SUCCESS;
}

void *fake_multiply_of(void **with)
{
    struct multiply *m = malloc(sizeof(*m));

    if (!m)
        abort();
    *m = (struct multiply){*(CUdeviceptr *)with[0], *(CUdeviceptr *)with[1],
                           *(CUdeviceptr *)with[2], *(unsigned *)with[3]};
    return m;
}

void CUDA_CB fake_multiply(void *arg)
{
    struct multiply *m = arg;
    const float *a = (const float *)fake_to_host((uintptr_t)m->a);
    const float *b = (const float *)fake_to_host((uintptr_t)m->b);
    float *c = (float *)fake_to_host((uintptr_t)m->c);
    const char *wrong = getenv("FAKE_CUDA_WRONG");
    unsigned n = m->n;

    for (unsigned i = 0; i < n; i += LOOKED_AT)
        for (unsigned j = 0; j < n; j += LOOKED_AT) {
            float sum = 0;

            for (unsigned k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    if (wrong && atoi(wrong) == fake_memory_device((uintptr_t)m->c))
        c[0]++;
    free(m);
}
