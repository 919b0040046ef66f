/* SPDX-License-Identifier: Apache-2.0 */
/* When each copy of an iteration may begin and must have ended: the same copies as
 * without, as early as the room lets them, so that they run beside the operators.
 */
#ifndef DLR_CHUNK_PREFETCH_H
#define DLR_CHUNK_PREFETCH_H

#include "chunk/simulate.h"

#define DLR_CHUNK_PREFETCH_MOMENTS 8 /* that a chunk comes before its use, at most */

/* Moments of an iteration; where end is before begin, it is of the next one. */
struct dlr_chunk_copy {
    uint32_t chunk;
    bool up;
    uint32_t begin; /* from the beginning of this moment on */
    uint32_t end;   /* and before this one begins */
};

/* The copies of the iteration that repeats, in the order of their moves. In each moment
 * what is there, comes and goes fits into the budget. *ret: free(), NULL where *ret_n
 * is 0. Errors as of dlr_chunk_simulate_moves().
 */
int dlr_chunk_prefetch(const struct dlr_chunk_iteration *it, uint64_t arena,
                       const struct dlr_chunk_policy *policy,
                       struct dlr_chunk_copy **ret, uint32_t *ret_n,
                       struct dlr_chunk_shortage *ret_shortage, struct dlr_err *err);

#endif
