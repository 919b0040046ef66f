/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a model fits: bytes of chunks on each node and each device, before any job.
 * Tensors are not known then, so chunks are counted as if all were full, and a margin
 * stands for what maps of models leave empty.
 */
#ifndef DLR_CHUNK_CAPACITY_H
#define DLR_CHUNK_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_CHUNK_AHEAD 2   /* chunks that are fetched before they are used */
#define DLR_CHUNK_MARGIN 20 /* one part in so many is for chunks that are not full */
#define DLR_CHUNK_GPUS_MAX (1u << 20)

struct dlr_chunk_job {
    uint64_t params;
    unsigned nodes, gpus;   /* gpus: of all nodes, a rank each */
    unsigned layers;        /* of the model: the largest operator uses one of them */
    uint64_t device_bytes;  /* of each GPU */
    uint64_t program_bytes; /* of each rank, beside chunks */
    unsigned spare_percent; /* of frames: 100, and Adam never waits */
    /* Where versions are beside their node, as struct dlr_redundancy_conf has it: copies
     * 0: nowhere; members 0: copies are whole, else parity of so many nodes.
     */
    unsigned copies, members;
    bool unprotected; /* no versions at all */
};

/* Chunks are counted on the node, or on the device, that has most. With parity few nodes
 * may hold it, each for a whole set.
 */
struct dlr_chunk_capacity {
    uint64_t elems;               /* of a chunk */
    uint64_t param_bytes;         /* of a 16-bit chunk */
    uint64_t frame_bytes;         /* of an optimizer chunk */
    uint64_t chunks, rank_chunks; /* of the model; of the rank that has most */
    unsigned ranks;               /* of a node */
    uint64_t params, live,
        before;              /* on a node: 16-bit chunks; frames: in use, of the */
    uint64_t spares, others; /* version before, to spare, for other nodes */
    uint64_t margin_bytes;   /* of all these */
    uint64_t node_bytes;     /* of all these, and of the programs */
    uint64_t layer, margin;  /* on a device: chunks of a layer, for those not full */
    uint64_t device_least;   /* bytes */
    uint64_t sent, received; /* bytes of a save that a node sends and gets */
};

/* -EINVAL with text: a number that cannot be, fewer nodes than the copies need;
 * -EOVERFLOW with text: more bytes than can be counted.
 */
int dlr_chunk_capacity(const struct dlr_chunk_job *job, struct dlr_chunk_capacity *ret,
                       struct dlr_err *err);

#endif
