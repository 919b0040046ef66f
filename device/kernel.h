/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on the device, as one thread of it sees it: sums of what is fetched, made
 * where it comes from, and the moving of pieces that are too small for a copy of their
 * own. Written once: kernel.cl makes kernels of it, the tests run it on the host.
 */
#ifndef DLR_DEVICE_KERNEL_H
#define DLR_DEVICE_KERNEL_H

#ifdef __OPENCL_C_VERSION__
#define DLR_GLOBAL __global
typedef uchar uint8_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#else
#include <stdint.h>
#define DLR_GLOBAL
#endif

#define DLR_KERNEL_BLOCK 4096u /* bytes that one thread sums */
#define DLR_KERNEL_TABLE 1024u /* words: four tables of CRC32C */

struct dlr_kernel_piece {
    uint64_t src;
    uint32_t bytes; /* > 0 */
    uint32_t at;    /* where it goes */
    uint32_t first; /* its first block's number: blocks are counted over all pieces */
    uint32_t moved; /* by the kernel: nobody else copies it */
};

typedef uint32_t __attribute__((may_alias)) dlr_kernel_word;

/* The piece that block is of. */
static inline uint32_t dlr_kernel_find(const DLR_GLOBAL struct dlr_kernel_piece *list,
                                       uint32_t n, uint32_t block)
{
    uint32_t low = 0, high = n;

    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;

        if (list[mid].first <= block)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Bytes of a block: all of it but in a piece's last one. */
static inline uint32_t dlr_kernel_size(uint32_t bytes, uint32_t from)
{
    return bytes - from < DLR_KERNEL_BLOCK ? bytes - from : DLR_KERNEL_BLOCK;
}

static inline uint32_t dlr_kernel_crc(const DLR_GLOBAL uint8_t *p, uint32_t n,
                                      const DLR_GLOBAL uint32_t *table)
{
    uint32_t crc = ~0u;

    for (; n > 0 && ((uint64_t)p & 3) != 0; n--)
        crc = table[(crc ^ *p++) & 0xff] ^ crc >> 8;
    for (; n >= 4; n -= 4, p += 4) {
        crc ^= *(const DLR_GLOBAL dlr_kernel_word *)p; /* little endian, as a GPU is */
        crc = table[768 + (crc & 0xff)] ^ table[512 + (crc >> 8 & 0xff)] ^
              table[256 + (crc >> 16 & 0xff)] ^ table[crc >> 24];
    }
    for (; n > 0; n--)
        crc = table[(crc ^ *p++) & 0xff] ^ crc >> 8;
    return ~crc;
}

/* Thread 'block' of as many as there are blocks: sums[block] is that block's CRC32C. */
static inline void dlr_kernel_sum(const DLR_GLOBAL struct dlr_kernel_piece *list,
                                  uint32_t n, const DLR_GLOBAL uint32_t *table,
                                  DLR_GLOBAL uint32_t *sums, uint32_t block)
{
    const DLR_GLOBAL struct dlr_kernel_piece *p =
        &list[dlr_kernel_find(list, n, block)];
    uint32_t from = (block - p->first) * DLR_KERNEL_BLOCK;

    sums[block] = dlr_kernel_crc((const DLR_GLOBAL uint8_t *)p->src + from,
                                 dlr_kernel_size(p->bytes, from), table);
}

/* Thread 'thread' of the 'threads' that move a block together: neighbours write
 * neighbouring bytes, since what they write to lies behind a bus.
 */
static inline void dlr_kernel_move(const DLR_GLOBAL struct dlr_kernel_piece *list,
                                   uint32_t n, DLR_GLOBAL uint8_t *to, uint32_t block,
                                   uint32_t thread, uint32_t threads)
{
    const DLR_GLOBAL struct dlr_kernel_piece *p =
        &list[dlr_kernel_find(list, n, block)];
    uint32_t from = (block - p->first) * DLR_KERNEL_BLOCK, size;
    const DLR_GLOBAL uint8_t *src = (const DLR_GLOBAL uint8_t *)p->src + from;

    if (!p->moved)
        return;
    size = dlr_kernel_size(p->bytes, from);
    to += p->at + from;
    if ((((uint64_t)src | (uint64_t)to | size) & 3) == 0) {
        for (uint32_t i = thread; i < size / 4; i += threads)
            ((DLR_GLOBAL dlr_kernel_word *)to)[i] =
                ((const DLR_GLOBAL dlr_kernel_word *)src)[i];
        return;
    }
    for (uint32_t i = thread; i < size; i += threads)
        to[i] = src[i];
}

#endif
