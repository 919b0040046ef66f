/* SPDX-License-Identifier: Apache-2.0 */
/* A word of a rank without a job, as it lies in its file (man/dlr_persist.5.scd draws
 * it).
 */
#ifndef DLR_CKPT_STANDALONE_VOTE_H
#define DLR_CKPT_STANDALONE_VOTE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_VOTE_MAGIC 0x31414c44u /* "DLA1" */

enum dlr_vote_verdict {
    DLR_VOTE_ASKED = 1,
    DLR_VOTE_SOUND = 2,
    DLR_VOTE_UNSOUND = 3,
    DLR_VOTE_NONE = 4,
    DLR_VOTE_READING = 5,
};

/* Of a decision the numbers of all ranks follow. Then the CRC32C of all that. */
struct dlr_vote {
    uint32_t magic, rank, world, verdict;
    uint32_t made_by; /* ranks of the version */
    uint32_t beat;    /* another with each word: who says the same goes on working */
    uint64_t nonce;   /* of who says it, in this start */
    uint64_t asked;   /* of an answer: rank 0's */
    uint64_t step;
};
static_assert(sizeof(struct dlr_vote) == 48, "on-disk layout");

/* Bytes of the numbers behind a word: 0 if it is no decision. */
size_t dlr_vote_list(uint32_t rank, uint32_t world, uint32_t verdict);

/* Reads data[bytes] as what rank of world says. A decision's number of rank own (<
 * world) is *ret_heard, else 0. -EBADMSG. Foreign bytes: fuzz target vote.
 */
int dlr_vote_parse(const void *data, size_t bytes, uint32_t rank, uint32_t world,
                   uint32_t own, struct dlr_vote *ret, uint64_t *ret_heard);

#endif
