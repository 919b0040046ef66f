/* SPDX-License-Identifier: Apache-2.0 */
/* The explorer copies the machine's state, so this includes its source. */
#include "ckpt/commit.c"

#include <stdlib.h>

#include "tests/commit_world.h"

enum { NOBODY = 255, WORDS_MAX = 3 * WORLD_STEPS };
enum { FREE, WRITING, WHOLE, SAFE, GONE };  /* of a slot */
enum { NOTHING, SAVE_AT, COMMIT, ABORTED }; /* the supervisor's words */

struct cell {
    unsigned char step, state;
    unsigned char doomed; /* decided against while it was being written */
};

struct word {
    unsigned char what, step;
};

struct node {
    unsigned char step, known;   /* of the rank; newest commit known here */
    unsigned char orders, ended; /* bit per step: ordered; aborted, as known here */
    unsigned char sealed, copied, missed; /* facts, bit per step */
    unsigned char heard;                  /* words, of world.words */
    struct cell own[2], copy[2];          /* copy: of this rank, on the next node */
};

struct world {
    struct dlr_commit c;
    uint64_t bits[TALLIES * SETS];
    struct node node[WORLD_RANKS];
    struct word words[WORDS_MAX]; /* that somebody may still hear */
    unsigned char nwords;
    unsigned char ordered, decided; /* bit per step */
    unsigned char faults, dead;
    bool whole; /* naive only: some step was once safe */
};

struct world_conf world_conf;
struct world_found world_found;
static struct world *now_in; /* the world whose machine is being called */
static world_visit_fn *visit_fn;
static void *visit_arg;

static unsigned char bit(unsigned step)
{
    return (unsigned char)(1u << step);
}

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

/* --- what is restorable -------------------------------------------------------------- */

static bool holds(const struct cell *cells, unsigned step)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].step == step && !cells[k].doomed &&
            (cells[k].state == WHOLE || cells[k].state == SAFE))
            return true;
    return false;
}

static unsigned next_to(unsigned r)
{
    return (r + 1) % world_conf.ranks;
}

/* Every rank has this step on a node other than dead. */
static bool restorable(const struct world *w, unsigned step, unsigned dead)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        if ((r == dead || !holds(w->node[r].own, step)) &&
            (next_to(r) == dead || !holds(w->node[r].copy, step)))
            return false;
    return true;
}

static bool anything(const struct world *w, unsigned dead)
{
    for (unsigned s = 1; s <= world_conf.steps; s++)
        if (restorable(w, s, dead))
            return true;
    return false;
}

static bool once_whole(const struct world *w)
{
    for (unsigned s = 1; s <= world_conf.steps; s++) {
        unsigned dead = 0;

        while (dead < world_conf.ranks && restorable(w, s, dead))
            dead++;
        if (dead == world_conf.ranks)
            return true;
    }
    return false;
}

/* After the first commit something is restorable whichever node is, or dies, dead; and it is
 * the newest commit itself where commits exist.
 */
static void check(struct world *w)
{
    if (world_conf.naive && w->dead == NOBODY && !w->whole)
        w->whole = once_whole(w);
    if (world_conf.naive ? !w->whole : !w->c.has_newest)
        return;
    for (unsigned k = 0; k < world_conf.ranks; k++) {
        if (w->dead != NOBODY && w->dead != k)
            continue;
        if (world_conf.naive ? !anything(w, k)
                             : !restorable(w, (unsigned)w->c.newest.step, k))
            world_found.lost++;
    }
}

/* --- slots ----------------------------------------------------------------------------- */

static bool is_open(const struct world *w, unsigned step)
{
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && w->c.open[i].v.step == step)
            return true;
    return false;
}

static void let_go(struct world *w, struct cell *c, unsigned state)
{
    if (c->state == WHOLE && is_open(w, c->step))
        world_found.reused++;
    *c = (struct cell){.state = (unsigned char)state};
}

static struct cell *usable(struct cell *cells)
{
    for (unsigned k = 0; k < 2; k++) {
        const struct cell *other = &cells[!k];

        if (cells[k].state == FREE || cells[k].state == GONE ||
            (world_conf.naive && cells[k].state == WHOLE && other->state == WHOLE &&
             other->step > cells[k].step))
            return &cells[k];
    }
    return NULL;
}

