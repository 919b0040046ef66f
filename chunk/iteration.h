/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration of a training program as chunks see it: operator by operator, which of
 * them are used, and how much of the device all else takes. Plain data.
 */
#ifndef DLR_CHUNK_ITERATION_H
#define DLR_CHUNK_ITERATION_H

#include <stdint.h>

#define DLR_CHUNK_OPERATOR 48 /* bytes of an operator's name, NUL included */

enum dlr_chunk_intent {
    DLR_CHUNK_READ,
    DLR_CHUNK_WRITE,  /* the device's copy becomes the only newest one */
    DLR_CHUNK_UPDATE, /* the same, of optimizer state: what a checkpoint saves */
    DLR_CHUNK_TAKE,   /* the host takes what the device has written, the copy goes */
};

struct dlr_chunk_use {
    uint32_t chunk;
    enum dlr_chunk_intent intent;
};

/* No chunk twice in one moment. */
struct dlr_chunk_moment {
    char name[DLR_CHUNK_OPERATOR]; /* of the operator */
    uint32_t first, count;         /* of the uses */
    uint64_t others; /* bytes on the device that are not chunks, at most */
};

/* Comes again and again: after the last moment the first one. */
struct dlr_chunk_iteration {
    const struct dlr_chunk_moment *moments;
    const struct dlr_chunk_use *uses;
    const uint64_t *bytes; /* of each chunk */
    uint32_t n, chunks;    /* moments, chunks */
};

#endif
