/* SPDX-License-Identifier: Apache-2.0 */
/* A small job around the commit state machine: its ranks, their slots and those of
 * their copies, what was said and not yet heard. One state and all that can happen
 * next, for an explorer (tests/unit/ckpt/commit/commit_search.h).
 *
 * Each rank is on its own node; rank r's copies are on node r + 1. A step has a
 * collective in it: no rank is two steps ahead of another. What ranks report are facts
 * that may be delivered at any later time, any number of times, or never; what the
 * supervisor says comes in order (it is one connection), late, or never. A rank takes a
 * slot when its step begins, FREE or DEAD; its node frees one that is older than the
 * newest commit known there, or aborted. A supervisor may die: what it said and nobody
 * heard is lost, the next one goes by the newest commit that a node knows, says it
 * again and aborts what was ordered after it. The naive job decides nothing: each rank
 * saves each step over anything but its newest whole, and loads it.
 *
 * With world_conf.rounds a round ends at any point, and the next one begins from what
 * the real plan chooses (tests/unit/ckpt/commit/commit_world_rounds.c); with
 * world_conf.disk commits are written to files meanwhile.
 *
 * There are far fewer states with world_conf.merged, and the same answers:
 * tests/unit/ckpt/commit/commit_world_merged.c says why.
 */
#ifndef DLR_TESTS_CKPT_COMMIT_COMMIT_WORLD_H
#define DLR_TESTS_CKPT_COMMIT_COMMIT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_RANKS = 3, WORLD_STEPS = 4, WORLD_ROUNDS = 2 }; /* at most */
enum { WORLD_FAULTS_ANY = 255 };

struct world;

/* One rule that is broken, for a test of the explorer. */
enum world_broken {
    WORLD_SOUND,
    /* slots and what is told of them */
    WORLD_UNDECIDED_TAKEN, /* a whole slot is taken before its decision is known */
    WORLD_COMMITTED_TAKEN, /* so is one that is known as committed */
    WORLD_COMMIT_FREES_NEWER,
    WORLD_ABORT_FREES_OLDER,
    WORLD_HOLDER_FREES_EARLY, /* the committed copy, when the next one is whole */
    WORLD_COPIED_EARLY,       /* a copy is told when it begins */
    /* decisions */
    WORLD_COPIES_MISSING,   /* it is committed when all have sealed it */
    WORLD_RANK_MISSING,     /* and when all but the last rank have it */
    WORLD_STAYS_OPEN,       /* what was committed may be decided again */
    WORLD_OLDER_STAYS_OPEN, /* and so what is older */
    WORLD_STALE_COUNTS,     /* a fact about a decided version counts for an open one */
    /* the next supervisor */
    /* what nodes know to be committed is aborted with the rest */
    WORLD_COMMIT_FORGOTTEN,
    WORLD_ORDERS_FORGOTTEN, /* what nodes were ordered is ordered again */
    /* rounds and the disk */
    WORLD_READ_FREED,     /* a slot is freed though it is being written to the disk */
    WORLD_MANIFEST_EARLY, /* a manifest comes with the first file */
    WORLD_TORN_COUNTS,    /* what is torn is aborted and not struck off */
    WORLD_STRUCK_LOADED,  /* what is struck off is restored all the same */
    WORLD_BROKEN_END
};

/* Of the program: what is explored, and what was found by now. */
extern struct world_conf {
    bool naive, merged;
    unsigned ranks, steps;
    unsigned open; /* versions at a time, 0: as many as the machine can */
    /* lost words, failed seals or copies, deadlines in one history, or any; merged: any
     */
    unsigned faults;
    /* supervisors that die in one history, another one takes the round over */
    unsigned deaths;
    /* 0: 1. A later round begins from what the real plan (mpi_launcher/plan/plan.h)
     * chooses; merged: 1
     */
    unsigned rounds;
    unsigned kills; /* nodes that are lost in one history, 0: 1 */
    bool disk;      /* commits are written to files now and then, and read back */
    bool tears;     /* one save in one history is of more than one moment */
    enum world_broken broken;
} world_conf;
extern struct world_found {
    unsigned long lost;  /* a commit that one node's loss can take away */
    unsigned long mixed; /* ranks that would load different versions, or bytes of two */
    unsigned long reused; /* slots of undecided versions that were let go */
    unsigned long twice;  /* orders, decisions: given twice, out of turn, unknown */
    unsigned long stale;  /* facts that were counted again, or for another version */
    /* rounds that begin from less than what is there, or from what is struck */
    unsigned long behind;
    unsigned long unsaid; /* and that nobody says a word about */
    unsigned long restores,
        files; /* rounds that began from something, and from the disk */
    unsigned long commits, open; /* open: the most versions open at a time */
} world_found;

size_t world_size(void);
void world_start(struct world *w);

/* Calls visit with each state that can follow. one_in: a walk that draws its way should
 * take this only once in so many times, or it ends before much has happened.
 */
typedef void world_visit_fn(struct world *next, unsigned one_in, void *arg);
void world_moves(const struct world *w, world_visit_fn *visit, void *arg);

/* Equal for states with equal futures: whichever rank is counted first, whichever slot.
 */
uint64_t world_hash(struct world *w);

/* What of this state can matter to anybody, once node lost is gone (NOBODY: none is):
 * the decisions, and who holds which of the versions that are not over. Calls put with
 * a hash of it; merged: with one for each node that may be lost here.
 */
typedef void world_outcome_fn(uint64_t outcome, void *arg);
void world_outcomes(const struct world *w, world_outcome_fn *put, void *arg);

/* Whether anything was found that must not be. */
bool world_is_bad(void);

#endif
