/* SPDX-License-Identifier: Apache-2.0 */
/* The commit state machine in every order of events of a small job, and in random orders of
 * a larger one with faults. The explorer copies the machine's state, so this program includes
 * its source.
 */
#include "ckpt/commit.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Ranks 0..2, each on its own node; rank r's copies are on node r + 1. A step has a
 * collective in it: no rank is two steps ahead of another. What ranks report are facts that
 * may be delivered at any later time, any number of times, or never; what the supervisor
 * says comes in order (it is one connection), late, or never. The agents' rule: a slot is
 * used again when it is dead or older than the newest commit known there. The naive job
 * decides nothing: each rank saves each step over anything but its newest whole.
 */
enum { RANKS = 3, STEPS = 4, NOBODY = 255 }; /* at most */

struct cell {
    unsigned char step, state; /* enum dlr_slot_state */
    unsigned char doomed;      /* aborted while it was being written */
};

struct world {
    struct dlr_commit c;
    uint64_t bits[NSETS];
    struct cell own[RANKS][2], copy[RANKS][2];
    unsigned char step[RANKS], save_at[RANKS], save_slot[RANKS];
    unsigned char known[RANKS]; /* newest commit each node knows */
    unsigned char sealed[RANKS], copied[RANKS], missed[RANKS]; /* facts, bit per step */
    unsigned char heard[RANKS]; /* 2 s: order of step s, 2 s + 1: its decision */
    unsigned char ordered, committed, aborted; /* bit per step, until all have heard */
    unsigned char last;                        /* step that was ordered last */
    bool decided;                              /* and was decided */
    unsigned char faults; /* spent: a lost word, a failed seal or copy, a deadline */
    unsigned char dead, whole; /* whole: naive only, some step was once safe */
};

enum { FREE, OPEN, WHOLE, SAFE, DEAD };

static struct {
    uint64_t *table; /* states seen */
    size_t mask, used;
    bool naive;
    unsigned ranks, steps, faults;
    struct world *pick; /* walking at random: the step to take */
    unsigned choices, seed;
    unsigned long violations, reused, twice, commits;
} ex;
static struct world *now_in; /* the world whose machine is being called */

static void ex_save(void *arg, struct dlr_version v)
{
    if (v.step <= now_in->last || (now_in->last && !now_in->decided))
        ex.twice++;
    now_in->last = (unsigned char)v.step;
    now_in->decided = false;
    if (v.step <= ex.steps)
        now_in->ordered |= (unsigned char)(1u << v.step);
}

static void decide(struct dlr_version v)
{
    if (v.step != now_in->last || now_in->decided)
        ex.twice++;
    now_in->decided = true;
}

static void ex_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    decide(v);
    ex.commits++;
    now_in->committed |= (unsigned char)(1u << v.step);
}

static void ex_abort(void *arg, struct dlr_version v, const char *why)
{
    decide(v);
    if (v.step <= ex.steps)
        now_in->aborted |= (unsigned char)(1u << v.step);
}

static bool holds(const struct cell *cells, unsigned step)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].step == step && !cells[k].doomed &&
            (cells[k].state == WHOLE || cells[k].state == SAFE))
            return true;
    return false;
}

/* Every rank has this step on a node other than dead. */
static bool restorable(const struct world *w, unsigned step, unsigned dead)
{
    for (unsigned r = 0; r < ex.ranks; r++)
        if ((r == dead || !holds(w->own[r], step)) &&
            ((r + 1) % ex.ranks == dead || !holds(w->copy[r], step)))
            return false;
    return true;
}

static bool anything(const struct world *w, unsigned dead)
{
    for (unsigned s = 1; s <= ex.steps; s++)
        if (restorable(w, s, dead))
            return true;
    return false;
}

/* After the first commit something is restorable whichever node is, or dies, dead; and it is
 * the newest commit itself where commits exist.
 */
static void check(struct world *w)
{
    if (ex.naive) {
        for (unsigned s = 1; s <= ex.steps && w->dead == NOBODY && !w->whole; s++)
            w->whole =
                restorable(w, s, 0) && restorable(w, s, 1) && restorable(w, s, 2);
        if (!w->whole)
            return;
    } else if (!w->c.has_newest) {
        return;
    }
    for (unsigned k = 0; k < ex.ranks; k++) {
        if (w->dead != NOBODY && w->dead != k)
            continue;
        if (!anything(w, k) ||
            (!ex.naive && !restorable(w, (unsigned)w->c.newest.step, k)))
            ex.violations++;
    }
}

