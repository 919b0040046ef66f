/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks, nodes and the supervisor do with slots and messages, or would with a rule
 * broken.
 */
#include <string.h>

#include "tests/unit/ckpt/commit/commit_world_state.h"

/* --- slots ------------------------------------------------------------------------ */

static void let_go(struct world *w, struct cell *c, unsigned state)
{
    if (c->state == WHOLE && world_has_open(w, c->step))
        world_found.reused++;
    *c = (struct cell){.state = (unsigned char)state};
}

static bool taken_anyhow(const struct cell *c, const struct cell *other)
{
    if (world_conf.naive)
        return c->state == WHOLE && other->state == WHOLE && other->step > c->step;
    return (world_conf.broken == WORLD_UNDECIDED_TAKEN && c->state == WHOLE) ||
           (world_conf.broken == WORLD_COMMITTED_TAKEN && c->state == SAFE);
}

static struct cell *usable(struct cell *cells)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].state == FREE || cells[k].state == GONE)
            return &cells[k];
    for (unsigned k = 0; k < 2; k++)
        if (taken_anyhow(&cells[k], &cells[!k]))
            return &cells[k];
    return NULL;
}

struct cell *world_cell(struct cell *cells, unsigned state, unsigned step)
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

/* --- ranks ------------------------------------------------------------------------ */

bool world_writes(const struct world *w, unsigned r)
{
    const struct cell *own = w->node[r].own;

    return own[0].state == WRITING || own[1].state == WRITING;
}

void world_seal(struct world *w, unsigned r, bool good)
{
    struct node *x = &w->node[r];
    struct cell *c = world_cell(x->own, WRITING, 0);
    unsigned step = c->step;

    if (good && !c->rejected) {
        c->state = WHOLE;
        x->sealed |= bit(step);
        return;
    }
    let_go(w, c, GONE);
    x->missed |= bit(step);
}

bool world_may_begin(const struct world *w, unsigned r)
{
    for (unsigned i = 0; i < world_conf.ranks; i++)
        if (w->node[i].step < w->node[r].step)
            return false;
    return w->node[r].step < world_top(w);
}

void world_begin(struct world *w, unsigned r)
{
    struct node *x = &w->node[r];
    unsigned s = ++x->step;
    struct cell *c = usable(x->own);

    if (!world_conf.naive && !(x->orders & bit(s)))
        return;
    if (c && !world_writes(w, r))
        fill(c, s);
    else
        x->missed |= bit(s); /* none is free, or the last one is not finished */
}

/* --- copies ----------------------------------------------------------------------- */

bool world_copy_begins(struct world *w, unsigned r, unsigned s)
{
    const struct node *to = &w->node[world_next_to(r)];
    struct node *x = &w->node[r];
    struct cell *c;

    if (!world_holds(x->own, s) || world_holds(x->copy, s) ||
        world_cell(x->copy, WRITING, s) || s < to->known || (to->ended & bit(s)))
        return false;
    c = usable(x->copy);
    if (!c)
        return false;
    fill(c, s);
    if (world_conf.broken == WORLD_COPIED_EARLY)
        x->copied |= bit(s);
    return true;
}

bool world_copy_is_whole(struct world *w, unsigned r, unsigned k)
{
    struct node *x = &w->node[r];
    struct cell *c = &x->copy[k], *other = &x->copy[!k];

    if (r == w->dead || !world_holds(x->own, c->step) || c->rejected)
        return false;
    c->state = WHOLE;
    x->copied |= bit(c->step);
    if (world_conf.broken == WORLD_HOLDER_FREES_EARLY && other->state == SAFE)
        let_go(w, other, FREE);
    return true;
}

void world_copy_fails(struct world *w, unsigned r, unsigned k)
{
    let_go(w, &w->node[r].copy[k], GONE);
}

/* --- the supervisor's words ------------------------------------------------------- */

