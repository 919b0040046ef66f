/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the commit state machine, for its own source and for the tests that copy
 * it.
 */
#ifndef DLR_CKPT_COMMIT_COMMIT_STATE_H
#define DLR_CKPT_COMMIT_COMMIT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/commit/commit.h"
#include "ckpt/commit/schedule.h"

/* Who has done it: set 0 of a rank's own node, set h of its holder h. The ready of a
 * round are the first tally; an open version's have sealed it, or have its copy.
 */
enum { READY, FIRST_OPEN, TALLIES = FIRST_OPEN + DLR_COMMIT_OPEN_MAX };
enum { SETS = 1 + DLR_COMMIT_COPIES_MAX };

struct open {
    bool used;
    struct dlr_version v;
    int64_t reached_ms;    /* its step was known as reached; -1: not yet */
    int64_t first_seal_ms; /* -1: none */
};

struct dlr_commit {
    struct dlr_commit_conf conf;
    struct dlr_commit_ops ops;
    void *arg;

    bool running;
    uint32_t round;
    unsigned world;
    uint64_t *sets; /* TALLIES * SETS bitmaps of words() each */
    unsigned count[TALLIES][SETS];

    struct dlr_schedule when;
    bool has_newest;
    struct dlr_version newest;
    struct open open[DLR_COMMIT_OPEN_MAX];
    uint64_t last_step; /* newest step of this round that was ever ordered */
    uint64_t wanted;    /* newest step that a rank wants a version of; 0: none */
    unsigned asked;     /* versions ordered for that */
    int64_t hold_ms;    /* nothing is ordered before this */
    int64_t backoff_ms; /* of the next such abort */
};

#endif
