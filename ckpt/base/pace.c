/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/pace.h"

#define BURST_NS 5000000 /* what was not used is kept for so long */
#define MEAN_OF 16
#define QUIET_MIN 8        /* steps without a copy before any is judged */
#define BUSY_MIN 4         /* steps with one, at each rate */
#define TOLERANCE 1.05     /* a step may be longer by this */
#define SLOWEST (1.0 / 64) /* of the link */
#define FASTER 1.25
#define LISTEN_AFTER 24    /* steps beside copies while too few without one were seen */
#define LISTEN_EVERY 1024  /* the same, once enough were seen: they are seen anew */
#define LISTEN_STEP_NS 2e9 /* copies do not stop for the length of longer ones */
#define LISTEN_STEPS 9     /* one that has begun before, and those that are judged */
#define LISTEN_MS 18000    /* nine of the longest; they may grow meanwhile */

void dlr_bucket_rate(struct dlr_bucket *b, uint64_t rate, int64_t now_ns)
{
    *b = (struct dlr_bucket){.rate = rate, .at_ns = now_ns};
}

int64_t dlr_bucket_take(struct dlr_bucket *b, uint64_t bytes, int64_t now_ns)
{
    double per_ns = (double)b->rate / 1e9, most = per_ns * BURST_NS;

    if (!b->rate)
        return 0;
    b->level += per_ns * (double)(now_ns - b->at_ns);
    b->at_ns = now_ns;
    if (b->level > most)
        b->level = most;
    if (b->level < 0)
        return (int64_t)(-b->level / per_ns) + 1;
    b->level -=
        (double)bytes; /* a piece may be larger than the bucket: it is paid later */
    return 0;
}

static void follow(double *mean, unsigned *n, double value, unsigned steps)
{
    for (unsigned i = 0; i < steps && i < MEAN_OF; i++) {
        unsigned of = *n < MEAN_OF ? *n + 1 : MEAN_OF;

        *mean += (value - *mean) / of;
        *n += *n < MEAN_OF;
    }
}

/* Half the rate when steps are longer with a copy beside them, a quarter more when they
 * are not.
 */
static bool judge(struct dlr_pace *p)
{
    uint64_t before = p->rate;
    bool felt = p->busy_ns > TOLERANCE * p->quiet_ns;
    double rate = p->rate ? (double)p->rate : p->link;

    if (p->quiet < QUIET_MIN || p->busy < BUSY_MIN || !(p->link > 0))
        return false;
    rate *= felt ? 0.5 : FASTER;
    if (rate < p->link * SLOWEST)
        rate = p->link * SLOWEST;
    p->rate = !felt && (!before || rate >= p->link) ? 0 : (uint64_t)rate;
    if (p->rate == before)
        return false;
    p->busy = 0;
    return true;
}

static bool end_listening(struct dlr_pace *p)
{
    p->listen = 0;
    p->rate = p->rate_before;
    p->busy = 0;
    return true;
}

/* Where a copy is always on its way nobody knows how long a step is without one: copies
 * all but stop for a few steps. True when the rate has changed.
 */
static bool listen(struct dlr_pace *p, double ns, unsigned steps, bool busy,
                   int64_t now_ns)
{
    if (p->listen > 0) {
        if (p->listen < LISTEN_STEPS)
            follow(&p->quiet_ns, &p->quiet, ns, steps);
        p->listen -= steps < p->listen ? steps : p->listen;
        return (p->listen == 0 || now_ns >= p->listen_until_ns) && end_listening(p);
    }
    p->unheard = busy ? p->unheard + steps : 0;
    if (p->unheard < (p->quiet < QUIET_MIN ? LISTEN_AFTER : LISTEN_EVERY) ||
        !(p->link > 0) || ns > LISTEN_STEP_NS)
        return false;
    p->unheard = 0;
    p->listen = LISTEN_STEPS;
    p->listen_until_ns = now_ns + LISTEN_MS * INT64_C(1000000);
    p->rate_before = p->rate;
    p->rate = (uint64_t)(p->link * SLOWEST);
    return true;
}

bool dlr_pace_see(struct dlr_pace *p, uint64_t step, int64_t at_ns, bool sending,
                  int64_t now_ns)
{
    bool busy = p->sending, listens, changed;
    unsigned steps;
    double ns;

    if (at_ns < p->at_ns || at_ns > now_ns)
        return false;
    if (!p->known || step < p->step) {
        changed = p->known && p->rate;
        *p = (struct dlr_pace){
            .known = true, .step = step, .at_ns = at_ns, .link = p->link};
        p->sending = sending;
        return changed;
    }
    p->sending = p->sending || sending;
    if (step == p->step)
        return p->listen > 0 && now_ns >= p->listen_until_ns && end_listening(p);
    steps = (unsigned)(step - p->step);
    ns = (double)(at_ns - p->at_ns) / (double)steps;
    p->step = step;
    p->at_ns = at_ns;
    p->sending = sending;
    listens = p->listen > 0;
    changed = listen(p, ns, steps, busy, now_ns);
    if (listens || changed)
        return changed;
    if (busy || (sending && steps > 1))
        follow(&p->busy_ns, &p->busy, ns, steps);
    else
        follow(&p->quiet_ns, &p->quiet, ns, steps);
    return busy && judge(p);
}

void dlr_pace_sent(struct dlr_pace *p, uint64_t bytes, int64_t ns)
{
    double rate = ns > 0 ? 1e9 * (double)bytes / (double)ns : 0;

    if (!p->rate && rate > 0)
        p->link = p->link > 0 ? p->link + (rate - p->link) / 8 : rate;
}
