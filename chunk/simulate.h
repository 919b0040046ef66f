/* SPDX-License-Identifier: Apache-2.0 */
/* Plays an iteration through the policy that the engine asks, with the bytes that it
 * has: how much is copied, and whether it fits at all. Pure, exact, no time.
 */
#ifndef DLR_CHUNK_SIMULATE_H
#define DLR_CHUNK_SIMULATE_H

#include "chunk/iteration.h"
#include "chunk/policy.h"
#include "common/base/err.h"

/* Bytes of one iteration, once it repeats; of the 64th where it never does. */
struct dlr_chunk_counts {
    uint64_t up, down; /* to the device, and from it */
    uint64_t peak;     /* of chunks on the device */
    /* More down for a save in each iteration: with a copy of its own, and with chunks
     * that leave as part of it.
     */
    uint64_t save_copy, save_chunks;
    uint32_t iterations; /* played until then */
};

/* Where chunks have no room. */
struct dlr_chunk_shortage {
    uint32_t moment;
    uint64_t missing; /* bytes, in this moment */
    uint64_t least;   /* the arena in which the iteration fits */
};

/* What chunks may take in a moment of an arena of so many bytes: others of this moment
 * and of the next are spared, 0 where they are more than all.
 */
uint64_t dlr_chunk_budget(const struct dlr_chunk_iteration *it, uint64_t arena,
                          uint32_t moment);

/* The smallest arena that does: whatever the policy, each moment needs what it uses. */
uint64_t dlr_chunk_least(const struct dlr_chunk_iteration *it);

/* -ENOSPC: it does not fit, *ret_shortage says where, err says it in a line; -EINVAL: no
 * moments, or a use of a chunk that is none; -ENOMEM.
 */
int dlr_chunk_simulate(const struct dlr_chunk_iteration *it, uint64_t arena,
                       const struct dlr_chunk_policy *policy,
                       struct dlr_chunk_counts *ret,
                       struct dlr_chunk_shortage *ret_shortage, struct dlr_err *err);

/* What goes and comes in the iteration that repeats, in order; in one moment those that
 * go are first.
 */
struct dlr_chunk_move {
    uint32_t chunk;
    uint32_t moment; /* it is there for this one, or is not there any more */
    uint32_t used;   /* of one that goes: the moment of its last use, maybe of the
                      * iteration before */
    bool up;         /* it comes */
    bool copied;     /* one that goes, and is written back */
};

/* The same, with these moves. *ret: free(), NULL where *ret_n is 0. -EDOM besides: no
 * iteration repeats.
 */
int dlr_chunk_simulate_moves(const struct dlr_chunk_iteration *it, uint64_t arena,
                             const struct dlr_chunk_policy *policy,
                             struct dlr_chunk_move **ret, uint32_t *ret_n,
                             struct dlr_chunk_shortage *ret_shortage,
                             struct dlr_err *err);

#endif
