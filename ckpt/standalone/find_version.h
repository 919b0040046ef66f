/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: which version in the directory is restored, and the word when files
 * are there and make none.
 */
#ifndef DLR_CKPT_STANDALONE_FIND_VERSION_H
#define DLR_CKPT_STANDALONE_FIND_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/client/client.h"
#include "ckpt/slot/meta.h"

/* Filled by dlr_standalone_choose(). */
struct dlr_standalone_found {
    bool chosen;    /* what restore takes: */
    uint32_t world; /* made it; 0: there is nothing */
    uint64_t step;  /* its, */
    /* that all ranks have agreed on for what they save; 0: they have not */
    uint64_t line;
    char program[DLR_META_PROGRAM_MAX]; /* that has saved it; empty: not known */
    struct dlr_err why; /* the first file that was not whole; code 0: none was seen */
};

/* The versions whose heads are right, newest first. -EBADMSG: files are there, and none
 * has such a head.
 */
int dlr_standalone_versions(struct dlr_ckpt *ck, int dirfd,
                            struct dlr_ckpt_version *ret, unsigned max);

/* The newest version that all its ranks have whole, for good: what restore takes is
 * what dlr_ckpt_regions() has told. What is newer is set aside. -EBADMSG with the first
 * file that is not whole: there are versions, none of them is, and nobody has said
 * DLROVER_CKPT_FRESH; they stay as they are. Blocking: reads files and waits for the
 * other ranks.
 */
int dlr_standalone_choose(struct dlr_ckpt *ck, int dirfd,
                          struct dlr_standalone_found *found);

/* Maps the file of a rank of that version. */
int dlr_standalone_open_rank(int dirfd, const struct dlr_standalone_found *found,
                             int rank, struct dlr_slot **ret, struct dlr_err *err);

#endif
