/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the round goes on: while no step comes, the agents are asked where their ranks
 * stand, and of two answers in a row is judged who is to blame (watch/judge/judge.h). It
 * learns from the steps how long is normal. No clock and no I/O: what is to be done is
 * told by its events. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_WATCH_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi_launcher/plan/plan.h"

#define DLR_SUP_WATCH_RANKS 32768 /* of a run; larger ones are not asked */

struct dlr_sup_watch; /* opaque */

/* All of it must live as long, and may be filled later. */
struct dlr_sup_watch_env {
    const struct dlr_plan *plan;  /* in force */
    const int64_t *hang_limit_ms; /* the user's; 0: what is learned */
};

/* Ranks stand. Valid until the event has been taken. */
struct dlr_sup_hang {
    uint32_t round;
    const char *words;    /* who is to blame, in a sentence */
    const char *place;    /* equal when it is the same hang again: words.h */
    const uint8_t *parts; /* [world of the plan]: enum dlr_part of judge.h */
    uint32_t first;       /* culprit */
    bool one;             /* and no other */
};

/* What happened; arg is dlr_sup_watch_new()'s. */
struct dlr_sup_watch_ops {
    /* All agents are to say where the ranks of the round stand: a `looked` with id. */
    void (*ask)(void *arg, uint32_t round, uint64_t id);
    /* For the journal: "still", or "moves" once that is over. Takes row over; words:
     * what it says, in a sentence; "" of "moves".
     */
    void (*tell)(void *arg, const char *event, json_t *row, const char *words);
    /* Ranks have stood for so long that the user should hear of it; once. */
    void (*say)(void *arg, const struct dlr_sup_hang *hang);
    /* It is proven that the round will never go on by itself; once in a round. */
    void (*stuck)(void *arg, const struct dlr_sup_hang *hang);
    /* The next supervisor should know what has been learned. */
    void (*changed)(void *arg);
};

/* How the run stands. */
struct dlr_sup_watch_now {
    int64_t ms; /* the supervisor's clock; stands still while the job is suspended */
    int64_t wall_ms; /* since the epoch */
    bool runs;       /* a round does, and it is known which ranks are where */
    bool held;       /* the job is suspended, or about to be */
    uint32_t round;
    uint64_t step; /* the newest that was told; UINT64_MAX: none */
};

/* NULL when out of memory. */
struct dlr_sup_watch *dlr_sup_watch_new(const struct dlr_sup_watch_env *env,
                                        const struct dlr_sup_watch_ops *ops, void *arg);
/* Accepts NULL, returns NULL. */
struct dlr_sup_watch *dlr_sup_watch_free(struct dlr_sup_watch *watch);

/* With every tick of the supervisor. */
void dlr_sup_watch_tick(struct dlr_sup_watch *watch,
                        const struct dlr_sup_watch_now *now);
/* That node has looked; one of a former question, or malformed, is dropped. */
void dlr_sup_watch_looked(struct dlr_sup_watch *watch, const char *node,
                          const json_t *msg);

/* For the next supervisor, and from the former one: what was learned. */
void dlr_sup_watch_state(const struct dlr_sup_watch *watch, json_t *state);
void dlr_sup_watch_take(struct dlr_sup_watch *watch, const json_t *state);

#endif
