/* SPDX-License-Identifier: Apache-2.0 */
/* A hash for tables in memory: not for what is written or sent, and no protection from
 * who picks the bytes.
 */
#ifndef DLR_COMMON_BASE_HASH_H
#define DLR_COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a (draft-eastlake-fnv). */
static inline uint32_t dlr_hash(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint32_t h = 2166136261u;

    while (size--)
        h = (h ^ *p++) * 16777619u;
    return h;
}

#endif
