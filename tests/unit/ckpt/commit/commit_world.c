/* SPDX-License-Identifier: Apache-2.0 */
/* The world's state: how it begins and is copied, what the machine says into it, and
 * which states are equal.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "tests/unit/ckpt/commit/commit_world_state.h"

struct world_conf world_conf;
struct world_found world_found;
static struct world *now_in; /* the world whose machine is being called */

/* --- what the machine says -------------------------------------------------------- */

void world_say(struct world *w, unsigned what, unsigned step)
{
    if (w->nwords == WORDS_MAX)
        abort();
    w->words[w->nwords++] = (struct word){(unsigned char)what, (unsigned char)step};
}

static void on_save(void *arg, struct dlr_version v)
{
    unsigned long open = 0;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++) {
        const unsigned *count = now_in->c.count[FIRST_OPEN + i];

        open += now_in->c.open[i].used;
        if (now_in->c.open[i].used && dlr_version_eq(now_in->c.open[i].v, v))
            world_found.stale += count[0] || count[1]; /* left of a former one */
    }
    if (open > world_found.open)
        world_found.open = open;
    if (!world_step(v))
        return;
    world_found.twice += world_step(v) <= now_in->last;
    now_in->last = (unsigned char)world_step(v);
    now_in->open |= bit(world_step(v));
    world_say(now_in, SAVE_AT, world_step(v));
}

static void stay_open(struct world *w, unsigned steps)
{
    for (struct open *o = w->c.open; o < w->c.open + DLR_COMMIT_OPEN_MAX; o++)
        if (world_step(o->v) && (steps & bit(world_step(o->v))))
            o->used = true;
}

static void decide(unsigned what, unsigned s)
{
    if (!s)
        return;
    world_found.twice += !(now_in->open & bit(s));
    now_in->open &= (uint16_t)~bit(s);
    world_say(now_in, what, s);
}

/* No older one is open then. */
static void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    unsigned s = world_step(v), older = s ? bit(s) - 1u : UINT16_MAX;

    world_found.commits++;
    world_found.twice += (now_in->open & older) != 0;
    decide(COMMIT, s);
    if (s)
        now_in->newest = (unsigned char)s;
    if (world_conf.broken == WORLD_STAYS_OPEN && s)
        stay_open(now_in, bit(s));
    if (world_conf.broken == WORLD_OLDER_STAYS_OPEN)
        stay_open(now_in, now_in->open & older);
}

static void on_abort(void *arg, struct dlr_version v, const char *why)
{
    if (world_conf.broken == WORLD_OLDER_STAYS_OPEN && dlr_after(why, "a newer"))
        return;
    decide(ABORTED, world_step(v));
}

/* --- begin, copies ---------------------------------------------------------------- */

size_t world_size(void)
{
    return sizeof(struct world);
}

void world_ready(struct dlr_commit *c, unsigned round)
{
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        dlr_commit_ready(c, round, r, 0, 0);
        dlr_commit_ready(c, round, r, 1, 0);
    }
}

/* A machine for w, ready; held until it is told what there was. */
static void make_machine(struct world *w)
{
    static const struct dlr_commit_ops ops = {on_save, on_commit, on_abort};
    struct dlr_commit_conf conf = {.copies = 1,
                                   .decide_ms = 1000,
                                   .margin_steps = 1,
                                   .margin_max = 1,
                                   .open_max = world_conf.open};
    unsigned world = world_conf.ranks - (world_conf.broken == WORLD_RANK_MISSING);
    struct dlr_version began = world_version(w->began);
    struct dlr_commit *c;

    if (world_conf.broken == WORLD_COPIES_MISSING)
        conf.copies = 0;

    now_in = w;
    if (dlr_commit_new(&conf, &ops, NULL, &c, NULL) < 0 ||
        dlr_commit_round(c, w->round, world, w->began ? &began : NULL) < 0)
        abort();
    if (w->deaths)
        dlr_commit_hold(c);
    world_ready(c, w->round);
    memcpy(&w->c, c, sizeof(w->c));
    memcpy(w->bits, c->sets, sizeof(w->bits));
    w->c.sets = w->bits;
    dlr_commit_free(c);
}

void world_start(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->dead = NOBODY;
    make_machine(w);
}

