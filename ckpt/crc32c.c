/* SPDX-License-Identifier: Apache-2.0 */
#include <isa-l/crc.h>

#include "ckpt/slot.h"

#define STEP (1u << 30) /* ISA-L takes an int */

uint32_t dlr_crc32c(uint32_t crc, const void *buf, size_t size)
{
    const unsigned char *p = buf;

    /* ISA-L neither sets the register at the start nor inverts it at the end. */
    crc = ~crc;
    while (size > 0) {
        size_t n = size < STEP ? size : STEP;

        crc = crc32_iscsi((unsigned char *)p, (int)n, crc);
        p += n;
        size -= n;
    }
    return ~crc;
}
