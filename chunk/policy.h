/* SPDX-License-Identifier: Apache-2.0 */
/* Which chunk leaves the device when room is needed: several answers behind one
 * interface.
 */
#ifndef DLR_CHUNK_POLICY_H
#define DLR_CHUNK_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* A chunk on the device that is not in use. */
struct dlr_chunk_candidate {
    uint32_t chunk;
    uint64_t next;   /* moments until it is used again */
    uint64_t used;   /* the moment of its last use */
    uint64_t loaded; /* the moment in which it came */
    bool dirty;      /* must be written back */
};

struct dlr_chunk_policy {
    const char *name;
    const char *help;
    bool exclusive; /* a chunk is in one place only: each move is a copy */
    bool fixed;     /* as many as fit stay for ever, the others pass through */
    /* Above 0: a goes before b. NULL: as they are numbered. */
    int (*compare)(const struct dlr_chunk_candidate *a,
                   const struct dlr_chunk_candidate *b);
};

/* NULL: the default one. Returns NULL for a name that is none. */
const struct dlr_chunk_policy *dlr_chunk_policy_find(const char *name);

/* The one at this place of the table, the default first; NULL behind the last. */
const struct dlr_chunk_policy *dlr_chunk_policy_at(unsigned i);

/* Whether a goes before b; of equal ones the smaller number. */
bool dlr_chunk_policy_before(const struct dlr_chunk_policy *policy,
                             const struct dlr_chunk_candidate *a,
                             const struct dlr_chunk_candidate *b);

#endif