void world_supervisor_dies(struct world *w)
{
    unsigned newest = 0;
    unsigned before =
        w->round * world_conf.steps; /* the last step of the former round */
    struct dlr_version v;

    for (unsigned r = 0; r < world_conf.ranks; r++) {
        if (w->node[r].known > newest)
            newest = w->node[r].known;
        w->node[r].heard = 0;
    }
    w->nwords = w->open = 0;
    w->newest = (unsigned char)newest;
    if (world_conf.broken == WORLD_COMMIT_FORGOTTEN)
        newest = 0;
    w->deaths++;
    make_machine(w);
    if (newest > before)
        world_say(now_in, COMMIT, newest);
    for (unsigned s = (newest > before ? newest : before) + 1; s <= w->last; s++)
        world_say(now_in, ABORTED, s);
    v = world_version(newest);
    dlr_commit_go_on(&w->c, newest ? &v : NULL,
                     world_conf.broken == WORLD_ORDERS_FORGOTTEN ? 0
                                                                 : w->last - before);
}

struct world *world_fork(const struct world *w, struct world *n)
{
    *n = *w;
    n->c.sets = n->bits;
    n->c.hold_ms = INT64_MIN; /* any pause may be over by now */
    n->c.backoff_ms = 1;
    dlr_schedule_init(&n->c.when, 200, 1, 1, 0); /* and any distance learned */
    n->c.when.known = w->c.when.known;
    n->c.when.step = w->c.when.step;
    now_in = n;
    return n;
}

bool world_has_open(const struct world *w, unsigned step)
{
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && world_step(w->c.open[i].v) == step)
            return true;
    return false;
}

/* --- equal states ----------------------------------------------------------------- */

/* Open versions that the machine knows rank r to be in this set of. */
static unsigned told(const struct world *w, unsigned set, unsigned r)
{
    unsigned steps = 0;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && world_step(w->c.open[i].v) &&
            (w->bits[(FIRST_OPEN + i) * SETS + set] & bit(r)))
            steps |= bit(world_step(w->c.open[i].v));
    return steps;
}

/* Nothing on a dead node matters but its rank's step, for which others wait. */
static void bury(struct world *w)
{
    unsigned ranks = world_conf.ranks;
    struct node *x = &w->node[w->dead],
                *before = &w->node[(w->dead + ranks - 1) % ranks];

    memset(x->own, 0, sizeof(x->own));
    memset(before->copy, 0, sizeof(before->copy));
    x->known = x->reads = 0;
    x->orders = x->ended = 0;
}

/* Facts that the machine knows, or about versions that are decided (it ignores them),
 * words that everybody has heard, what is known of steps that nothing is left of.
 */
static void forget(struct world *w)
{
    uint16_t open = 0, live = 0;
    unsigned heard = w->nwords;

    for (unsigned r = 0; r < world_conf.ranks; r++) {
        const struct node *x = &w->node[r];

        if (r != w->dead && x->heard < heard)
            heard = x->heard;
        for (unsigned k = 0; k < 2; k++)
            live |= bit(x->own[k].step) | bit(x->copy[k].step);
    }
    for (unsigned s = 1; s <= world_all(); s++)
        open |= world_has_open(w, s) ? bit(s) : 0;
    w->nwords -= (unsigned char)heard;
    memmove(w->words, w->words + heard, w->nwords * sizeof(*w->words));
    memset(w->words + w->nwords, 0, (WORDS_MAX - w->nwords) * sizeof(*w->words));
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        struct node *x = &w->node[r];

        x->heard = r == w->dead ? 0 : (unsigned char)(x->heard - heard);
        x->missed &= open;
        if (world_conf.broken != WORLD_STALE_COUNTS) {
            x->sealed &= open;
            x->copied &= open;
        }
        x->ended &= live;
        x->orders &= (uint16_t) ~(bit(x->step + 1u) - 1u);
        if (world_conf.merged)
            continue; /* it tells again */
        x->sealed &= (uint16_t)~told(w, 0, r);
        x->copied &= (uint16_t)~told(w, 1, r);
    }
    if (w->dead != NOBODY)
        bury(w);
}

struct key {
    unsigned char byte[160];
    unsigned n;
};

static void put(struct key *key, unsigned value)
{
    key->byte[key->n++] = (unsigned char)value;
}

static void put_steps(struct key *key, unsigned steps)
{
    put(key, steps & 255);
    put(key, steps >> 8);
}

/* The order of two slots means nothing, nor does what was in those that are free. */
static void put_cells(struct key *key, const struct cell *cells, unsigned reads)
{
    unsigned code[2];

    for (unsigned k = 0; k < 2; k++)
        code[k] = (cells[k].state == FREE || cells[k].state == GONE
                       ? 0
                       : cells[k].step << 4 | cells[k].state << 2 |
                             (unsigned)cells[k].rejected << 1) |
                  (reads == k + 1);
    put(key, code[code[0] > code[1]]);
    put(key, code[code[0] <= code[1]]);
}

