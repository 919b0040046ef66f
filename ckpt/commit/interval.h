/* SPDX-License-Identifier: Apache-2.0 */
/* How long from one save to the next: a pure function of what one costs and of how
 * often the run fails.
 *
 * The time that saves and the steps computed again after a failure take together is
 * least at Young's sqrt(2 C M): C what a save costs, M the mean time between failures
 * (J. W. Young, CACM 17(9), 1974). It is flat around there, and people want to lose
 * little even where losing more would be cheaper: so a save is at most the staleness S
 * old, by default the larger of two steps and 10 s. At least C / budget lie between two
 * saves, so that saves never take more than the budget, 1 % by default. Where that is
 * longer than S the budget wins, and it is said: a run that is held up all the time is
 * the greater harm. Whoever wants a version on the disk after so many steps has said
 * more than a default does: there is one for that.
 */
#ifndef DLR_CKPT_COMMIT_INTERVAL_H
#define DLR_CKPT_COMMIT_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_INTERVAL_STALE_S 10
#define DLR_INTERVAL_STALE_STEPS 2

struct dlr_interval_of {
    double cost_s; /* what a step with a save takes longer than one without */
    double step_s; /* one without; 0: not known */
    double mtbf_s; /* mean time between failures, from dlr_interval_mtbf_s() */
    /* of the training's time that saving may take; 0: any, which saves as often as is
     * possible
     */
    unsigned budget_ppm;
    /* steps after which the user wants one on the disk; 0: none said so */
    unsigned asked;
};

struct dlr_interval {
    unsigned every;    /* steps from one save to the next */
    double every_s;    /* their time */
    double stale_s;    /* S */
    const char *bound; /* what decided: "optimum", "staleness", "cost",
                          "persist", "off" */
};

void dlr_interval(const struct dlr_interval_of *of, struct dlr_interval *ret);

struct dlr_interval_run {
    unsigned saves; /* committed ones that cost_s was learned from */
    /* of these, the last ones, with no step between them to compare with */
    unsigned bare;
    unsigned every_now; /* in force: a save takes so many steps until it is committed */
};

/* Steps to the next save of such a run: those of the interval, but
 * - two while fewer than DLR_INTERVAL_LEARN saves were measured: each has a step beside
 *   it then;
 * - one more than a save takes, where steps without one have become so rare that
 *   nothing is learned;
 * - a few less by turns (more where the cost decides), so that saves and what the
 *   program does each
 *   hundred steps do not fall together for ever.
 */
#define DLR_INTERVAL_LEARN 8
unsigned dlr_interval_next(const struct dlr_interval *in,
                           const struct dlr_interval_run *run);

/* The distance to order now, when the newest save began so long and so many steps ago:
 * stride, that in force, or what is due by time, since steps have become longer than
 * they were.
 */
unsigned dlr_interval_due(const struct dlr_interval *in, unsigned every_now,
                          double since_s, uint64_t since_steps);

/* A run that saves has committed nothing for so long, and for so many steps, that
 * something is wrong: twice the staleness, or twice the distance in force where that is
 * longer.
 */
bool dlr_interval_overdue(const struct dlr_interval *in, unsigned every_now,
                          double since_s, uint64_t since_steps);

/* Mean time between failures of a run on nodes, of which so many ended a round in so
 * many node-hours. A published rate, 6.5 failures in 1,000 days of a node, stands for
 * one failure in its time, the run's own are added.
 */
double dlr_interval_mtbf_s(unsigned nodes, unsigned failures, double node_hours);

#endif