static void explore(const struct world *w);

/* Drops what nothing can depend on any more, so that equal futures are one state: facts
 * about versions that are not pending (the machine ignores them: see above), messages that
 * everybody has heard, spent orders, contents of dead slots.
 */
static void normalise(struct world *w)
{
    unsigned char pending = 0, said;
    unsigned heard = 255;

    for (unsigned r = 0; r < ex.ranks; r++)
        if (r != w->dead && w->heard[r] < heard)
            heard = w->heard[r];
    said = (unsigned char)(0xffu << (heard + 1) / 2);
    w->ordered &= (unsigned char)(0xffu << (heard / 2 + 1));
    w->committed &= said;
    w->aborted &= said;
    if (w->c.has_pending && w->c.pending.step <= ex.steps)
        pending = (unsigned char)(1u << w->c.pending.step);
    w->c.sets = NULL;
    w->c.clean = 0;
    for (unsigned r = 0; r < ex.ranks; r++) {
        w->sealed[r] &= pending;
        w->copied[r] &= pending;
        w->missed[r] &= pending;
        if (w->save_at[r] <= w->step[r] && !(pending & 1u << w->save_at[r]))
            w->save_at[r] = w->save_slot[r] = 0;
        for (unsigned k = 0; k < 2; k++) {
            if (w->own[r][k].state == DEAD)
                w->own[r][k] = (struct cell){0};
            if (w->copy[r][k].state == DEAD)
                w->copy[r][k] = (struct cell){0};
        }
    }
}

static unsigned draw(unsigned below)
{
    ex.seed = ex.seed * 1103515245u + 12345u;
    return (ex.seed >> 8) % below;
}

/* True for what a random walk should meet only in one of n of its chances. */
static bool rare(unsigned n)
{
    return ex.pick && draw(n) != 0;
}

static void visit(struct world *w)
{
    uint64_t h = 0x9e3779b97f4a7c15u, word;
    size_t at;

    check(w);
    if (ex.pick) {
        if (draw(++ex.choices) == 0)
            *ex.pick = *w;
        return;
    }
    normalise(w);
    for (at = 0; at + 8 <= sizeof(*w); at += 8) {
        memcpy(&word, (const char *)w + at, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h |= 1;
    for (at = h >> 8 & ex.mask; ex.table[at]; at = (at + 1) & ex.mask)
        if (ex.table[at] == h)
            return;
    assert_true(ex.used < ex.mask / 4 * 3);
    ex.table[at] = h;
    ex.used++;
    explore(w);
}

static bool usable(const struct cell *c, const struct cell *other, unsigned known)
{
    if (c->state == OPEN)
        return false;
    if (ex.naive)
        return c->state != WHOLE || (other->state == WHOLE && other->step > c->step);
    return c->state == FREE || c->state == DEAD || c->step < known;
}

/* Takes a slot for step: what it held is gone. */
static void take(struct world *w, struct cell *c, unsigned step)
{
    if (c->state == WHOLE && w->c.has_pending && w->c.pending.step == c->step)
        ex.reused++;
    *c = (struct cell){.step = (unsigned char)step, .state = OPEN};
}

static int find(struct cell *cells, unsigned known)
{
    for (int k = 0; k < 2; k++)
        if (usable(&cells[k], &cells[!k], known))
            return k;
    return -1;
}

static struct cell *find_state(struct cell *cells, unsigned state)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].state == state)
            return &cells[k];
    return NULL;
}

static struct world *fork_world(const struct world *w, struct world *n)
{
    *n = *w;
    n->c.sets = n->bits;
    n->c.hold_ms = INT64_MIN; /* any pause may be over by now */
    n->c.backoff_ms = 1;
    now_in = n;
    return n;
}

static void order_arrives(struct world *n, unsigned r, unsigned s)
{
    int k = find(n->own[r], n->known[r]);

    if (s <= n->save_at[r])
        return;
    if (n->step[r] >= s || k < 0) {
        n->missed[r] |= (unsigned char)(1u << s);
        return;
    }
    n->save_at[r] = (unsigned char)s;
    n->save_slot[r] = (unsigned char)k;
}

