/* SPDX-License-Identifier: Apache-2.0 */
/* Where each tensor of a model lies: equal chunks of elements, the same offsets in the
 * lists of 16-bit parameters, of 32-bit masters, of momenta and of variances.
 */
#ifndef DLR_CHUNK_MAP_H
#define DLR_CHUNK_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* Elements of a chunk are a multiple of this: each 32-bit list begins at a check block
 * of 1 MiB, the three of them fill whole pages of 2 MiB.
 */
#define DLR_CHUNK_UNIT (UINT64_C(1) << 19)
#define DLR_CHUNK_UNITS_MAX 128 /* elements of the largest chunk, in these units */
#define DLR_CHUNK_USUAL                                                                \
    (16 * DLR_CHUNK_UNIT)   /* where the search finds nothing better */
#define DLR_CHUNK_ALIGN 128 /* elements between the beginnings of tensors */
#define DLR_CHUNK_TENSORS_MAX (UINT32_C(1) << 24)
#define DLR_CHUNK_ELEMS_MAX (UINT64_C(1) << 44) /* of a tensor, and of all of them */

enum dlr_chunk_type {
    DLR_CHUNK_F16,
    DLR_CHUNK_BF16,
    DLR_CHUNK_TYPES,
};

/* Of a tensor: */
#define DLR_CHUNK_FROZEN 1u /* never updated: no optimizer chunk */
#define DLR_CHUNK_KEPT 2u   /* the program's own memory: in no chunk */

#define DLR_CHUNK_UNTIED UINT32_MAX

/* In the order in which the program makes them. Tensors with the same module that follow
 * each other share a chunk where they fit into one.
 */
struct dlr_chunk_tensor {
    const char *name; /* no two of the same */
    uint32_t module;
    uint32_t group; /* of the optimizer: with settings of its own */
    uint32_t
        tied; /* the earlier tensor whose memory this one is, or DLR_CHUNK_UNTIED */
    uint64_t elems;
    enum dlr_chunk_type type;
    unsigned flags;
};

/* A tensor longer than a chunk begins at offset 0 and goes on in the chunks behind. Of
 * one that is KEPT or has no elements there are 0 chunks.
 */
struct dlr_chunk_place {
    uint32_t chunk, chunks;
    uint64_t offset; /* elements, in the first */
};

struct dlr_chunk_info {
    uint64_t used; /* elements, up to the end of the last tensor */
    enum dlr_chunk_type type;
    bool frozen;
    bool resident; /* small groups, together: stays on the device */
};

enum dlr_chunk_list {
    DLR_CHUNK_PARAM,  /* in the 16-bit chunk */
    DLR_CHUNK_MASTER, /* these three in the optimizer chunk, one behind the other */
    DLR_CHUNK_MOMENTUM,
    DLR_CHUNK_VARIANCE,
};

struct dlr_chunk_map; /* opaque; only read once it is made */

/* elems: of a chunk, a multiple of DLR_CHUNK_UNIT, or 0: the size that wastes least. The
 * tensors are read during the call. *ret: dlr_chunk_map_free(). -EINVAL: err names the
 * tensor; -ENOMEM.
 */
int dlr_chunk_map_new(const struct dlr_chunk_tensor *tensors, uint32_t n,
                      uint64_t elems, struct dlr_chunk_map **ret, struct dlr_err *err);
struct dlr_chunk_map *dlr_chunk_map_free(struct dlr_chunk_map *map);

uint64_t dlr_chunk_map_elems(const struct dlr_chunk_map *map);  /* of a chunk */
uint32_t dlr_chunk_map_chunks(const struct dlr_chunk_map *map); /* how many */
uint64_t
dlr_chunk_map_wasted(const struct dlr_chunk_map *map); /* elements of no tensor */

/* The same of ranks that have the same model in the same chunks. */
uint64_t dlr_chunk_map_hash(const struct dlr_chunk_map *map);

/* tensor: 0 to n - 1; chunk: below dlr_chunk_map_chunks(). */
struct dlr_chunk_place dlr_chunk_map_place(const struct dlr_chunk_map *map,
                                           uint32_t tensor);
struct dlr_chunk_info dlr_chunk_map_info(const struct dlr_chunk_map *map,
                                         uint32_t chunk);

/* The rank, of so many, whose optimizer chunk it is. */
uint32_t dlr_chunk_owner(uint32_t chunk, uint32_t ranks);

/* Bytes from the beginning of the 16-bit chunk, or of the optimizer chunk. */
uint64_t dlr_chunk_map_at(const struct dlr_chunk_map *map, enum dlr_chunk_list list,
                          uint64_t offset);

#endif
