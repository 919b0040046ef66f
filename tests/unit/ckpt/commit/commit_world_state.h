/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the small job around the commit state machine share
 * (tests/unit/ckpt/commit/commit_world.h).
 */
#ifndef DLR_TESTS_CKPT_COMMIT_COMMIT_WORLD_STATE_H
#define DLR_TESTS_CKPT_COMMIT_COMMIT_WORLD_STATE_H

#include "ckpt/commit/commit_state.h"
#include "tests/unit/ckpt/commit/commit_world.h"

enum { NOBODY = 255, WORDS_MAX = 6 * WORLD_STEPS + 1 };
enum { FREE, WRITING, WHOLE, SAFE, GONE };           /* of a slot */
enum { NOTHING, SAVE_AT, COMMIT, ABORTED, PERSIST }; /* the supervisor's words */

struct cell {
    unsigned char step, state;
    unsigned char rejected; /* decided against while it was being written */
};

struct word {
    unsigned char what, step;
};

/* Steps of a later round follow those of the one before: round * world_conf.steps +
 * step.
 */
struct node {
    uint16_t orders, ended;          /* bit per step: ordered; aborted, as known here */
    uint16_t sealed, copied, missed; /* facts, bit per step */
    unsigned char step, known;       /* of the rank; newest commit known here */
    unsigned char heard;             /* words, of world.words */
    /* 1 + the own slot that is being written to the disk; 0 none */
    unsigned char reads;
    struct cell own[2], copy[2]; /* copy: of this rank, on the next node */
};

struct world {
    struct dlr_commit c;
    uint64_t bits[TALLIES * SETS];
    struct node node[WORLD_RANKS];
    struct word words[WORDS_MAX]; /* that somebody may still hear */
    unsigned char nwords;
    /* What the machine said: the newest steps ordered and committed; a bit for each
     * step that is ordered and undecided.
     */
    uint16_t open;
    /* a bit for each step whose bytes are not of one moment, as was told */
    uint16_t torn;
    uint16_t rejected; /* and is known to whoever chooses what is restored */
    unsigned char last, newest;
    unsigned char faults, dead, deaths;
    unsigned char round, kills;
    unsigned char began; /* what the round began from */
    unsigned char disk,
        writes;           /* the newest with a manifest; the one on its way to one */
    unsigned char filed;  /* a bit for each rank whose file of writes is whole */
    unsigned char stored; /* and whose file of disk was, when it got its manifest */
    bool whole;           /* naive only: some step was once safe */
};

static inline uint16_t bit(unsigned step)
{
    return (uint16_t)(1u << step);
}

/* The steps of all rounds, and those up to the end of this one. */
static inline unsigned world_all(void)
{
    return world_conf.steps * (world_conf.rounds ? world_conf.rounds : 1);
}

static inline unsigned world_top(const struct world *w)
{
    return world_conf.steps * (w->round + 1u);
}

static inline struct dlr_version world_version(unsigned s)
{
    unsigned round = s > world_conf.steps;

    return (struct dlr_version){.round = round, .step = s - round * world_conf.steps};
}

/* 0: beyond the steps that are looked at. */
static inline unsigned world_step(struct dlr_version v)
{
    return v.step > world_conf.steps ? 0
                                     : (unsigned)(v.round * world_conf.steps + v.step);
}

/* Makes n a copy of w in which the machine is called next; returns n. */
struct world *world_fork(const struct world *w, struct world *n);

/* The supervisor dies in w, and the next one has learned what the nodes know. */
void world_supervisor_dies(struct world *w);

/* All ranks and their holders are ready in c. */
void world_ready(struct dlr_commit *c, unsigned round);

/* One more of the supervisor's words. */
void world_say(struct world *w, unsigned what, unsigned step);

/* Whether the machine has this step's version open. */
bool world_has_open(const struct world *w, unsigned step);

/* Whether one of these two cells has this step whole. */
bool world_holds(const struct cell *cells, unsigned step);

/* The rank on whose node r's copies are. */
unsigned world_next_to(unsigned r);

/* Counts in world_found what is lost in w. Naive: remembers in w that some step was
 * safe.
 */
void world_check(struct world *w);

/* --- rules (tests/unit/ckpt/commit/commit_world_rules.c): each changes w in place
 */

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
void world_word_arrives(struct world *w, unsigned r, struct word word);
void world_decision_arrives(struct world *w, unsigned r, unsigned s, bool commit);

/* The supervisor hears a fact; why: of a miss. */
void world_hear_sealed(struct world *w, unsigned r, unsigned s);
void world_hear_copied(struct world *w, unsigned r, unsigned s);
void world_hear_missed(struct world *w, unsigned r, unsigned s, const char *why);

/* The deadline of that open version alone passes. */
void world_deadline_passes(struct world *w, unsigned i);

/* --- rounds and the disk (tests/unit/ckpt/commit/commit_world_rounds.c) ----------- */

/* What is being written to the disk, and what it means to the slots. */
void world_write_begins(struct world *w, unsigned r, unsigned s);
bool world_write_ends(struct world *w, unsigned r);
bool world_manifest(struct world *w);

/* The supervisor hears that memory changed while rank r saved s. */
void world_hear_torn(struct world *w, unsigned r, unsigned s);

/* The round ends, these nodes are lost with what they held (a bit each). False: it was
 * the last one. Counts in world_found what the next one would restore and must not.
 */
bool world_round_ends(struct world *w, unsigned lost);

/* --- merged (tests/unit/ckpt/commit/commit_world_merged.c) ------------------------ */

void world_merged_moves(const struct world *w, world_visit_fn *visit, void *arg);

#endif
