/* SPDX-License-Identifier: Apache-2.0 */
/* How often to save and to persist, and what stands in the way of every step: pure functions of
 * what was measured.
 */
#ifndef DLR_CKPT_CADENCE_H
#define DLR_CKPT_CADENCE_H

#include <stdbool.h>
#include <stddef.h>

#define DLR_CADENCE_LEARN 8 /* saves that are measured before they are spaced */
#define DLR_CADENCE_WORDS 256

/* A mean that follows: the newest value counts 1/8, or 1/n while there are fewer. */
struct dlr_mean {
    double value;
    unsigned n;
};

void dlr_mean_add(struct dlr_mean *mean, double value);

struct dlr_cadence {
    unsigned budget_ppm; /* of the training's time that saving may take; 0: any */
    double step_ms;      /* a step in which nothing is saved; 0: not known */
    double blocked_ms;   /* one save, in begin and fence, of the slowest rank */
    unsigned saves;      /* that blocked_ms was learned from */
};

/* Steps from one save to the next that keep to the budget; 1 is every step. */
unsigned dlr_cadence_every(const struct dlr_cadence *c);

struct dlr_cadence_way {
    bool copies;        /* a save ends with a copy on another node */
    double bytes;       /* of the busiest node, in one save */
    double bytes_per_s; /* as they were seen to arrive */
    double decided_ms;  /* from the first rank's seal to the commit; 0: not known */
};

/* Whether a save is committed before the next step wants one, at the budget's price: *ret_words
 * (DLR_CADENCE_WORDS) says why or why not.
 */
bool dlr_cadence_every_step(const struct dlr_cadence *c,
                            const struct dlr_cadence_way *way, char *ret_words);

struct dlr_cadence_risk {
    unsigned nodes;
    bool copies;       /* memory survives the loss of one node */
    double write_s;    /* one version, from the order to its manifest */
    unsigned lost;     /* nodes this run has lost, */
    double node_hours; /* and in how long */
};

/* Seconds from one write to the next (Young 1974, Daly 2006), at least write_s / the share of
 * time that may be spent writing; *ret_mtbf_s: what it takes for the mean time between failures
 * that memory does not survive.
 */
double dlr_cadence_persist_s(const struct dlr_cadence_risk *r, double *ret_mtbf_s);

#endif
