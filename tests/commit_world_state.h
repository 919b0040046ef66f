/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the small job around the commit state machine share (tests/commit_world.h). */
#ifndef DLR_TESTS_COMMIT_WORLD_STATE_H
#define DLR_TESTS_COMMIT_WORLD_STATE_H

#include "ckpt/commit_state.h"
#include "tests/commit_world.h"

enum { NOBODY = 255, WORDS_MAX = 4 * WORLD_STEPS + 1 };
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
    /* What the machine said: the newest steps ordered and committed; a bit for each step that is
     * ordered and undecided.
     */
    unsigned char last, newest, open;
    unsigned char faults, dead, deaths;
    bool whole; /* naive only: some step was once safe */
};

static inline unsigned char bit(unsigned step)
{
    return (unsigned char)(1u << step);
}

/* Makes n a copy of w in which the machine is called next; returns n. */
struct world *world_fork(const struct world *w, struct world *n);

/* The supervisor dies in w, and the next one has learned what the nodes know. */
void world_supervisor_dies(struct world *w);

/* Whether the machine has this step's version open. */
bool world_has_open(const struct world *w, unsigned step);

/* Whether one of these two cells has this step whole. */
bool world_holds(const struct cell *cells, unsigned step);

/* The rank on whose node r's copies are. */
unsigned world_next_to(unsigned r);

/* Counts in world_found what is lost in w. Naive: remembers in w that some step was safe. */
void world_check(struct world *w);

/* --- rules (tests/commit_world_rules.c): each changes w in place ----------------------- */

struct cell *world_cell(struct cell *cells, unsigned state, unsigned step);

/* Rank r has a slot that is being written. */
bool world_writes(const struct world *w, unsigned r);

/* Rank r may begin its next step. */
bool world_may_begin(const struct world *w, unsigned r);
void world_begin(struct world *w, unsigned r);
void world_seal(struct world *w, unsigned r, bool good);

/* What r holds whole is sent to the next node, which has a slot for it, or false. */
bool world_copy_begins(struct world *w, unsigned r, unsigned s);
/* A copy of r's that is on its way: false when it cannot end well. */
bool world_copy_is_whole(struct world *w, unsigned r, unsigned k);
void world_copy_fails(struct world *w, unsigned r, unsigned k);

void world_order_arrives(struct world *w, unsigned r, unsigned s);
void world_decision_arrives(struct world *w, unsigned r, unsigned s, bool commit);

/* The supervisor hears a fact; why: of a miss. */
void world_hear_sealed(struct world *w, unsigned r, unsigned s);
void world_hear_copied(struct world *w, unsigned r, unsigned s);
void world_hear_missed(struct world *w, unsigned r, unsigned s, const char *why);

/* The deadline of that open version alone passes. */
void world_deadline_passes(struct world *w, unsigned i);

/* --- merged (tests/commit_world_merged.c) ---------------------------------------------- */

void world_merged_moves(const struct world *w, world_visit_fn *visit, void *arg);

#endif
