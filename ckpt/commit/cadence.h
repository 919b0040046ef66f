/* SPDX-License-Identifier: Apache-2.0 */
/* How often to save and to persist, and what stands in the way of every step: pure
 * functions of what was measured.
 */
#ifndef DLR_CKPT_COMMIT_CADENCE_H
#define DLR_CKPT_COMMIT_CADENCE_H

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

/* Whether a save is committed before the next step wants one, at the budget's price:
 * *ret_words (DLR_CADENCE_WORDS) says why or why not.
 */
bool dlr_cadence_every_step(const struct dlr_cadence *c,
                            const struct dlr_cadence_way *way, char *ret_words);

struct dlr_cadence_risk {
    unsigned nodes;
    unsigned covered; /* losses in one set at a time that memory survives; 0: none */
    unsigned set;   /* nodes that share one: a snapshot's own, and who has part of it */
    double write_s; /* one version, from the order to its manifest; 0: not known */
    unsigned lost;  /* nodes this run has lost, */
    double node_hours; /* and in how long */
};

struct dlr_cadence_persist {
    double every_s; /* from one write to the next */
    double mtbf_s;  /* mean time between losses that memory does not survive */
    /* what every_s comes from: "young-daly", "duty", "least", "most" */
    const char *bound;
};

/* How often a version is worth writing to the disk. every_s is what loses least time
 * for a write that takes write_s and for failures mtbf_s apart: Young's sqrt(2 write_s
 * mtbf_s) (J. W. Young, CACM 17(9), 1974) in Daly's third-order form (J. T. Daly, FGCS
 * 22(3), 2006), but so much that writing takes a tenth of the time at most (duty), and
 * a minute (least) to a day (most).
 *
 * mtbf_s counts only what memory does not survive: more than `covered` losses of one
 * set between two re-protections. A node is lost L = (1 + lost) / (6335 h + node_hours)
 * times an hour: the published figure of a long run stands for one loss in its time. A
 * first loss, of any node, comes nodes * L times an hour. It is one too many when
 * `covered` more of its set follow before every rank has all its copies again. The i-th
 * of them does with the chance 1/20 + (set - i) * L * w: together with the others, or
 * by itself in the window w. So mtbf = 1 / (nodes * L * the product of these chances).
 * Assumed, not measured: one loss in 20 takes one more node of the set with it (a
 * switch, a rack's power, the job itself); w is a minute; otherwise nodes fail
 * independently; sets share no node.
 */
void dlr_cadence_persist(const struct dlr_cadence_risk *r,
                         struct dlr_cadence_persist *ret);

#endif
