/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the stand-in for the CUDA driver knows: its device's, and of the host its
 * own and what was registered.
 */
#ifndef DLR_TESTS_SUPPORT_FAKE_CUDA_MEMORY_H
#define DLR_TESTS_SUPPORT_FAKE_CUDA_MEMORY_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* Where the host finds a byte of the device; NULL: it is none. */
char *fake_to_host(uintptr_t address);

/* Of an address that is the device's: which one, and what cuPointerGetAttribute() says
 * of its context.
 */
int fake_memory_device(uintptr_t address);
CUresult fake_memory_context(uintptr_t address, CUcontext *ret);
CUcontext fake_context(int device);

struct fake_pinned; /* one allocation or registration of host memory */

/* The one that holds all of these bytes; NULL: none. */
struct fake_pinned *fake_pinned_of(const void *p, size_t bytes);
/* A copy to it is under way, or is over. */
void fake_pinned_begun(struct fake_pinned *pinned);
void fake_pinned_over(struct fake_pinned *pinned);

#endif
