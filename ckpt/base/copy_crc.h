/* SPDX-License-Identifier: Apache-2.0 */
/* Copies memory and sums it on the way: each block is read from main memory once, and
 * what is written does not pass through the caches.
 */
#ifndef DLR_CKPT_BASE_COPY_CRC_H
#define DLR_CKPT_BASE_COPY_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Copies bytes from src to dst, which do not overlap, and returns the CRC32C of what it
 * wrote, after crc. src is read once: a program that writes it meanwhile changes what
 * is kept and never whether its sum fits. Fastest where dst is a multiple of 64.
 * Another thread that is told of the copy sees all of dst.
 */
uint32_t dlr_copy_crc(void *dst, const void *src, size_t bytes, uint32_t crc);

#endif
