/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/commit_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/page.h"
#include "ckpt/commit/schedule.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

#define DEFAULT_MARGIN 2
#define DEFAULT_MARGIN_MAX 64
#define DEFAULT_BEAT_MS 200
#define BACKOFF_MS 100 /* after an abort that waiting may cure; doubles each time */
#define BACKOFF_MAX_MS 10000
#define STEP_MAX ((uint64_t)1 << 62)

static_assert(DLR_COMMIT_OPEN_MAX < DLR_PAGE_RING,
              "a rank's page has an entry for each");

static size_t words(unsigned world)
{
    return (world + 63) / 64;
}

static uint64_t *bits(const struct dlr_commit *c, unsigned tally, unsigned set)
{
    return &c->sets[(tally * SETS + set) * words(c->world)];
}

static unsigned tally_of(const struct dlr_commit *c, const struct open *o)
{
    return FIRST_OPEN + (unsigned)(o - c->open);
}

/* True when rank was not in the set before. */
static bool add(struct dlr_commit *c, unsigned tally, unsigned set, unsigned rank)
{
    uint64_t *word = &bits(c, tally, set)[rank / 64];
    uint64_t bit = UINT64_C(1) << (rank % 64);

    if (*word & bit)
        return false;
    *word |= bit;
    c->count[tally][set]++;
    return true;
}

static void drop(struct dlr_commit *c, unsigned tally, unsigned set, unsigned rank)
{
    uint64_t *word = &bits(c, tally, set)[rank / 64];
    uint64_t bit = UINT64_C(1) << (rank % 64);

    c->count[tally][set] -= (*word & bit) != 0;
    *word &= ~bit;
}

static void clear(struct dlr_commit *c, unsigned tally)
{
    memset(bits(c, tally, 0), 0, SETS * words(c->world) * sizeof(uint64_t));
    memset(c->count[tally], 0, sizeof(c->count[tally]));
}

/* Every rank is in the set of its own node and in that of each holder. */
static bool full(const struct dlr_commit *c, unsigned tally)
{
    for (unsigned set = 0; set <= c->conf.copies; set++)
        if (c->count[tally][set] != c->world)
            return false;
    return true;
}

static struct open *find(struct dlr_commit *c, struct dlr_version v)
{
    for (struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && dlr_version_eq(o->v, v))
            return o;
    return NULL;
}

static const struct open *oldest(const struct dlr_commit *c)
{
    const struct open *old = NULL;

    for (const struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && (!old || o->v.step < old->v.step))
            old = o;
    return old;
}

/* --- orders ----------------------------------------------------------------------- */

/* The rank's page has one place for both. */
static bool collides(const struct dlr_commit *c, uint64_t step)
{
    for (const struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && o->v.step % DLR_PAGE_RING == step % DLR_PAGE_RING)
            return true;
    return false;
}

/* Something was asked for, and nothing that is open or committed is or may be it. One
 * version at a time is made for that: what is asked for with every step must not fill
 * slots that are not free yet.
 */
static bool is_asked(const struct dlr_commit *c)
{
    bool has = c->has_newest && c->newest.round == c->round;

    return c->wanted > 0 && !oldest(c) && !(has && c->newest.step >= c->wanted);
}

/* The next step to order, first or later: a stride from the newest version that is open
 * or committed. One that was aborted is made up for at once.
 */
static uint64_t next_step(const struct dlr_commit *c, uint64_t first)
{
    unsigned every_now = dlr_schedule_every(&c->when);
    uint64_t step = first > c->last_step ? first : c->last_step + 1;
    bool based = c->has_newest && c->newest.round == c->round && !is_asked(c);
    uint64_t base = based ? c->newest.step : 0;

    for (const struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++) {
        if (o->used && (!based || o->v.step > base))
            base = o->v.step;
        based = based || o->used;
    }
    if (based && step < base + every_now)
        step = base + every_now;
    while (collides(c, step))
        step++;
    return step;
}

