/* SPDX-License-Identifier: Apache-2.0 */
/* How fast each GPU is: copies to and from pinned memory, and a matrix multiply, whose
 * result is looked at, too.
 */
#ifndef DLR_DEVICE_GPU_SPEED_H
#define DLR_DEVICE_GPU_SPEED_H

#include <stdio.h>

/* Measures the GPUs that CUDA shows and writes it to out as gpu_facts.h has it, without
 * the last line. Takes a few seconds, of each 150 MB of its memory and 64 of the
 * host's. Every call may block for ever, as with dlr_nvml_tell(). 0, also where there
 * is no CUDA; -EIO when out takes no more.
 */
int dlr_gpu_speed_tell(FILE *out);

#endif
