/* SPDX-License-Identifier: Apache-2.0 */
/* What can happen next: to slots, ranks, copies and words. */
#include "tests/commit_world_state.h"

static world_visit_fn *visit_fn;
static void *visit_arg;

/* --- slots ----------------------------------------------------------------------------- */

static void let_go(struct world *w, struct cell *c, unsigned state)
{
    if (c->state == WHOLE && world_has_open(w, c->step))
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

static void visit(struct world *n, unsigned one_in)
{
    world_check(n);
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
    if (find_cell(world_fork(w, &n)->node[r].own, WRITING, 0)) {
        seal(&n, r, true);
        visit(&n, 1);
        seal(world_fork(w, &n), r, false);
        go_wrong(&n);
        if (world_conf.naive)
            return; /* it waits for its save */
    }
    if (w->node[r].step < world_conf.steps && !in_front(w, r)) {
        begin(world_fork(w, &n), r);
        visit(&n, 16);
    }
}

/* A copy of r's that is on its way ends well, or its sender is gone or gives up. */
static void copy_ends(const struct world *w, unsigned r, unsigned k)
{
    struct world n;
    struct cell *c = &world_fork(w, &n)->node[r].copy[k];

    if (r != w->dead && world_holds(n.node[r].own, c->step) && !c->doomed) {
        c->state = WHOLE;
        n.node[r].copied |= bit(c->step);
        visit(&n, 1);
        c = &world_fork(w, &n)->node[r].copy[k];
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

    x = &world_fork(w, &n)->node[r];
    to = &n.node[world_next_to(r)];
    if (!world_holds(x->own, s) || world_holds(x->copy, s) ||
        find_cell(x->copy, WRITING, s) || s < to->known || (to->ended & bit(s)))
        return;
    c = usable(x->copy);
    if (!c)
        return;
    fill(c, s);
    visit(&n, 1);
}

static void copy_moves(const struct world *w, unsigned r)
{
    if (world_next_to(r) == w->dead)
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
        dlr_commit_sealed(&world_fork(w, &n)->c, r, v, s, 0);
        visit(&n, 1);
    }
    if (x->copied & bit(s)) {
        dlr_commit_copied(&world_fork(w, &n)->c, r, 1, v, 0);
        visit(&n, 1);
    }
    if (x->missed & bit(s)) { /* that one ends, or what was announced with it */
        dlr_commit_missed(&world_fork(w, &n)->c, r, v, "busy", 0);
        visit(&n, 1);
        dlr_commit_missed(&world_fork(w, &n)->c, r, v, "it failed", 0);
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
    world_fork(w, &n)->node[r].heard++;
    go_wrong(&n);
    world_fork(w, &n)->node[r].heard++;
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
        world_fork(w, &n);
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
            world_fork(w, &n)->dead = (unsigned char)r;
            visit(&n, 64);
        }
        if (world_conf.naive)
            continue;
        agent_hears(w, r);
        for (unsigned s = 1; s <= world_conf.steps; s++)
            supervisor_hears(w, r, s);
        dlr_commit_progress(&world_fork(w, &n)->c, 0, w->node[r].step, 0);
        visit(&n, 1);
    }
    if (!world_conf.naive)
        deadlines_pass(w);
}
