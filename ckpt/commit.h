/* SPDX-License-Identifier: Apache-2.0 */
/* Who decides what is saved: the supervisor, through this state machine. Pure: no I/O, no
 * clock; events and time come in, decisions go out through ops. One version is undecided at
 * a time. The job, not the rank, saves: a rank that misses the step aborts it for all, and no
 * slot is used again before its version is decided.
 */
#ifndef DLR_CKPT_COMMIT_H
#define DLR_CKPT_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/version.h"
#include "common/err.h"

struct dlr_commit;

/* A reason of dlr_commit_missed() that begins with this word says that the order came after
 * the step: the next ones are given earlier.
 */
#define DLR_COMMIT_LATE "late"

struct dlr_commit_ops {
    void (*save_at)(void *arg, struct dlr_version v);
    /* took_ms: from the first rank's seal to the decision */
    void (*commit)(void *arg, struct dlr_version v, int64_t took_ms);
    void (*abort)(void *arg, struct dlr_version v, const char *why);
};

#define DLR_COMMIT_COPIES_MAX 4u

struct dlr_commit_conf {
    /* holders beside its owner that a snapshot must reach: all are part of the promise */
    unsigned copies;
    /* an undecided version is aborted so long after its step was reached */
    int64_t decide_ms;
    /* first distance of save_at from the newest known step, 0: 2; its limit, 0: 64 */
    unsigned margin_steps;
    unsigned margin_max;
};

int dlr_commit_new(const struct dlr_commit_conf *conf, const struct dlr_commit_ops *ops,
                   void *arg, struct dlr_commit **ret, struct dlr_err *err);
struct dlr_commit *dlr_commit_free(struct dlr_commit *c);

/* A round of world ranks begins, restored from restored (or NULL). An undecided version of
 * the former round is aborted. Saving starts when every rank is ready at its owner and at
 * each of its other holders.
 */
int dlr_commit_round(struct dlr_commit *c, uint32_t round, unsigned world,
                     const struct dlr_version *restored);
/* No round runs: nothing is decided until the next dlr_commit_round(). */
void dlr_commit_stop(struct dlr_commit *c, const char *why);

/* The round runs already, under an engine that is gone: nothing is ordered until
 * dlr_commit_go_on(), which tells the newest version that it had committed (NULL: none but
 * what was restored) and the newest step that it had ordered; later ones follow.
 */
void dlr_commit_hold(struct dlr_commit *c);
void dlr_commit_go_on(struct dlr_commit *c, const struct dlr_version *newest,
                      uint64_t ordered_step);

/* From now on at least so many steps from a committed version to the next one; 1, as at first:
 * every step.
 */
void dlr_commit_every(struct dlr_commit *c, unsigned steps);

/* Events. Unknown ranks, other rounds and repeated ones are ignored. now in milliseconds.
 * holder: 0 the rank's own node, 1 to conf.copies the others.
 */
void dlr_commit_ready(struct dlr_commit *c, uint32_t round, unsigned rank,
                      unsigned holder, int64_t now_ms);
/* The holder has no room for what the rank saves from now on, until dlr_commit_ready(). */
void dlr_commit_unready(struct dlr_commit *c, uint32_t round, unsigned rank,
                        unsigned holder);
void dlr_commit_progress(struct dlr_commit *c, uint32_t round, uint64_t step,
                         int64_t now_ms);
void dlr_commit_sealed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       uint64_t at_step, int64_t now_ms);
void dlr_commit_copied(struct dlr_commit *c, unsigned rank, unsigned holder,
                       struct dlr_version v, int64_t now_ms);
void dlr_commit_missed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       const char *why, int64_t now_ms);
void dlr_commit_tick(struct dlr_commit *c, int64_t now_ms); /* deadline of decisions */

/* When dlr_commit_tick() must be called, INT64_MAX: no deadline runs. */
int64_t dlr_commit_deadline_ms(const struct dlr_commit *c);

/* The newest committed version; false when there is none. */
bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret);
/* The undecided one; false when there is none. */
bool dlr_commit_pending(const struct dlr_commit *c, struct dlr_version *ret);

#endif
