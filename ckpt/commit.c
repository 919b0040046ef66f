/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

#define DEFAULT_MARGIN 2
#define DEFAULT_MARGIN_MAX 64
#define CLEAN_COMMITS 16 /* in a row, before the margin shrinks by one */
#define LEAD_MS 5        /* an order takes this long to reach every rank */
#define RATE_WINDOW_MS 500
#define BACKOFF_MS 100 /* after an abort that waiting may cure; doubles each time */
#define BACKOFF_MAX_MS 10000
#define STEP_MAX ((uint64_t)1 << 62)

/* READY and WHOLE of a snapshot's own node, then of each other holder. */
enum set { OWNER_READY, SEALED, HOLDERS, NSETS = HOLDERS + 2 * DLR_COMMIT_COPIES_MAX };

static enum set ready_at(unsigned holder)
{
    return holder ? HOLDERS + 2 * (holder - 1) : OWNER_READY;
}

static enum set copied_at(unsigned holder)
{
    return HOLDERS + 2 * (holder - 1) + 1;
}

/* What is known of the ranks' steps. The newest step seen, when it was first seen and when
 * the ranks last spoke; a window over which the rate is measured.
 */
struct pace {
    bool known;
    uint64_t step;
    int64_t first_ms, last_ms;
    uint64_t window_step;
    int64_t window_ms;
    double per_ms;
};

struct dlr_commit {
    struct dlr_commit_conf conf;
    struct dlr_commit_ops ops;
    void *arg;

    bool running;
    uint32_t round;
    unsigned world;
    uint64_t *sets; /* NSETS bitmaps of words() each */
    unsigned count[NSETS];

    struct pace pace;
    unsigned margin, clean;

    bool has_newest, has_pending;
    struct dlr_version newest, pending;
    unsigned every;        /* steps from a commit to the next order */
    uint64_t last_step;    /* newest step of this round that was ever ordered */
    int64_t reached_ms;    /* the pending step was known as reached; -1: not yet */
    int64_t first_seal_ms; /* -1: none */
    int64_t hold_ms;       /* nothing is ordered before this */
    int64_t backoff_ms;    /* of the next such abort */
};

static size_t words(unsigned world)
{
    return (world + 63) / 64;
}

/* True when rank was not in the set before. */
static bool add(struct dlr_commit *c, enum set set, unsigned rank)
{
    uint64_t *word = &c->sets[set * words(c->world) + rank / 64];
    uint64_t bit = UINT64_C(1) << (rank % 64);

    if (*word & bit)
        return false;
    *word |= bit;
    c->count[set]++;
    return true;
}

static void drop(struct dlr_commit *c, enum set set, unsigned rank)
{
    uint64_t *word = &c->sets[set * words(c->world) + rank / 64];
    uint64_t bit = UINT64_C(1) << (rank % 64);

    c->count[set] -= (*word & bit) != 0;
    *word &= ~bit;
}

static void clear(struct dlr_commit *c, enum set set)
{
    memset(&c->sets[set * words(c->world)], 0, words(c->world) * sizeof(uint64_t));
    c->count[set] = 0;
}

static bool full(const struct dlr_commit *c, enum set set)
{
    return c->count[set] == c->world;
}

static bool every_holder(const struct dlr_commit *c, enum set (*at)(unsigned holder))
{
    for (unsigned k = 1; k <= c->conf.copies; k++)
        if (!full(c, at(k)))
            return false;
    return true;
}

static void pace_see(struct pace *p, uint64_t step, int64_t now_ms)
{
    if (!p->known) {
        p->known = true;
        p->step = p->window_step = step;
        p->first_ms = p->last_ms = p->window_ms = now_ms;
        return;
    }
    if (now_ms > p->last_ms)
        p->last_ms = now_ms;
    if (step <= p->step)
        return;
    p->step = step;
    p->first_ms = now_ms;
    if (now_ms - p->window_ms < RATE_WINDOW_MS)
        return;
    p->per_ms = (double)(step - p->window_step) / (double)(now_ms - p->window_ms);
    p->window_step = step;
    p->window_ms = now_ms;
}