static struct open *unused(struct dlr_commit *c)
{
    if (dlr_schedule_alone(&c->when) && oldest(c))
        return NULL;
    for (struct open *o = c->open; o < c->open + c->conf.open_max; o++)
        if (!o->used)
            return o;
    return NULL;
}

static void order(struct dlr_commit *c, struct open *o, uint64_t step)
{
    *o = (struct open){.used = true,
                       .v = {.round = c->round, .step = step},
                       .reached_ms = -1,
                       .first_seal_ms = -1};
    clear(c, tally_of(c, o));
    c->last_step = step;
    c->ops.save_at(c->arg, o->v);
}

/* Announces the steps that cannot wait for the ranks' next word. */
static void post(struct dlr_commit *c, int64_t now_ms)
{
    uint64_t first, last, step;
    struct open *o;

    if (!c->running || now_ms < c->hold_ms || !c->when.known || !full(c, READY))
        return;
    dlr_schedule_window(&c->when, now_ms, &first, &last);
    while ((o = unused(c))) {
        step = next_step(c, first);
        if (step > last || step >= STEP_MAX)
            return;
        c->asked += is_asked(c);
        order(c, o, step);
    }
}

/* --- decisions -------------------------------------------------------------------- */

static void decide_abort(struct dlr_commit *c, struct open *o, const char *why)
{
    o->used = false;
    dlr_schedule_failed(&c->when);
    c->ops.abort(c->arg, o->v, why);
}

/* Those before step, oldest first. */
static void abort_until(struct dlr_commit *c, uint64_t step, const char *why)
{
    const struct open *o;

    while ((o = oldest(c)) && o->v.step < step)
        decide_abort(c, &c->open[o - c->open], why);
}

static void take_back(struct dlr_commit *c)
{
    for (struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && o->reached_ms < 0)
            decide_abort(c, o, DLR_COMMIT_WITHDRAWN);
}

/* What failed (a partner that refuses) will fail again at once: orders that can only be
 * aborted cost every rank a copy. The next progress after the pause tries again.
 */
static void back_off(struct dlr_commit *c, int64_t now_ms)
{
    take_back(c);
    if (now_ms < c->hold_ms)
        return; /* it was ordered before the one that failed first */
    c->hold_ms = now_ms + c->backoff_ms;
    c->backoff_ms *= 2;
    if (c->backoff_ms > BACKOFF_MAX_MS)
        c->backoff_ms = BACKOFF_MAX_MS;
}

static void settle(struct dlr_commit *c, struct open *o, int64_t now_ms)
{
    if (!full(c, tally_of(c, o)))
        return;
    abort_until(c, o->v.step, "a newer one is whole");
    o->used = false;
    c->has_newest = true;
    c->newest = o->v;
    c->backoff_ms = BACKOFF_MS;
    dlr_schedule_committed(&c->when, now_ms - o->first_seal_ms);
    c->ops.commit(c->arg, o->v, now_ms - o->first_seal_ms);
    post(c, now_ms);
}

/* The decision's clock runs from the moment the step is known as reached: until then no
 * slot holds anything of it, and a program with long steps is not in default.
 */
static void see_step(struct dlr_commit *c, uint64_t step, int64_t now_ms)
{
    if (step >= STEP_MAX)
        return;
    dlr_schedule_see(&c->when, step, now_ms);
    for (struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && o->reached_ms < 0 && o->v.step <= step)
            o->reached_ms = now_ms;
}

/* --- the engine ------------------------------------------------------------------- */

static void set_defaults(struct dlr_commit_conf *conf)
{
    if (!conf->margin_steps)
        conf->margin_steps = DEFAULT_MARGIN;
    if (!conf->margin_max)
        conf->margin_max = DEFAULT_MARGIN_MAX;
    if (!conf->beat_ms)
        conf->beat_ms = DEFAULT_BEAT_MS;
    if (!conf->open_max || conf->open_max > DLR_COMMIT_OPEN_MAX)
        conf->open_max = DLR_COMMIT_OPEN_MAX;
}

