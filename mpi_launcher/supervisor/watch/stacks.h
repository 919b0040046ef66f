/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of ranks that stand, before anything is done about it: which ranks are
 * asked for, the answers of their nodes as one tree, and an end whatever is missing. One
 * hang at a time. No clock and no I/O: what is to be done is told by its events.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_STACKS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_STACKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/supervisor/watch/watch.h"

struct dlr_sup_stacks; /* opaque */

/* What was found. Valid until the event has been taken. */
struct dlr_sup_stacks_found {
    struct dlr_sup_hang hang; /* words: with the place in the program, where known */
    const char *ranks;        /* "0-2,5": those that were asked for */
    const char *text;         /* for people; NULL: no stack came */
    unsigned nodes, silent;   /* that were asked; that did not answer */
};

/* What happened; arg is dlr_sup_stacks_new()'s. */
struct dlr_sup_stacks_ops {
    /* The agent of node is to read the stacks of these ranks: `take_stacks`. */
    void (*ask)(void *arg, const char *node, uint32_t round, uint64_t id,
                const char *ranks);
    /* All have answered, or their time is over. */
    void (*done)(void *arg, const struct dlr_sup_stacks_found *found);
};

/* ops and arg must live as long. NULL when out of memory. */
struct dlr_sup_stacks *dlr_sup_stacks_new(const struct dlr_sup_stacks_ops *ops,
                                          void *arg);
/* Accepts NULL, returns NULL. */
struct dlr_sup_stacks *dlr_sup_stacks_free(struct dlr_sup_stacks *s);

/* Asks for the culprits and some of those that wait; what was asked before is forgotten.
 * plan, of hang's round, is not kept. done() may come at once: nobody can be asked.
 */
void dlr_sup_stacks_begin(struct dlr_sup_stacks *s, const struct dlr_sup_hang *hang,
                          const struct dlr_plan *plan, int64_t now_ms);
/* A node has answered; one of a former question, or malformed, is dropped. */
void dlr_sup_stacks_take(struct dlr_sup_stacks *s, const char *node, const json_t *msg);
/* With every tick. runs: the round does; of one that is over nothing is told. */
void dlr_sup_stacks_tick(struct dlr_sup_stacks *s, bool runs, uint32_t round,
                         int64_t now_ms);
/* Stacks are being taken: their threads are held for moments. */
bool dlr_sup_stacks_busy(const struct dlr_sup_stacks *s);

#endif