static struct cell *find_cell(struct cell *cells, unsigned state, unsigned step)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].state == state && (!step || cells[k].step == step))
            return &cells[k];
    return NULL;
}

static void fill(struct cell *c, unsigned step)
{
    *c = (struct cell){.step = (unsigned char)step, .state = WRITING};
}

/* --- moves ------------------------------------------------------------------------------ */

static struct world *fork_world(const struct world *w, struct world *n)
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

static void visit(struct world *n, unsigned one_in)
{
    check(n);
    visit_fn(n, one_in, visit_arg);
}

/* Where something went wrong, as often as the test allows. */
static void go_wrong(struct world *n)
{
    if (++n->faults <= world_conf.faults)
        visit(n, 16);
}

static void seal(struct world *n, unsigned r, bool good)
{
    struct node *x = &n->node[r];
    struct cell *c = find_cell(x->own, WRITING, 0);
    unsigned step = c->step;

    if (good && !c->doomed) {
        c->state = WHOLE;
        x->sealed |= bit(step);
        return;
    }
    let_go(n, c, GONE);
    x->missed |= bit(step);
}

static void begin(struct world *n, unsigned r)
{
    struct node *x = &n->node[r];
    unsigned s = ++x->step;
    struct cell *c = usable(x->own);

    if (!world_conf.naive && !(x->orders & bit(s)))
        return;
    if (c && !find_cell(x->own, WRITING, 0))
        fill(c, s);
    else
        x->missed |= bit(s); /* none is free, or the last one is not finished */
}

static bool in_front(const struct world *w, unsigned r)
{
    for (unsigned i = 0; i < world_conf.ranks; i++)
        if (w->node[i].step < w->node[r].step)
            return true;
    return false;
}

static void rank_moves(const struct world *w, unsigned r)
{
    struct world n;

    if (r == w->dead)
        return;
    if (find_cell(fork_world(w, &n)->node[r].own, WRITING, 0)) {
        seal(&n, r, true);
        visit(&n, 1);
        seal(fork_world(w, &n), r, false);
        go_wrong(&n);
        if (world_conf.naive)
            return; /* it waits for its save */
    }
    if (w->node[r].step < world_conf.steps && !in_front(w, r)) {
        begin(fork_world(w, &n), r);
        visit(&n, 16);
    }
}

/* A copy of r's that is on its way ends well, or its sender is gone or gives up. */
static void copy_ends(const struct world *w, unsigned r, unsigned k)
{
    struct world n;
    struct cell *c = &fork_world(w, &n)->node[r].copy[k];

    if (r != w->dead && holds(n.node[r].own, c->step) && !c->doomed) {
        c->state = WHOLE;
        n.node[r].copied |= bit(c->step);
        visit(&n, 1);
        c = &fork_world(w, &n)->node[r].copy[k];
    }
    let_go(&n, c, GONE);
    if (r == w->dead || w->node[r].copy[k].doomed)
        visit(&n, 1);
    else
        go_wrong(&n);
}

/* What r holds whole is sent to the next node, which has a slot for it or lets it wait. */
static void copy_begins(const struct world *w, unsigned r, unsigned s)
{
    struct node *to, *x;
    struct world n;
    struct cell *c;

    x = &fork_world(w, &n)->node[r];
    to = &n.node[next_to(r)];
    if (!holds(x->own, s) || holds(x->copy, s) || find_cell(x->copy, WRITING, s) ||
        s < to->known || (to->ended & bit(s)))
        return;
    c = usable(x->copy);
    if (!c)
        return;
    fill(c, s);
    visit(&n, 1);
}

static void copy_moves(const struct world *w, unsigned r)
{
    if (next_to(r) == w->dead)
        return;
    for (unsigned k = 0; k < 2; k++)
        if (w->node[r].copy[k].state == WRITING)
            copy_ends(w, r, k);
    for (unsigned s = 1; s <= world_conf.steps && r != w->dead; s++)
        copy_begins(w, r, s);
}

