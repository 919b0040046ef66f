/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the small job around the commit state machine share (tests/commit_world.h). */
#ifndef DLR_TESTS_COMMIT_WORLD_STATE_H
#define DLR_TESTS_COMMIT_WORLD_STATE_H

#include "ckpt/commit_state.h"
#include "tests/commit_world.h"

enum { NOBODY = 255, WORDS_MAX = 3 * WORLD_STEPS };
enum { FREE, WRITING, WHOLE, SAFE, GONE };  /* of a slot */
enum { NOTHING, SAVE_AT, COMMIT, ABORTED }; /* the supervisor's words */

struct cell {
    unsigned char step, state;
    unsigned char doomed; /* decided against while it was being written */
};

struct word {
    unsigned char what, step;
};

struct node {
    unsigned char step, known;   /* of the rank; newest commit known here */
    unsigned char orders, ended; /* bit per step: ordered; aborted, as known here */
    unsigned char sealed, copied, missed; /* facts, bit per step */
    unsigned char heard;                  /* words, of world.words */
    struct cell own[2], copy[2];          /* copy: of this rank, on the next node */
};

struct world {
    struct dlr_commit c;
    uint64_t bits[TALLIES * SETS];
    struct node node[WORLD_RANKS];
    struct word words[WORDS_MAX]; /* that somebody may still hear */
    unsigned char nwords;
    unsigned char ordered, decided; /* bit per step */
    unsigned char faults, dead;
    bool whole; /* naive only: some step was once safe */
};

static inline unsigned char bit(unsigned step)
{
    return (unsigned char)(1u << step);
}

/* Makes n a copy of w in which the machine is called next; returns n. */
struct world *world_fork(const struct world *w, struct world *n);

/* Whether the machine has this step's version open. */
bool world_has_open(const struct world *w, unsigned step);

/* Whether one of these two cells has this step whole. */
bool world_holds(const struct cell *cells, unsigned step);

/* The rank on whose node r's copies are. */
unsigned world_next_to(unsigned r);

/* Counts in world_found what is lost in w. Naive: remembers in w that some step was safe. */
void world_check(struct world *w);

#endif
