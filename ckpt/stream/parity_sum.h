/* SPDX-License-Identifier: Apache-2.0 */
/* Slots that are made of others' slots by parity: a parity shard of a set's snapshots
 * while they come in, or a snapshot that was lost, of what is left of its set. What
 * comes is added block by block; no more than the sum is kept.
 *
 * The image of a snapshot is its slot file behind the state page; of a parity shard,
 * its data. The loop's thread owns all of this; jobs of d->sum see only their sum.
 */
#ifndef DLR_CKPT_STREAM_PARITY_SUM_H
#define DLR_CKPT_STREAM_PARITY_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/stream/state.h"

struct dlr_parity_sum;

/* D_SUM: this slot is to be made of those. An order for every version (a parity shard)
 * holds for the round, one for a single version until its D_DONE.
 */
void dlr_parity_sum_begin(struct dlr_data *d, const struct dlr_local_msg *msg);
/* A round has begun: no order of another one counts. */
void dlr_parity_sum_round(struct dlr_data *d);
/* Closes sums that were given up, or are all there. */
void dlr_parity_sum_settle(struct dlr_data *d);

/* True, and its ranks told as copied, when the sum that it would go into is whole
 * already.
 */
bool dlr_parity_sum_known(struct dlr_data *d, int32_t rank, struct dlr_version v);

/* A transfer of rank joins its sum, which gets a slot with the first. 0; -EAGAIN: no
 * slot is free yet; else it cannot. *ret until dlr_parity_sum_leave().
 */
int dlr_parity_sum_join(struct dlr_data *d, int32_t rank, struct dlr_version v,
                        const void *meta, struct dlr_parity_sum **ret);
/* It ended; with rc < 0 the sum is worth nothing. */
void dlr_parity_sum_leave(struct dlr_parity_sum *sum, int32_t rank, int rc);
bool dlr_parity_sum_is_rejected(const struct dlr_parity_sum *sum);

/* On the sum's thread: adds a block of rank's image that begins at off. */
void dlr_parity_sum_add(struct dlr_parity_sum *sum, int32_t rank, uint64_t off,
                        const void *data, size_t bytes);

/* Of a checked meta block: where block i lies in the image, its length and checksum. */
int dlr_parity_sum_block(const struct dlr_parity_sum *sum, const void *meta, uint32_t i,
                         uint64_t *ret_off, size_t *ret_bytes, uint32_t *ret_crc);
/* Bytes of the block that are part of the image: all, or none of a parity shard's. */
size_t dlr_parity_sum_meta(const struct dlr_parity_sum *sum, const void *meta);

#endif
