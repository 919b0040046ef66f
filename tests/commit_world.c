/* SPDX-License-Identifier: Apache-2.0 */
/* The world's state: how it begins and is copied, what the machine says into it, and which
 * states are equal.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/commit_world_state.h"

struct world_conf world_conf;
struct world_found world_found;
static struct world *now_in; /* the world whose machine is being called */

/* --- what the machine says ----------------------------------------------------------- */

static void say(unsigned what, uint64_t step)
{
    struct world *w = now_in;

    if (step > world_conf.steps)
        return;
    if (w->nwords == WORDS_MAX)
        abort();
    w->words[w->nwords++] = (struct word){(unsigned char)what, (unsigned char)step};
}

static void on_save(void *arg, struct dlr_version v)
{
    unsigned long open = 0;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        open += now_in->c.open[i].used;
    if (open > world_found.open)
        world_found.open = open;
    if (v.step <= world_conf.steps && now_in->ordered >= bit((unsigned)v.step))
        world_found.twice++;
    if (v.step <= world_conf.steps)
        now_in->ordered |= bit((unsigned)v.step);
    say(SAVE_AT, v.step);
}

static void decide(unsigned what, uint64_t step)
{
    if (step > world_conf.steps)
        return;
    if (!(now_in->ordered & bit((unsigned)step)) ||
        (now_in->decided & bit((unsigned)step)))
        world_found.twice++;
    now_in->decided |= bit((unsigned)step);
    say(what, step);
}

/* No older one is open then. */
static void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    unsigned older = bit((unsigned)v.step) - 1u;

    world_found.commits++;
    if ((now_in->ordered & ~now_in->decided) & older)
        world_found.twice++;
    decide(COMMIT, v.step);
}

static void on_abort(void *arg, struct dlr_version v, const char *why)
{
    decide(ABORTED, v.step);
}

/* --- begin, copies ----------------------------------------------------------------- */

size_t world_size(void)
{
    return sizeof(struct world);
}

void world_start(struct world *w)
{
    static const struct dlr_commit_ops ops = {on_save, on_commit, on_abort};
    struct dlr_commit_conf conf = {.copies = 1,
                                   .decide_ms = 1000,
                                   .margin_steps = 1,
                                   .margin_max = 1,
                                   .open_max = world_conf.open};
    struct dlr_commit *c;

    memset(w, 0, sizeof(*w));
    now_in = w;
    if (dlr_commit_new(&conf, &ops, NULL, &c, NULL) < 0 ||
        dlr_commit_round(c, 0, world_conf.ranks, NULL) < 0)
        abort();
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        dlr_commit_ready(c, 0, r, 0, 0);
        dlr_commit_ready(c, 0, r, 1, 0);
    }
    memcpy(&w->c, c, sizeof(w->c));
    memcpy(w->bits, c->sets, sizeof(w->bits));
    w->dead = NOBODY;
    dlr_commit_free(c);
}

struct world *world_fork(const struct world *w, struct world *n)
{
    *n = *w;
    n->c.sets = n->bits;
    n->c.hold_ms = INT64_MIN; /* any pause may be over by now */
    n->c.backoff_ms = 1;
    dlr_schedule_init(&n->c.when, 200, 1, 1); /* and any distance learned */
    n->c.when.known = w->c.when.known;
    n->c.when.step = w->c.when.step;
    now_in = n;
    return n;
}

bool world_has_open(const struct world *w, unsigned step)
{
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && w->c.open[i].v.step == step)
            return true;
    return false;
}

/* --- equal states ------------------------------------------------------------------- */

/* Open versions that the machine knows rank r to be in this set of. */
static unsigned told(const struct world *w, unsigned set, unsigned r)
{
    unsigned steps = 0;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && w->c.open[i].v.step <= world_conf.steps &&
            (w->bits[(FIRST_OPEN + i) * SETS + set] & bit(r)))
            steps |= bit((unsigned)w->c.open[i].v.step);
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
    x->known = x->orders = x->ended = 0;
}

/* Facts that the machine knows, or about versions that are decided (it ignores them), words that everybody has
 * heard, what is known of steps that nothing is left of.
 */
