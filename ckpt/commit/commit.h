/* SPDX-License-Identifier: Apache-2.0 */
/* Who decides what is saved: the supervisor, through this state machine. Pure: no I/O,
 * no clock; events and time come in, decisions go out through ops. The job, not the
 * rank, saves: a rank that misses the step aborts it for all, and no slot is used again
 * before its version is decided. Several versions are open (ordered and undecided) at a
 * time, most of them announcements of steps to come; each is decided once, and in the
 * order of their steps: when one becomes whole, older ones are aborted before it is
 * committed.
 */
#ifndef DLR_CKPT_COMMIT_COMMIT_H
#define DLR_CKPT_COMMIT_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "common/base/err.h"

struct dlr_commit;

/* A reason of dlr_commit_missed() that begins with this word says that the order came
 * after the step: the next ones are given earlier.
 */
#define DLR_COMMIT_LATE "late"

/* And with this one that the rank was still at an earlier version: they are ordered
 * further apart.
 */
#define DLR_COMMIT_BUSY "busy"

struct dlr_commit_ops {
    void (*save_at)(void *arg, struct dlr_version v);
    /* took_ms: from the first rank's seal to the decision */
    void (*commit)(void *arg, struct dlr_version v, int64_t took_ms);
    void (*abort)(void *arg, struct dlr_version v, const char *why);
};

/* A reason of ops->abort that begins with this word says that the version was only
 * announced: no rank is known to have begun it.
 */
#define DLR_COMMIT_WITHDRAWN "withdrawn"

#define DLR_COMMIT_COPIES_MAX 4u
#define DLR_COMMIT_OPEN_MAX 8u

struct dlr_commit_conf {
    /* holders beside its owner that a snapshot must reach: all are part of the promise
     */
    unsigned copies;
    /* an undecided version is aborted so long after its step was reached */
    int64_t decide_ms;
    /* first distance of save_at from the newest known step, 0: 2; its limit, 0: 64 */
    unsigned margin_steps;
    unsigned margin_max;
    /* progress is heard at least so often, 0: 200 */
    int64_t beat_ms;
    /* versions open at a time, 0: DLR_COMMIT_OPEN_MAX, which is the most */
    unsigned open_max;
    /* so many of the first versions are ordered one at a time: what they take tells how
     * far apart the others must be. 0: none
     */
    unsigned alone;
};

int dlr_commit_new(const struct dlr_commit_conf *conf, const struct dlr_commit_ops *ops,
                   void *arg, struct dlr_commit **ret, struct dlr_err *err);
struct dlr_commit *dlr_commit_free(struct dlr_commit *c);

/* A round of world ranks begins, restored from restored (or NULL). Open versions of the
 * former round are aborted. Saving starts when every rank is ready at its owner and at
 * each of its other holders.
 */
int dlr_commit_round(struct dlr_commit *c, uint32_t round, unsigned world,
                     const struct dlr_version *restored);
/* No round runs: nothing is decided until the next dlr_commit_round(). */
void dlr_commit_stop(struct dlr_commit *c, const char *why);

/* The round runs already, under an engine that is gone: nothing is ordered until
 * dlr_commit_go_on(), which tells the newest version that it had committed (NULL: none
 * but what was restored) and the newest step that it had ordered; later ones follow.
 */
void dlr_commit_hold(struct dlr_commit *c);
void dlr_commit_go_on(struct dlr_commit *c, const struct dlr_version *newest,
                      uint64_t ordered_step);

/* From now on at least so many steps from one version to the next one; 1, as at first:
 * every step. One that was aborted does not count.
 */
void dlr_commit_every(struct dlr_commit *c, unsigned steps);

/* The least distance at which a save is decided before the next one begins, as learned.
 */
unsigned dlr_commit_takes(const struct dlr_commit *c);

/* The distance in force: what was asked for, or more where a save takes longer than
 * that.
 */
unsigned dlr_commit_every_now(const struct dlr_commit *c);

/* Events. Unknown ranks, other rounds and repeated ones are ignored. now in
 * milliseconds. holder: 0 the rank's own node, 1 to conf.copies the others.
 */
void dlr_commit_ready(struct dlr_commit *c, uint32_t round, unsigned rank,
                      unsigned holder, int64_t now_ms);
/* The holder has no room for what the rank saves from now on, until dlr_commit_ready().
 */
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

/* A rank has begun the step before step and wants a version of step or a later one.
 * Where none is open one is ordered, at the next step that all can hear of in time,
 * whatever the distance in force; else that is looked at again when those are decided.
 * So it goes on, with the pauses after aborts, until such a version is committed or the
 * round ends. Who wants the same or less changes nothing.
 */
void dlr_commit_want(struct dlr_commit *c, uint32_t round, uint64_t step,
                     int64_t now_ms);
/* How many versions were ordered for that so far. */
unsigned dlr_commit_asked(const struct dlr_commit *c);

/* When dlr_commit_tick() must be called, INT64_MAX: no deadline runs. */
int64_t dlr_commit_deadline_ms(const struct dlr_commit *c);

/* What stands between the run and its next commit. rank, holder: the first that is
 * waited for.
 */
struct dlr_commit_waits {
    enum {
        DLR_WAITS_READY, /* the holder has no slots for the rank's snapshots yet */
        /* v is ordered, and the holder has not the rank's part of it */
        DLR_WAITS_VERSION,
        DLR_WAITS_ORDER, /* nothing is ordered that was begun */
    } what;
    unsigned rank, holder;
    struct dlr_version v;
};

/* False where no rank asks for saves. */
bool dlr_commit_waits(const struct dlr_commit *c, struct dlr_commit_waits *ret);

/* The newest committed version; false when there is none. */
bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret);
/* The oldest open one; false when there is none. */
bool dlr_commit_pending(const struct dlr_commit *c, struct dlr_version *ret);

#endif