static void supervisor_hears(const struct world *w, unsigned r, unsigned s)
{
    struct dlr_version v = {.round = 0, .step = s};
    const struct node *x = &w->node[r];
    struct world n;

    if (x->sealed & bit(s)) {
        dlr_commit_sealed(&fork_world(w, &n)->c, r, v, s, 0);
        visit(&n, 1);
    }
    if (x->copied & bit(s)) {
        dlr_commit_copied(&fork_world(w, &n)->c, r, 1, v, 0);
        visit(&n, 1);
    }
    if (x->missed & bit(s)) { /* that one ends, or what was announced with it */
        dlr_commit_missed(&fork_world(w, &n)->c, r, v, "busy", 0);
        visit(&n, 1);
        dlr_commit_missed(&fork_world(w, &n)->c, r, v, "it failed", 0);
        visit(&n, 1);
    }
}

static void order_arrives(struct node *x, unsigned s)
{
    if (x->step >= s)
        x->missed |= bit(s);
    else
        x->orders |= bit(s);
}

static void decision_arrives(struct world *n, unsigned r, unsigned s, bool commit)
{
    unsigned before = (r + world_conf.ranks - 1) % world_conf.ranks;
    struct cell *cells[2] = {n->node[r].own, n->node[before].copy};
    struct node *x = &n->node[r];

    if (commit && s > x->known)
        x->known = (unsigned char)s;
    if (!commit)
        x->ended |= bit(s);
    x->orders &= (unsigned char)~bit(s);
    for (unsigned i = 0; i < 4; i++) {
        struct cell *c = &cells[i / 2][i % 2];

        if (c->state == WRITING)
            c->doomed |= commit ? c->step < s : c->step == s;
        else if (commit && c->state != GONE && c->step < s)
            let_go(n, c, FREE);
        else if (c->step == s && c->state == WHOLE && commit)
            c->state = SAFE;
        else if (c->step == s && c->state == WHOLE)
            let_go(n, c, GONE);
    }
}

/* The next word of the supervisor is heard, or lost. */
static void agent_hears(const struct world *w, unsigned r)
{
    struct word word;
    struct world n;

    if (r == w->dead || w->node[r].heard == w->nwords)
        return;
    word = w->words[w->node[r].heard];
    fork_world(w, &n)->node[r].heard++;
    go_wrong(&n);
    fork_world(w, &n)->node[r].heard++;
    if (word.what == SAVE_AT)
        order_arrives(&n.node[r], word.step);
    else
        decision_arrives(&n, r, word.step, word.what == COMMIT);
    visit(&n, 1);
}

static void deadlines_pass(const struct world *w)
{
    struct world n;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++) {
        if (!w->c.open[i].used || w->c.open[i].reached_ms < 0)
            continue;
        fork_world(w, &n);
        for (unsigned k = 0; k < DLR_COMMIT_OPEN_MAX; k++)
            if (n.c.open[k].reached_ms >= 0)
                n.c.open[k].reached_ms = k != i;
        dlr_commit_tick(&n.c, n.c.conf.decide_ms);
        for (unsigned k = 0; k < DLR_COMMIT_OPEN_MAX; k++)
            if (n.c.open[k].reached_ms >= 0)
                n.c.open[k].reached_ms = 0;
        go_wrong(&n);
    }
}

void world_moves(const struct world *w, world_visit_fn *fn, void *arg)
{
    struct world n;

    visit_fn = fn;
    visit_arg = arg;
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        rank_moves(w, r);
        copy_moves(w, r);
        if (w->dead == NOBODY) {
            fork_world(w, &n)->dead = (unsigned char)r;
            visit(&n, 64);
        }
        if (world_conf.naive)
            continue;
        agent_hears(w, r);
        for (unsigned s = 1; s <= world_conf.steps; s++)
            supervisor_hears(w, r, s);
        dlr_commit_progress(&fork_world(w, &n)->c, 0, w->node[r].step, 0);
        visit(&n, 1);
    }
    if (!world_conf.naive)
        deadlines_pass(w);
}

/* --- begin, and equal states ------------------------------------------------------------ */

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
        open |= is_open(w, s) ? bit(s) : 0;
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