/* Steps that have gone by since the newest known one, when an order of now arrives. What is
 * known may be a beat old; a rank that said the same step again is less than one further.
 */
static uint64_t pace_ahead(const struct pace *p, int64_t now_ms)
{
    double since_first = p->per_ms * (double)(now_ms - p->first_ms + LEAD_MS);
    double since_last = 1.0 + p->per_ms * (double)(now_ms - p->last_ms + LEAD_MS);
    double ahead = since_first < since_last ? since_first : since_last;

    return ahead > 0 ? (uint64_t)ahead : 0;
}

/* A version that was given up is made up for at once: only commits are spaced. */
static bool too_soon(const struct dlr_commit *c, uint64_t step)
{
    return c->has_newest && c->newest.round == c->round &&
           step - c->newest.step < c->every;
}

static void post(struct dlr_commit *c, int64_t now_ms)
{
    uint64_t step;

    if (!c->running || c->has_pending || now_ms < c->hold_ms || !c->pace.known ||
        !full(c, OWNER_READY) || !every_holder(c, ready_at))
        return;
    step = c->pace.step + pace_ahead(&c->pace, now_ms) + c->margin;
    if (step <= c->last_step)
        step = c->last_step + 1;
    if (step >= STEP_MAX || too_soon(c, step))
        return;
    clear(c, SEALED);
    for (unsigned k = 1; k <= c->conf.copies; k++)
        clear(c, copied_at(k));
    c->last_step = step;
    c->pending = (struct dlr_version){.round = c->round, .step = step};
    c->has_pending = true;
    c->reached_ms = c->first_seal_ms = -1;
    c->ops.save_at(c->arg, c->pending);
}

static void decide_abort(struct dlr_commit *c, const char *why)
{
    struct dlr_version v = c->pending;

    if (!c->has_pending)
        return;
    c->has_pending = false;
    c->clean = 0;
    c->ops.abort(c->arg, v, why);
}

/* What failed (no free slot, a partner that refuses) will fail again at once: orders that can
 * only be aborted cost every rank a copy. The next progress after the pause tries again.
 */
static void back_off(struct dlr_commit *c, int64_t now_ms)
{
    c->hold_ms = now_ms + c->backoff_ms;
    c->backoff_ms *= 2;
    if (c->backoff_ms > BACKOFF_MAX_MS)
        c->backoff_ms = BACKOFF_MAX_MS;
}

static void decide_commit(struct dlr_commit *c, int64_t now_ms)
{
    struct dlr_version v = c->pending;

    c->has_pending = false;
    c->has_newest = true;
    c->newest = v;
    c->backoff_ms = BACKOFF_MS;
    if (++c->clean >= CLEAN_COMMITS) {
        c->clean = 0;
        if (c->margin > c->conf.margin_steps)
            c->margin--;
    }
    c->ops.commit(c->arg, v, now_ms - c->first_seal_ms);
}

/* The decision's clock runs from the moment the step is known as reached: until then no slot
 * holds anything of it, and a program with long steps is not in default.
 */
static void reached(struct dlr_commit *c, int64_t now_ms)
{
    if (c->has_pending && c->reached_ms < 0)
        c->reached_ms = now_ms;
}

static void see_step(struct dlr_commit *c, uint64_t step, int64_t now_ms)
{
    if (step >= STEP_MAX)
        return;
    pace_see(&c->pace, step, now_ms);
    if (c->has_pending && step >= c->pending.step)
        reached(c, now_ms);
}

static bool is_pending(const struct dlr_commit *c, unsigned rank, struct dlr_version v)
{
    return c->has_pending && rank < c->world && dlr_version_eq(v, c->pending);
}

