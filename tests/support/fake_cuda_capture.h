/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are captured from streams of the stand-in for the CUDA driver. */
#ifndef DLR_TESTS_SUPPORT_FAKE_CUDA_CAPTURE_H
#define DLR_TESTS_SUPPORT_FAKE_CUDA_CAPTURE_H

#include <cuda.h>
#include <stdbool.h>

/* Whether what the stream is given goes into a graph instead of being done. */
bool fake_capture_takes(CUstream stream);
/* A call is made that breaks off a capture unless its thread said otherwise. */
void fake_capture_unsafe(void);

#endif