static void decision_arrives(struct world *n, unsigned node, unsigned s, bool commit)
{
    struct cell *cells[2] = {n->own[node], n->copy[(node + ex.ranks - 1) % ex.ranks]};

    if (commit && s > n->known[node])
        n->known[node] = (unsigned char)s;
    for (unsigned i = 0; i < 4; i++) {
        struct cell *c = &cells[i / 2][i % 2];

        if (commit && c->step < s && c->state != OPEN)
            *c = (struct cell){0};
        if (c->step != s || c->state == FREE || c->state == DEAD)
            continue;
        if (c->state == OPEN)
            c->doomed = !commit;
        else
            c->state = commit ? SAFE : DEAD;
    }
}

static void begin(struct world *n, unsigned r)
{
    unsigned s = ++n->step[r];
    int k = n->save_slot[r];

    if (ex.naive)
        k = find(n->own[r], 0);
    else if (n->save_at[r] != s)
        return;
    if (k >= 0)
        take(n, &n->own[r][k], s);
}

static void seal(struct world *n, unsigned r, bool good)
{
    struct cell *c = find_state(n->own[r], OPEN);

    if (good && !c->doomed) {
        c->state = WHOLE;
        n->sealed[r] |= (unsigned char)(1u << c->step);
    } else {
        c->state = DEAD;
        n->missed[r] |= (unsigned char)(1u << c->step);
    }
}

/* Goes on in a world where something went wrong, as often as the test allows. */
static void go_wrong(struct world *n)
{
    if (++n->faults <= ex.faults && !rare(16))
        visit(n);
}

static bool in_front(const struct world *w, unsigned r)
{
    for (unsigned i = 0; i < ex.ranks; i++)
        if (w->step[i] < w->step[r])
            return true;
    return false;
}

static void worker_moves(const struct world *w, unsigned r)
{
    struct cell *open;
    struct world n;

    if (r == w->dead)
        return;
    open = find_state(fork_world(w, &n)->own[r], OPEN);
    if (open) {
        seal(&n, r, true);
        visit(&n);
        seal(fork_world(w, &n), r, false);
        go_wrong(&n);
    } else if (w->step[r] < ex.steps && !in_front(w, r) && !rare(16)) {
        begin(&n, r);
        visit(&n);
    }
}

/* The newest whole snapshot of r is sent to its partner: first the receiver takes a slot. */
static void copy_moves(const struct world *w, unsigned r)
{
    unsigned node = (r + 1) % ex.ranks;
    struct world n;
    struct cell *c;
    int k;

    if (node == w->dead)
        return;
    fork_world(w, &n);
    c = find_state(n.copy[r], OPEN);
    if (c) { /* ends well, or its sender is gone or gives up */
        if (r != w->dead && holds(n.own[r], c->step)) {
            c->state = c->doomed ? DEAD : WHOLE;
            n.copied[r] |= (unsigned char)(1u << c->step);
            visit(&n);
        }
        fork_world(w, &n);
        find_state(n.copy[r], OPEN)->state = DEAD;
        if (r == w->dead)
            visit(&n);
        else
            go_wrong(&n);
        return;
    }
    for (unsigned s = ex.steps; s && r != w->dead; s--) {
        if (!holds(w->own[r], s))
            continue;
        if (holds(w->copy[r], s))
            break;
        k = find(fork_world(w, &n)->copy[r], n.known[node]);
        if (k < 0)
            continue;
        take(&n, &n.copy[r][k], s);
        visit(&n);
        break;
    }
}

static void supervisor_hears(const struct world *w, unsigned r, unsigned s)
{
    struct dlr_version v = {.round = 0, .step = s};
    struct world n;

    if (w->sealed[r] & 1u << s) {
        dlr_commit_sealed(&fork_world(w, &n)->c, r, v, s, 0);
        visit(&n);
    }
    if (w->copied[r] & 1u << s) {
        dlr_commit_copied(&fork_world(w, &n)->c, r, 1, v, 0);
        visit(&n);
    }
    if (w->missed[r] & 1u << s) {
        dlr_commit_missed(&fork_world(w, &n)->c, r, v, "no slot", 0);
        visit(&n);
    }
}

