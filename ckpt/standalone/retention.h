/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: how long a rank keeps its files of older versions, and those that are
 * not of its line.
 */
#ifndef DLR_CKPT_STANDALONE_RETENTION_H
#define DLR_CKPT_STANDALONE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/standalone/files.h"
#include "common/base/err.h"

/* By what a rank's files of this start are told from others. Plain data of its owner.
 */
struct dlr_standalone_own {
    int dirfd, rank, world;
    char program[DLR_META_PROGRAM_MAX]; /* what it is called; or empty */
    bool together;                      /* the ranks of a start come at the same time */
    uint64_t opened_ns;
    bool locked;   /* nobody else saves as this rank: what goes may be written over */
    bool begun;    /* the line is known: */
    uint64_t line; /* that they are of, */
    uint64_t since_ns;     /* and sealed from then on */
    uint64_t first;        /* the first step that this start saves */
    bool goes_on;          /* from the version of a step: */
    uint64_t from, parent; /* and the line of that, 0: not known */
    bool of_another;       /* which another program has saved */
    bool cleared;          /* nothing is left of what it goes on from */
    bool words;            /* of the choice of that version may be there */
    bool took_over;        /* what is not of this line has made way */
    bool settled;          /* there are as many whole versions of it as are kept */
    bool told_mixed;
};

/* This rank's files of steps in [from, to); rank 0's are also those of ranks that are
 * no more, as the world was larger before.
 */
struct dlr_standalone_which
dlr_standalone_own_files(const struct dlr_standalone_own *own, uint64_t from,
                         uint64_t to);

/* What is saved goes on from step of that line (dlr_standalone_line_after()), which a
 * program of that name has saved: when it is another, one line says so.
 */
void dlr_standalone_lineage_go_on(struct dlr_standalone_own *own, uint64_t step,
                                  uint64_t parent, const char *program);

/* Before the file of step is written: sets aside what ranks of a start that is over
 * have left of that step in the same line, which would make a version with it. Rank 0
 * looks for all, the others at rank 0's.
 */
int dlr_standalone_part(struct dlr_standalone_own *own, uint64_t step,
                        struct dlr_err *err);

/* Before the first step is saved: finds the line, key's where several ranks go on from
 * nothing, and sets aside what must not be mixed with it.
 */
int dlr_standalone_begin(struct dlr_standalone_own *own, uint64_t key, uint64_t step,
                         struct dlr_err *err);

/* After the file of step `written`: what it makes superfluous goes, and nothing before
 * it is durable. What is older than the second newest version goes with the file that
 * makes the newest one complete, whose rank looks at the heads of all, as rank 0 does;
 * others remove, with a later file, what is no version any more. 0 or -errno. Blocking.
 */
int dlr_standalone_drop_old(struct dlr_standalone_own *own, uint64_t written,
                            struct dlr_err *err);

#endif