int dlr_commit_new(const struct dlr_commit_conf *conf, const struct dlr_commit_ops *ops,
                   void *arg, struct dlr_commit **ret, struct dlr_err *err)
{
    struct dlr_commit *c;

    if (conf->decide_ms <= 0)
        return dlr_fail(err, -EINVAL, "decide_ms must be positive");
    if (conf->copies > DLR_COMMIT_COPIES_MAX)
        return dlr_fail(err, -EINVAL, "%u copies, at most %u", conf->copies,
                        DLR_COMMIT_COPIES_MAX);
    c = calloc(1, sizeof(*c));
    if (!c)
        return dlr_fail(err, -ENOMEM, "out of memory");
    c->conf = *conf;
    set_defaults(&c->conf);
    dlr_schedule_init(&c->when, c->conf.beat_ms, c->conf.margin_steps,
                      c->conf.margin_max, c->conf.alone);
    c->ops = *ops;
    c->arg = arg;
    *ret = c;
    return 0;
}

struct dlr_commit *dlr_commit_free(struct dlr_commit *c)
{
    if (c)
        free(c->sets);
    free(c);
    return NULL;
}

int dlr_commit_round(struct dlr_commit *c, uint32_t round, unsigned world,
                     const struct dlr_version *restored)
{
    DLR_AUTO_FREE uint64_t *sets = NULL;

    dlr_commit_stop(c, "a new round begins");
    if (!world)
        return -EINVAL;
    sets = calloc(TALLIES * SETS * words(world), sizeof(*sets));
    if (!sets)
        return -ENOMEM;
    free(c->sets);
    c->sets = DLR_STEAL(sets);
    memset(c->count, 0, sizeof(c->count));
    c->round = round;
    c->world = world;
    dlr_schedule_round(&c->when);
    c->has_newest = restored != NULL;
    if (restored)
        c->newest = *restored;
    c->last_step = restored ? restored->step : 0;
    c->wanted = 0;
    c->hold_ms = INT64_MIN;
    c->backoff_ms = BACKOFF_MS;
    c->running = true;
    return 0;
}

void dlr_commit_stop(struct dlr_commit *c, const char *why)
{
    c->running = false;
    take_back(c);
    abort_until(c, STEP_MAX, why);
}

void dlr_commit_hold(struct dlr_commit *c)
{
    c->hold_ms = INT64_MAX;
}

void dlr_commit_go_on(struct dlr_commit *c, const struct dlr_version *newest,
                      uint64_t ordered_step)
{
    if (newest && (!c->has_newest || dlr_version_cmp(*newest, c->newest) > 0)) {
        c->has_newest = true;
        c->newest = *newest;
    }
    if (ordered_step < STEP_MAX && ordered_step > c->last_step) {
        c->last_step = ordered_step;
    }
    c->hold_ms = INT64_MIN;
}

void dlr_commit_every(struct dlr_commit *c, unsigned steps)
{
    c->when.every = steps ? steps : 1;
}

unsigned dlr_commit_takes(const struct dlr_commit *c)
{
    return c->when.every_now;
}

unsigned dlr_commit_every_now(const struct dlr_commit *c)
{
    return dlr_schedule_every(&c->when);
}

void dlr_commit_ready(struct dlr_commit *c, uint32_t round, unsigned rank,
                      unsigned holder, int64_t now_ms)
{
    if (!c->running || round != c->round || rank >= c->world || holder > c->conf.copies)
        return;
    if (add(c, READY, holder, rank))
        post(c, now_ms);
}

void dlr_commit_unready(struct dlr_commit *c, uint32_t round, unsigned rank,
                        unsigned holder)
{
    if (c->running && round == c->round && rank < c->world && holder <= c->conf.copies)
        drop(c, READY, holder, rank);
}

void dlr_commit_progress(struct dlr_commit *c, uint32_t round, uint64_t step,
                         int64_t now_ms)
{
    if (!c->running || round != c->round)
        return;
    see_step(c, step, now_ms);
    post(c, now_ms);
}

