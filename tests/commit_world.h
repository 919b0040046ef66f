/* SPDX-License-Identifier: Apache-2.0 */
/* A small job around the commit state machine: its ranks, their slots and those of their copies,
 * what was said and not yet heard. One state and all that can happen next, for an explorer.
 *
 * Each rank is on its own node; rank r's copies are on node r + 1. A step has a collective in
 * it: no rank is two steps ahead of another. What ranks report are facts that may be delivered
 * at any later time, any number of times, or never; what the supervisor says comes in order (it
 * is one connection), late, or never. A rank takes a slot when its step begins, FREE or DEAD; its
 * node frees one that is older than the newest commit known there, or aborted. The naive job
 * decides nothing: each rank saves each step over anything but its newest whole.
 */
#ifndef DLR_TESTS_COMMIT_WORLD_H
#define DLR_TESTS_COMMIT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_RANKS = 3, WORLD_STEPS = 4 }; /* at most */

struct world;

/* Of the program: what is explored, and what was found by now. */
extern struct world_conf {
    bool naive;
    unsigned ranks, steps;
    unsigned open;   /* versions at a time, 0: as many as the machine can */
    unsigned faults; /* lost words, failed seals or copies, deadlines in one history */
} world_conf;
extern struct world_found {
    unsigned long lost;          /* a commit that one node's loss can take away */
    unsigned long reused;        /* slots of undecided versions that were taken */
    unsigned long twice;         /* orders and decisions given twice or out of turn */
    unsigned long commits, open; /* open: the most versions open at a time */
} world_found;

size_t world_size(void);
void world_start(struct world *w);

/* Calls visit with each state that can follow. one_in: a walk that draws its way should take
 * this only once in so many times, or it ends before much has happened.
 */
typedef void world_visit_fn(struct world *next, unsigned one_in, void *arg);
void world_moves(const struct world *w, world_visit_fn *visit, void *arg);

/* Equal for states with equal futures: whichever rank is counted first, whichever slot. */
uint64_t world_hash(struct world *w);

#endif
