/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps are worth ordering: how far ahead, so that every rank hears of a step in
 * time, and how far apart, so that one save is over when the next begins. Both are
 * learned. Pure: time comes in.
 */
#ifndef DLR_CKPT_COMMIT_SCHEDULE_H
#define DLR_CKPT_COMMIT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct dlr_schedule {
    /* The newest step known, when it was first seen and when the ranks last spoke; a
     * window over which their rate is measured.
     */
    bool known;
    uint64_t step;
    int64_t first_ms, last_ms;
    uint64_t window_step;
    int64_t window_ms;
    double per_ms;

    int64_t beat_ms; /* ranks speak at least so often */
    unsigned margin, margin_min, margin_max, margin_clean;
    uint64_t margin_from; /* orders up to this one say nothing of the margin in force */

    unsigned every; /* asked for */
    unsigned every_now, clean, busy, patience;
    double took_ms; /* mean, from the first seal of a version to its commit */
    unsigned took;  /* how many were seen */
    unsigned alone; /* so many first ones with no other beside them */
};

/* margin: first distance of an order from the newest step, at most margin_max. alone:
 * so many versions must be committed before one is ordered beside another: what they
 * take is the first stride. At most 7.
 */
void dlr_schedule_init(struct dlr_schedule *s, int64_t beat_ms, unsigned margin,
                       unsigned margin_max, unsigned alone);

/* Another round: what was learned stays, its steps are unknown. */
void dlr_schedule_round(struct dlr_schedule *s);

void dlr_schedule_see(struct dlr_schedule *s, uint64_t step, int64_t now_ms);

/* The steps worth ordering now: the first that every rank can hear of in time, and the
 * last that cannot wait for the ranks' next word. Only while s->known.
 */
void dlr_schedule_window(const struct dlr_schedule *s, int64_t now_ms,
                         uint64_t *ret_first, uint64_t *ret_last);

/* Steps from one order to the next: what was asked for, or what saves take if that is
 * more.
 */
unsigned dlr_schedule_every(const struct dlr_schedule *s);

/* No version must be ordered while another is open. */
bool dlr_schedule_alone(const struct dlr_schedule *s);

/* Events. newest: the newest step that was ordered. */
void dlr_schedule_late(struct dlr_schedule *s, uint64_t step, uint64_t newest);
/* A rank had no slot at its step. True when the stride was widened for it. */
bool dlr_schedule_busy(struct dlr_schedule *s);
void dlr_schedule_failed(struct dlr_schedule *s); /* a version was aborted */
void dlr_schedule_committed(struct dlr_schedule *s, int64_t took_ms);

#endif