/* The next word of the supervisor is heard, or lost. */
static void agent_hears(const struct world *w, unsigned r)
{
    unsigned decided = w->committed | w->aborted, word = w->heard[r] + 1u;
    struct world n;

    while (word <= 2 * ex.steps + 1 &&
           !((word % 2 ? decided : w->ordered) & 1u << word / 2))
        word++;
    if (r == w->dead || word > 2 * ex.steps + 1)
        return;
    fork_world(w, &n)->heard[r] = (unsigned char)word;
    go_wrong(&n);
    fork_world(w, &n)->heard[r] = (unsigned char)word;
    if (word % 2)
        decision_arrives(&n, r, word / 2, w->committed & 1u << word / 2);
    else
        order_arrives(&n, r, word / 2);
    visit(&n);
}

static void explore(const struct world *w)
{
    struct world n;

    for (unsigned r = 0; r < ex.ranks; r++) {
        worker_moves(w, r);
        copy_moves(w, r);
        if (w->dead == NOBODY && !rare(64)) {
            fork_world(w, &n)->dead = (unsigned char)r;
            visit(&n);
        }
        if (ex.naive)
            continue;
        agent_hears(w, r);
        for (unsigned s = 1; s <= ex.steps; s++)
            supervisor_hears(w, r, s);
        dlr_commit_progress(&fork_world(w, &n)->c, 0, w->step[r], 0);
        visit(&n);
    }
    if (!ex.naive && dlr_commit_deadline_ms(&w->c) != INT64_MAX) {
        dlr_commit_tick(&fork_world(w, &n)->c, w->c.conf.decide_ms);
        go_wrong(&n);
    }
}

static void start(struct world *w)
{
    static const struct dlr_commit_ops ops = {ex_save, ex_commit, ex_abort};
    struct dlr_commit_conf conf = {
        .copies = 1, .decide_ms = 1000, .margin_steps = 1, .margin_max = 1};
    struct dlr_commit *c;

    assert_int_equal(dlr_commit_new(&conf, &ops, NULL, &c, NULL), 0);
    assert_int_equal(dlr_commit_round(c, 0, ex.ranks, NULL), 0);
    for (unsigned r = 0; r < ex.ranks; r++) {
        dlr_commit_ready(c, 0, r, 0, 0);
        dlr_commit_ready(c, 0, r, 1, 0);
    }
    memset(w, 0, sizeof(*w));
    memcpy(&w->c, c, sizeof(w->c));
    memcpy(w->bits, c->sets, sizeof(w->bits));
    w->dead = NOBODY;
    dlr_commit_free(c);
}

static void explore_all(void)
{
    size_t size = (size_t)1 << 22;
    struct world w;

    ex.mask = size - 1;
    ex.table = calloc(size, sizeof(*ex.table));
    assert_non_null(ex.table);
    start(&w);
    visit(&w);
    free(ex.table);
}

static void walk(unsigned runs)
{
    struct world w, next;

    ex.pick = &next;
    for (unsigned i = 0; i < runs; i++) {
        ex.seed = i;
        start(&w);
        for (;;) {
            ex.choices = 0;
            explore(&w);
            if (!draw(400))
                break;
            w = ex.choices ? next : w;
            ex.used++;
        }
    }
}

static void expect_safe(void)
{
    print_message("           %zu states, %lu commits\n", ex.used, ex.commits);
    assert_true(ex.commits > 0);
    assert_int_equal(ex.violations, 0);
    assert_int_equal(ex.reused, 0);
    assert_int_equal(ex.twice, 0);
}

static void every_order_of_events_keeps_the_newest_commit(void **state)
{
    memset(&ex, 0, sizeof(ex));
    ex.ranks = 2;
    ex.steps = 3;
    explore_all();
    expect_safe();
}

static void any_number_of_faults_keeps_the_newest_commit(void **state)
{
    memset(&ex, 0, sizeof(ex));
    ex.ranks = RANKS;
    ex.steps = STEPS;
    ex.faults = 100;
    walk(1000);
    expect_safe();
}

/* The same explorer and the same question, without decisions: it must find the loss. */
static void the_naive_rule_loses_everything(void **state)
{
    memset(&ex, 0, sizeof(ex));
    ex.naive = true;
    ex.ranks = RANKS;
    ex.steps = 3;
    explore_all();
    print_message("           %zu states, %lu times all was lost\n", ex.used,
                  ex.violations);
    assert_true(ex.violations > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_events_keeps_the_newest_commit),
        cmocka_unit_test(any_number_of_faults_keeps_the_newest_commit),
        cmocka_unit_test(the_naive_rule_loses_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
