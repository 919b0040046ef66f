/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, opened when it is there (libnvidia-ml.so.1) and never
 * linked.
 */
#ifndef DLR_DEVICE_NVML_H
#define DLR_DEVICE_NVML_H

#include <stdio.h>

/* Asks the library for all that it says of the node's GPUs and writes it to out as
 * gpu_facts.h has it, without the last line. Every call may block for ever: for a
 * process that does nothing else and can be killed. 0, also where there is no library;
 * -EIO when out takes no more.
 */
int dlr_nvml_tell(FILE *out);

#endif