static void settle(struct dlr_commit *c, int64_t now_ms)
{
    if (!full(c, SEALED) || !every_holder(c, copied_at))
        return;
    decide_commit(c, now_ms);
    post(c, now_ms);
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
    if (!c->conf.margin_steps)
        c->conf.margin_steps = DEFAULT_MARGIN;
    if (!c->conf.margin_max)
        c->conf.margin_max = DEFAULT_MARGIN_MAX;
    if (c->conf.margin_max < c->conf.margin_steps)
        c->conf.margin_max = c->conf.margin_steps;
    c->margin = c->conf.margin_steps;
    c->every = 1;
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
    sets = calloc(NSETS * words(world), sizeof(*sets));
    if (!sets)
        return -ENOMEM;
    free(c->sets);
    c->sets = DLR_STEAL(sets);
    memset(c->count, 0, sizeof(c->count));
    c->round = round;
    c->world = world;
    c->pace = (struct pace){.per_ms = c->pace.per_ms};
    c->has_newest = restored != NULL;
    if (restored)
        c->newest = *restored;
    c->last_step = restored ? restored->step : 0;
    c->hold_ms = INT64_MIN;
    c->backoff_ms = BACKOFF_MS;
    c->running = true;
    return 0;
}

void dlr_commit_stop(struct dlr_commit *c, const char *why)
{
    c->running = false;
    decide_abort(c, why);
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
    c->every = steps ? steps : 1;
}

void dlr_commit_ready(struct dlr_commit *c, uint32_t round, unsigned rank,
                      unsigned holder, int64_t now_ms)
{
    if (!c->running || round != c->round || rank >= c->world || holder > c->conf.copies)
        return;
    if (add(c, ready_at(holder), rank))
        post(c, now_ms);
}

void dlr_commit_unready(struct dlr_commit *c, uint32_t round, unsigned rank,
                        unsigned holder)
{
    if (c->running && round == c->round && rank < c->world && holder <= c->conf.copies)
        drop(c, ready_at(holder), rank);
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
    if (!c->running || v.round != c->round || rank >= c->world)
        return;
    see_step(c, at_step, now_ms);
    if (!is_pending(c, rank, v))
        return;
    reached(c, now_ms);
    if (c->first_seal_ms < 0)
        c->first_seal_ms = now_ms;
    if (add(c, SEALED, rank))
        settle(c, now_ms);
}

void dlr_commit_copied(struct dlr_commit *c, unsigned rank, unsigned holder,
                       struct dlr_version v, int64_t now_ms)
{
    if (!is_pending(c, rank, v) || holder == 0 || holder > c->conf.copies)
        return;
    reached(c, now_ms);
    if (add(c, copied_at(holder), rank))
        settle(c, now_ms);
}

void dlr_commit_missed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       const char *why, int64_t now_ms)
{
    if (!is_pending(c, rank, v))
        return;
    if (why && dlr_after(why, DLR_COMMIT_LATE)) {
        c->margin *= 2;
        if (c->margin > c->conf.margin_max)
            c->margin = c->conf.margin_max;
    } else {
        back_off(c, now_ms);
    }
    decide_abort(c, why);
    post(c, now_ms);
}

void dlr_commit_tick(struct dlr_commit *c, int64_t now_ms)
{
    if (dlr_commit_deadline_ms(c) > now_ms)
        return;
    decide_abort(c, "not every rank had its copy in time");
    back_off(c, now_ms);
}

int64_t dlr_commit_deadline_ms(const struct dlr_commit *c)
{
    if (!c->has_pending || c->reached_ms < 0)
        return INT64_MAX;
    return c->reached_ms + c->conf.decide_ms;
}

bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret)
{
    if (c->has_newest)
        *ret = c->newest;
    return c->has_newest;
}

bool dlr_commit_pending(const struct dlr_commit *c, struct dlr_version *ret)
{
    if (c->has_pending)
        *ret = c->pending;
    return c->has_pending;
}
