/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/schedule.h"

#define LEAD_MS 5 /* an order takes this long to reach every rank */
#define RATE_WINDOW_MS 500
#define MARGIN_CLEAN 16 /* commits in a row, before the margin shrinks by one */
#define BUSY_MAX 2    /* of the last versions, before the stride grows: one is chance */
#define BUSY_CLEAN 4  /* commits in a row after which those are forgotten */
#define CLEAN 8       /* and after which a smaller stride is tried, */
#define CLEAN_MAX 256 /* doubled each time that it was too small */
#define NEARER 4 /* a stride comes by one and this part nearer to what commits take */
#define STRIDE_MAX 1024
#define MEAN_OF 8

void dlr_schedule_init(struct dlr_schedule *s, int64_t beat_ms, unsigned margin,
                       unsigned margin_max, unsigned alone)
{
    *s = (struct dlr_schedule){.beat_ms = beat_ms,
                               .margin = margin,
                               .margin_min = margin,
                               .margin_max = margin_max > margin ? margin_max : margin,
                               .every = 1,
                               .every_now = 1,
                               .patience = CLEAN,
                               .alone = alone < MEAN_OF ? alone : MEAN_OF - 1};
}

void dlr_schedule_round(struct dlr_schedule *s)
{
    s->known = false;
    s->margin_from = 0;
    s->clean = s->busy = s->margin_clean = 0;
}

void dlr_schedule_see(struct dlr_schedule *s, uint64_t step, int64_t now_ms)
{
    if (!s->known) {
        s->known = true;
        s->step = s->window_step = step;
        s->first_ms = s->last_ms = s->window_ms = now_ms;
        return;
    }
    if (now_ms > s->last_ms)
        s->last_ms = now_ms;
    if (step <= s->step)
        return;
    s->step = step;
    s->first_ms = now_ms;
    if (now_ms - s->window_ms < RATE_WINDOW_MS)
        return;
    s->per_ms = (double)(step - s->window_step) / (double)(now_ms - s->window_ms);
    s->window_step = step;
    s->window_ms = now_ms;
}

/* Steps that have gone by since the newest known one, when an order of now arrives.
 * What is known may be a beat old; a rank that said the same step again is less than
 * one further.
 */
static uint64_t gone_by(const struct dlr_schedule *s, int64_t now_ms)
{
    double since_first = s->per_ms * (double)(now_ms - s->first_ms + LEAD_MS);
    double since_last = 1.0 + s->per_ms * (double)(now_ms - s->last_ms + LEAD_MS);
    double steps = since_first < since_last ? since_first : since_last;

    return steps > 0 ? (uint64_t)steps : 0;
}

void dlr_schedule_window(const struct dlr_schedule *s, int64_t now_ms,
                         uint64_t *ret_first, uint64_t *ret_last)
{
    double until_next = s->per_ms * (double)(s->beat_ms + LEAD_MS);

    *ret_first = s->step + gone_by(s, now_ms) + s->margin;
    *ret_last = *ret_first + 1 + (uint64_t)until_next;
}

unsigned dlr_schedule_every(const struct dlr_schedule *s)
{
    return s->every_now > s->every ? s->every_now : s->every;
}

bool dlr_schedule_alone(const struct dlr_schedule *s)
{
    return s->took < s->alone;
}

/* Steps that go by until the ranks know of a commit: a slot is not free sooner. */
static unsigned least_stride(const struct dlr_schedule *s)
{
    double steps = s->took ? s->per_ms * (s->took_ms + LEAD_MS) : 0;

    return steps >= STRIDE_MAX ? STRIDE_MAX : 1 + (unsigned)steps;
}

/* Several that were ordered together are late together: that is one reason, not
 * several.
 */
void dlr_schedule_late(struct dlr_schedule *s, uint64_t step, uint64_t newest)
{
    if (step <= s->margin_from)
        return;
    s->margin_from = newest;
    s->margin *= 2;
    if (s->margin > s->margin_max)
        s->margin = s->margin_max;
}

/* Growing it to no avail is cheap, and shrinking it too far costs a version: when it
 * must grow again soon after it shrank, it is left longer as it is.
 */
bool dlr_schedule_busy(struct dlr_schedule *s)
{
    unsigned least = least_stride(s), wider = s->every_now + (s->every_now + 1) / 2;

    if (++s->busy < BUSY_MAX || s->every_now >= STRIDE_MAX)
        return false;
    s->busy = 0;
    if (s->took && s->clean < s->patience && s->patience < CLEAN_MAX)
        s->patience *= 2;
    s->every_now = least > wider ? least : wider > STRIDE_MAX ? STRIDE_MAX : wider;
    s->clean = 0;
    return true;
}

void dlr_schedule_failed(struct dlr_schedule *s)
{
    s->margin_clean = 0;
}

void dlr_schedule_committed(struct dlr_schedule *s, int64_t took_ms)
{
    unsigned n = s->took < MEAN_OF ? ++s->took : MEAN_OF, least;

    /* The very first also made connections and touched memory: each of these counts
     * alone.
     */
    if (n <= s->alone) {
        s->took_ms = (double)took_ms;
        s->every_now = least_stride(s);
        return;
    }
    s->took_ms += ((double)took_ms - s->took_ms) / (n - (s->alone ? s->alone - 1 : 0));
    if (++s->margin_clean >= MARGIN_CLEAN) {
        s->margin_clean = 0;
        if (s->margin > s->margin_min)
            s->margin--;
    }
    if (++s->clean % BUSY_CLEAN == 0)
        s->busy = 0;
    least = least_stride(s);
    if (s->clean < s->patience || s->every_now <= least)
        return;
    s->every_now -= 1 + (s->every_now - least) / NEARER;
    s->clean = 0;
}