static unsigned turned(unsigned ranks, unsigned first)
{
    unsigned all = bit(world_conf.ranks) - 1u;

    return (ranks >> first | ranks << (world_conf.ranks - first)) & all;
}

/* A key is a head, which depends on the rank that is counted first, and what is to say
 * of each rank from that one on: copies go round, so each rank is like the others.
 */
typedef void head_fn(struct key *key, const struct world *w, unsigned first);
typedef void rank_fn(struct key *key, const struct world *w, unsigned r);

static void put_decided(struct key *key, const struct world *w, unsigned first)
{
    unsigned ranks = world_conf.ranks;

    put(key, w->dead == NOBODY ? ranks : (w->dead + ranks - first) % ranks);
    put(key, w->newest);
    put(key, w->c.when.known ? 1 + (unsigned)w->c.when.step : 0);
    put(key, w->last);
    put_steps(key, w->open);
}

static void put_state(struct key *key, const struct world *w, unsigned first)
{
    put_decided(key, w, first);
    put(key, w->faults);
    put(key, w->deaths);
    put(key, w->whole);
    put(key, (unsigned)w->round << 4 | w->kills);
    put(key, w->began);
    put_steps(key, w->torn);
    put(key, (unsigned)w->disk << 4 | w->writes);
    put(key, turned(w->filed, first));
    put(key, turned(w->stored, first));
    for (unsigned s = 1; s <= world_all(); s++)
        for (const struct open *o = w->c.open; o < w->c.open + DLR_COMMIT_OPEN_MAX; o++)
            if (o->used && world_step(o->v) == s) {
                unsigned tally = FIRST_OPEN + (unsigned)(o - w->c.open);

                put(key, o->reached_ms >= 0);
                put(key, turned((unsigned)w->bits[tally * SETS], first));
                put(key, turned((unsigned)w->bits[tally * SETS + 1], first));
            }
    for (unsigned i = 0; i < w->nwords; i++)
        put(key, w->words[i].what << 4 | w->words[i].step);
}

static void put_rank(struct key *key, const struct world *w, unsigned r)
{
    const struct node *x = &w->node[r];

    memcpy(key->byte + key->n, x, offsetof(struct node, reads));
    key->n += offsetof(struct node, reads);
    put_cells(key, x->own, x->reads);
    put_cells(key, x->copy, 0);
}

static uint64_t hash_of(const struct key *key)
{
    uint64_t h = 0x9e3779b97f4a7c15u, word;

    for (unsigned at = 0; at < key->n; at += 8) {
        word = 0;
        memcpy(&word, key->byte + at, key->n - at < 8 ? key->n - at : 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h | 1;
}

static uint64_t least_hash(const struct world *w, head_fn *head, rank_fn *rank)
{
    struct key ranks = {.n = 0}, least = {.n = 0};
    unsigned each;

    for (unsigned r = 0; r < world_conf.ranks; r++)
        rank(&ranks, w, r);
    each = ranks.n / world_conf.ranks;
    for (unsigned first = 0; first < world_conf.ranks; first++) {
        struct key key;

        key.n = 0;
        head(&key, w, first);
        memcpy(key.byte + key.n, ranks.byte + first * each, ranks.n - first * each);
        memcpy(key.byte + key.n + ranks.n - first * each, ranks.byte, first * each);
        key.n += ranks.n;
        if (!first || memcmp(key.byte, least.byte, key.n) < 0)
            least = key;
    }
    return hash_of(&least);
}

uint64_t world_hash(struct world *w)
{
    forget(w);
    return least_hash(w, put_state, put_rank);
}

/* --- outcomes --------------------------------------------------------------------- */

static unsigned held(const struct world *w, const struct cell *cells)
{
    unsigned steps = 0;

    for (unsigned s = 1; s <= world_all(); s++)
        if ((world_has_open(w, s) || w->newest == s) && world_holds(cells, s))
            steps |= bit(s);
    return steps;
}

static void put_held(struct key *key, const struct world *w, unsigned r)
{
    const struct node *x = &w->node[r];

    put(key, x->step);
    put_steps(key, r == w->dead ? 0 : held(w, x->own));
    put_steps(key, world_next_to(r) == w->dead ? 0 : held(w, x->copy));
}

void world_outcomes(const struct world *w, world_outcome_fn *fn, void *arg)
{
    struct world n = *w;

    fn(least_hash(w, put_decided, put_held), arg);
    for (unsigned r = 0; r < world_conf.ranks && world_conf.merged; r++) {
        n.dead = (unsigned char)r;
        fn(least_hash(&n, put_decided, put_held), arg);
    }
}