static void forget(struct world *w)
{
    unsigned char open = 0, live = 0;
    unsigned heard = w->nwords;

    for (unsigned r = 0; r < world_conf.ranks; r++) {
        const struct node *x = &w->node[r];

        if (r != w->dead && x->heard < heard)
            heard = x->heard;
        for (unsigned k = 0; k < 2; k++)
            live |= bit(x->own[k].step) | bit(x->copy[k].step);
    }
    for (unsigned s = 1; s <= world_conf.steps; s++)
        open |= world_has_open(w, s) ? bit(s) : 0;
    w->nwords -= (unsigned char)heard;
    memmove(w->words, w->words + heard, w->nwords * sizeof(*w->words));
    memset(w->words + w->nwords, 0, (WORDS_MAX - w->nwords) * sizeof(*w->words));
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        struct node *x = &w->node[r];

        x->heard = r == w->dead ? 0 : (unsigned char)(x->heard - heard);
        x->sealed &= open;
        x->copied &= open;
        x->missed &= open;
        x->ended &= live;
        x->orders &= (unsigned char)~(bit(x->step + 1u) - 1u);
        x->sealed &= (unsigned char)~told(w, 0, r);
        x->copied &= (unsigned char)~told(w, 1, r);
    }
    if (w->dead != NOBODY)
        bury(w);
}

struct key {
    unsigned char byte[128];
    unsigned n;
};

static void put(struct key *key, unsigned value)
{
    key->byte[key->n++] = (unsigned char)value;
}

/* The order of two slots means nothing, nor does what was in those that are free. */
static void put_cells(struct key *key, const struct cell *cells)
{
    unsigned code[2];

    for (unsigned k = 0; k < 2; k++)
        code[k] = cells[k].state == FREE || cells[k].state == GONE
                      ? 0
                      : cells[k].step << 4 | cells[k].state << 1 | cells[k].doomed;
    put(key, code[code[0] > code[1]]);
    put(key, code[code[0] <= code[1]]);
}

static unsigned turned(unsigned ranks, unsigned first)
{
    unsigned all = bit(world_conf.ranks) - 1u;

    return (ranks >> first | ranks << (world_conf.ranks - first)) & all;
}

/* The state with this rank counted first: copies go round, so each is like the others. */
static struct key key_of(const struct world *w, unsigned first)
{
    unsigned ranks = world_conf.ranks;
    struct key key = {.n = 0};

    put(&key, w->dead == NOBODY ? ranks : (w->dead + ranks - first) % ranks);
    put(&key, w->faults);
    put(&key, w->whole);
    put(&key, w->c.has_newest ? (unsigned)w->c.newest.step : 0);
    put(&key, w->c.when.known ? 1 + (unsigned)w->c.when.step : 0);
    put(&key, w->ordered);
    put(&key, w->decided);
    for (unsigned s = 1; s <= world_conf.steps; s++)
        for (const struct open *o = w->c.open; o < w->c.open + DLR_COMMIT_OPEN_MAX; o++)
            if (o->used && o->v.step == s) {
                unsigned tally = FIRST_OPEN + (unsigned)(o - w->c.open);

                put(&key, o->reached_ms >= 0);
                put(&key, turned((unsigned)w->bits[tally * SETS], first));
                put(&key, turned((unsigned)w->bits[tally * SETS + 1], first));
            }
    for (unsigned i = 0; i < ranks; i++) {
        const struct node *x = &w->node[(first + i) % ranks];

        memcpy(key.byte + key.n, x, offsetof(struct node, own));
        key.n += offsetof(struct node, own);
        put_cells(&key, x->own);
        put_cells(&key, x->copy);
    }
    for (unsigned i = 0; i < w->nwords; i++)
        put(&key, w->words[i].what << 4 | w->words[i].step);
    return key;
}

uint64_t world_hash(struct world *w)
{
    struct key least, key;
    uint64_t h = 0x9e3779b97f4a7c15u, word;

    forget(w);
    least = key_of(w, 0);
    for (unsigned first = 1; first < world_conf.ranks; first++) {
        key = key_of(w, first);
        if (memcmp(key.byte, least.byte, key.n) < 0)
            least = key;
    }
    for (unsigned at = 0; at < least.n; at += 8) {
        word = 0;
        memcpy(&word, least.byte + at, least.n - at < 8 ? least.n - at : 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h | 1;
}