void world_order_arrives(struct world *w, unsigned r, unsigned s)
{
    struct node *x = &w->node[r];

    if (x->step >= s)
        x->missed |= bit(s);
    else
        x->orders |= bit(s);
    /* The first of a round frees what is older than what the round began from. */
    if (w->began && x->known == w->began)
        world_decision_arrives(w, r, w->began, true);
}

void world_word_arrives(struct world *w, unsigned r, struct word word)
{
    if (word.what == SAVE_AT)
        world_order_arrives(w, r, word.step);
    else if (word.what == PERSIST)
        world_write_begins(w, r, word.step);
    else
        world_decision_arrives(w, r, word.step, word.what == COMMIT);
}

static bool ends(const struct cell *c, unsigned s, bool commit)
{
    if (commit)
        return c->step < s ||
               (c->step > s && world_conf.broken == WORLD_COMMIT_FREES_NEWER);
    return (c->step == s && c->state != SAFE) ||
           (c->step < s && world_conf.broken == WORLD_ABORT_FREES_OLDER);
}

void world_decision_arrives(struct world *w, unsigned r, unsigned s, bool commit)
{
    unsigned before = (r + world_conf.ranks - 1) % world_conf.ranks;
    struct cell *cells[2] = {w->node[r].own, w->node[before].copy};
    struct node *x = &w->node[r];

    if (commit && s > x->known)
        x->known = (unsigned char)s;
    if (!commit)
        x->ended |= bit(s);
    x->orders &= (uint16_t)~bit(s);
    for (unsigned i = 0; i < 4; i++) {
        struct cell *c = &cells[i / 2][i % 2];

        if (c->state == FREE || c->state == GONE)
            continue;
        if (x->reads == i + 1 && world_conf.broken != WORLD_READ_FREED && c->step != s)
            continue; /* it is settled when it has been written */
        if (c->state == WRITING)
            c->rejected |= ends(c, s, commit);
        else if (ends(c, s, commit))
            let_go(w, c, commit ? FREE : GONE);
        else if (c->step == s && commit)
            c->state = SAFE;
    }
}

/* --- the supervisor's ears -------------------------------------------------------- */

/* The version that a fact about s counts for. */
static struct dlr_version counts_for(const struct world *w, unsigned s)
{
    struct dlr_version v = world_version(s);

    if (world_conf.broken == WORLD_STALE_COUNTS && !world_has_open(w, s))
        dlr_commit_pending(&w->c, &v);
    return v;
}

/* To hear the same once more must mean nothing. */
static void hear(struct world *w, unsigned r, unsigned s, bool copied)
{
    struct dlr_version v = counts_for(w, s);
    unsigned count[TALLIES][SETS];

    for (unsigned times = 0; times < 2; times++) {
        memcpy(count, w->c.count, sizeof(count));
        if (copied)
            dlr_commit_copied(&w->c, r, 1, v, 0);
        else
            dlr_commit_sealed(&w->c, r, v, v.step, 0);
    }
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used && dlr_version_eq(w->c.open[i].v, v))
            world_found.stale +=
                memcmp(count[FIRST_OPEN + i], w->c.count[FIRST_OPEN + i],
                       sizeof(count[0])) != 0;
}

void world_hear_sealed(struct world *w, unsigned r, unsigned s)
{
    hear(w, r, s, false);
}

void world_hear_copied(struct world *w, unsigned r, unsigned s)
{
    hear(w, r, s, true);
}

void world_hear_missed(struct world *w, unsigned r, unsigned s, const char *why)
{
    dlr_commit_missed(&w->c, r, world_version(s), why, 0);
}

void world_deadline_passes(struct world *w, unsigned i)
{
    struct open *open = w->c.open;

    for (unsigned k = 0; k < DLR_COMMIT_OPEN_MAX; k++)
        if (open[k].reached_ms >= 0)
            open[k].reached_ms = k != i;
    dlr_commit_tick(&w->c, w->c.conf.decide_ms);
    for (unsigned k = 0; k < DLR_COMMIT_OPEN_MAX; k++)
        if (open[k].reached_ms >= 0)
            open[k].reached_ms = 0;
}