void dlr_commit_sealed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       uint64_t at_step, int64_t now_ms)
{
    struct open *o;

    if (!c->running || v.round != c->round || rank >= c->world)
        return;
    see_step(c, at_step > v.step ? at_step : v.step, now_ms);
    o = find(c, v);
    if (o && o->first_seal_ms < 0)
        o->first_seal_ms = now_ms;
    if (o && add(c, tally_of(c, o), 0, rank))
        settle(c, o, now_ms);
    post(c, now_ms);
}

void dlr_commit_copied(struct dlr_commit *c, unsigned rank, unsigned holder,
                       struct dlr_version v, int64_t now_ms)
{
    struct open *o = find(c, v);

    if (!o || rank >= c->world || holder == 0 || holder > c->conf.copies)
        return;
    see_step(c, v.step, now_ms);
    if (add(c, tally_of(c, o), holder, rank))
        settle(c, o, now_ms);
}

void dlr_commit_missed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       const char *why, int64_t now_ms)
{
    struct open *o = find(c, v);

    if (!o || rank >= c->world)
        return;
    decide_abort(c, o, why);
    if (why && dlr_after(why, DLR_COMMIT_LATE))
        dlr_schedule_late(&c->when, v.step, c->last_step);
    else if (!why || !dlr_after(why, DLR_COMMIT_BUSY))
        back_off(c, now_ms);
    else if (dlr_schedule_busy(&c->when))
        take_back(c); /* at the old distance */
    post(c, now_ms);
}

void dlr_commit_want(struct dlr_commit *c, uint32_t round, uint64_t step,
                     int64_t now_ms)
{
    if (!c->running || round != c->round || step <= c->wanted || step >= STEP_MAX)
        return;
    c->wanted = step;
    if (step > 1) /* else it may have begun nothing */
        see_step(c, step - 1, now_ms);
    post(c, now_ms);
}

unsigned dlr_commit_asked(const struct dlr_commit *c)
{
    return c->asked;
}

void dlr_commit_tick(struct dlr_commit *c, int64_t now_ms)
{
    bool failed = false;

    for (struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++) {
        if (!o->used || o->reached_ms < 0 || o->reached_ms + c->conf.decide_ms > now_ms)
            continue;
        decide_abort(c, o, "not every rank had its copy in time");
        failed = true;
    }
    if (failed)
        back_off(c, now_ms);
}

int64_t dlr_commit_deadline_ms(const struct dlr_commit *c)
{
    int64_t first = INT64_MAX;

    for (const struct open *o = c->open; o < c->open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && o->reached_ms >= 0 && o->reached_ms + c->conf.decide_ms < first)
            first = o->reached_ms + c->conf.decide_ms;
    return first;
}

bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret)
{
    if (c->has_newest)
        *ret = c->newest;
    return c->has_newest;
}

bool dlr_commit_pending(const struct dlr_commit *c, struct dlr_version *ret)
{
    const struct open *o = oldest(c);

    if (o)
        *ret = o->v;
    return o != NULL;
}

/* The first rank and holder that are not in the tally. */
static void first_missing(const struct dlr_commit *c, unsigned tally,
                          struct dlr_commit_waits *ret)
{
    for (unsigned set = 0; set <= c->conf.copies; set++)
        for (unsigned r = 0; r < c->world; r++)
            if (!(bits(c, tally, set)[r / 64] >> (r % 64) & 1)) {
                ret->rank = r;
                ret->holder = set;
                return;
            }
}

bool dlr_commit_waits(const struct dlr_commit *c, struct dlr_commit_waits *ret)
{
    const struct open *o = oldest(c);

    if (!c->running || c->count[READY][0] == 0)
        return false;
    *ret = (struct dlr_commit_waits){.what = DLR_WAITS_ORDER};
    if (!full(c, READY)) {
        ret->what = DLR_WAITS_READY;
        first_missing(c, READY, ret);
    } else if (o && o->reached_ms >= 0) {
        ret->what = DLR_WAITS_VERSION;
        ret->v = o->v;
        first_missing(c, tally_of(c, o), ret);
    }
    return true;
}
