/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks without a job come to load the same version and yet read each file once:
 * each checks its share of a version's files and says what came of it, rank 0 decides.
 * They share nothing but a directory, in which each replaces a small file of its own
 * (man/dlr_persist.5.scd draws it).
 *
 * Nobody believes what is left of an earlier start: an answer repeats the random number
 * of the question, a decision those of the answers.
 */
#ifndef DLR_CKPT_STANDALONE_AGREEMENT_H
#define DLR_CKPT_STANDALONE_AGREEMENT_H

#include <stdint.h>

#include "ckpt/slot/slot.h"
#include "common/base/err.h"

struct dlr_agreement {
    int dirfd, rank, world; /* world >= 2 */
    /* for rank 0 while it says nothing; it waits half of that for others */
    unsigned limit_ms;
    /* 0 and how many ranks made the version of step, by the head of rank 0's file. */
    int (*made_by)(void *arg, uint64_t step, uint32_t *ret_world);
    /* 0: every byte of rank's file of step is right, and it is of so many ranks.
     * Blocking; it calls alive with each block: who reads for long is not taken for one
     * that is gone.
     */
    int (*check)(void *arg, int rank, uint64_t step, uint32_t world,
                 const struct dlr_alive *alive);
    /* Of rank 0, before it decides: nobody will take a version of step `from` or later,
     * until all have written it anew. 0 or -errno. Blocking.
     */
    int (*settle)(void *arg, uint64_t from);
    void *arg;
};

/* Chooses among steps[n] (newest first; rank 0's count) the first of which all files
 * are right: 1 with the step and how many ranks made it; 0: there is none. Each of
 * world ranks calls it at about the same time and returns the same, or fails: then its
 * caller has to read all files. Those of a rank that does not say a word rank 0 reads
 * itself. -ETIMEDOUT: rank 0 does not. -errno of the directory. Blocking.
 */
int dlr_agreement_choose(const struct dlr_agreement *a, const uint64_t *steps,
                         unsigned n, uint64_t *ret_step, uint32_t *ret_world,
                         struct dlr_err *err);

/* Removes rank 0's decision, once all have read it, and whatever word was left. */
void dlr_agreement_forget(int dirfd);

#endif
