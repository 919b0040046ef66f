/* SPDX-License-Identifier: Apache-2.0 */
/* The writing side of a slot: a plan says once where each region lies; a snapshot is
 * begun, its blocks are filled in any order, and sealing makes it whole.
 */
#ifndef DLR_CKPT_SLOT_WRITE_H
#define DLR_CKPT_SLOT_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/slot/replica_share.h"
#include "ckpt/slot/slot.h"

struct dlr_slot_plan; /* opaque */

struct dlr_slot_owner {
    uint64_t key;
    int32_t rank;
    uint32_t world;
    struct dlr_share share;
};

/* Lays n regions out, larger items first (dlr_region_align()), without holes; of those
 * that a node keeps once the owner's part. addr and stride are not looked at; names
 * need not outlive the call. -EINVAL and -ERANGE name the region. *ret_plan:
 * dlr_slot_plan_free().
 */
int dlr_slot_plan_new(const struct dlr_ckpt_region *regions, unsigned n,
                      const struct dlr_slot_owner *owner,
                      struct dlr_slot_plan **ret_plan, struct dlr_err *err);
struct dlr_slot_plan *dlr_slot_plan_free(struct dlr_slot_plan *plan); /* accepts NULL */

uint64_t dlr_slot_plan_bytes(const struct dlr_slot_plan *plan); /* of a slot file */
uint64_t dlr_slot_plan_data(const struct dlr_slot_plan *plan);  /* of the data area */
uint32_t dlr_slot_plan_blocks(const struct dlr_slot_plan *plan);

/* The same for ranks that share the same regions, in any order; 0 when none is shared.
 */
uint64_t dlr_slot_plan_shared(const struct dlr_slot_plan *plan);

/* The part of a region that lies in a window of the data area. */
struct dlr_slot_piece {
    unsigned region;
    uint64_t off;   /* in the data area */
    uint64_t at;    /* in the region */
    uint64_t bytes; /* > 0 */
};

/* The first piece in [from, to); false when none is left there. */
bool dlr_slot_plan_piece(const struct dlr_slot_plan *plan, uint64_t from, uint64_t to,
                         struct dlr_slot_piece *ret);

/* Begins a snapshot: state OPEN, meta block without checksums. used[i] is the length of
 * region i where it is a BLOB (the rest of used is ignored; NULL: all at full length).
 * -ENOSPC when the slot is too small.
 */
int dlr_slot_begin(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                   struct dlr_version version, const uint64_t *used);

/* Where data byte off of a begun snapshot lies. */
void *dlr_slot_data(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                    uint64_t off);

/* CRC32C of block i; several threads may set different blocks. */
void dlr_slot_set_crc(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                      uint32_t i, uint32_t crc);

/* Makes it whole: checksums of the meta block, then state SEALED. */
void dlr_slot_seal(struct dlr_slot *slot, const struct dlr_slot_plan *plan);

#endif
