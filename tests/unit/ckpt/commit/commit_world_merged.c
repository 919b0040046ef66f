/* SPDX-License-Identifier: Apache-2.0 */
/* The same job with fewer states: one for all those whose difference nobody can see
 * later.
 *
 * Take any history of tests/unit/ckpt/commit/commit_world_moves.c, with any number of
 * faults. Each of its events has one move here or none, and after it the two states
 * agree in
 *   - what the machine knows, but for its tallies of undecided versions: those are
 *     empty here;
 *   - the steps of the ranks, and the slots of versions that are not over, which are
 *     the open
 *     ones and the newest commit; slots of what is over are FREE here;
 *   - the facts about open versions, told or on their way: here each may be heard
 *     again.
 * Only the newest commit can be lost, only what is open can be let go too early, and
 * only the machine decides: so what goes wrong in the history goes wrong here. What is
 * different, and why it may be:
 *
 * Words. Here all nodes hear each at once, and all of them again after each move. Who
 * has not heard of an order, or never will, skips its step: that is a move. Who has not
 * heard of a decision only has more slots of versions that are over, writes such a one,
 * or refuses its copy: it can do less than with free slots. To hear takes away and
 * never gives, so the checks are strictest when all have heard all; let_go() counts
 * what is taken from an open version.
 *
 * Tallies. One that is not full changes nothing, but its step is seen: that is a move,
 * with the orders that may follow (as progress) or without (a copy alone). For the fact
 * that fills it, all the others are heard before it. Checked at each order and fact: a
 * tally begins empty, and the same fact counts once.
 *
 * Facts about what is decided are dropped, since the machine ignores them. Checked in
 * each state, with all that the ranks could have sent by then.
 *
 * Misses. Any version whose step a rank has begun may be missed, for any reason, also
 * by a rank that has saved it: it may have heard the order again.
 *
 * The kill. Who is gone does and hears nothing more, which who is slow may do as well;
 * what it said may still come, and a copy of its own that was on its way fails, as any
 * copy may. So a history with a kill is one without, in which that node falls silent,
 * and each state is asked for each node whether the newest commit outlives it: as it
 * is, and with the round ended.
 *
 * The supervisor's death. Words come in order: who has not heard of a commit has heard
 * of nothing that was said after it. So a commit that no node has heard of when the
 * supervisor dies changed nothing anywhere, and the same happens here when it dies
 * before it. One that any node has heard of is known to the next one, and an order that
 * it never learns of was begun by nobody.
 */
#include <string.h>

#include "tests/unit/ckpt/commit/commit_world_state.h"

static world_visit_fn *visit_fn;
static void *visit_arg;

/* --- everybody hears everything --------------------------------------------------- */

static void sweep(struct cell *cells)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].state == GONE || cells[k].rejected)
            cells[k] = (struct cell){.state = FREE};
}

/* Each word that was ever said, once more to all. Of what is older than the newest
 * commit both are heard: nothing tells any more which it was.
 */
static void hear(struct world *w, unsigned r)
{
    for (unsigned s = 1; s <= w->last; s++) {
        if (s <= w->newest)
            world_decision_arrives(w, r, s, true);
        if (s != w->newest && !(w->open & bit(s)))
            world_decision_arrives(w, r, s, false);
    }
}

/* Where no version is open, something is left of a former one. */
static void forget_tallies(struct world *w)
{
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        for (unsigned set = 0; set < 2; set++) {
            w->bits[(FIRST_OPEN + i) * SETS + set] = !w->c.open[i].used;
            w->c.count[FIRST_OPEN + i][set] = !w->c.open[i].used;
        }
}

static void settle(struct world *w)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        hear(w, r);
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        struct node *x = &w->node[r];

        sweep(x->own);
        sweep(x->copy);
        x->known = x->orders = x->ended = x->missed = x->heard = 0;
    }
    w->nwords = 0;
    forget_tallies(w);
}

/* Nothing that is told to anybody, or of a version that is not over, has changed. */
static bool same(const struct world *w, const struct world *n)
{
    if (w->open != n->open || w->last != n->last || w->c.when.step != n->c.when.step ||
        w->c.when.known != n->c.when.known || w->newest != n->newest)
        return false;
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++)
        if (w->c.open[i].used != n->c.open[i].used)
            return false;
    return memcmp(w->node, n->node, sizeof(w->node)) == 0;
}

static void visit(const struct world *w, struct world *n)
{
    settle(n);
    if (same(w, n))
        return;
    world_check(n);
    visit_fn(n, 1, visit_arg);
}

/* --- ranks and copies ------------------------------------------------------------- */

static void rank_moves(const struct world *w, unsigned r)
{
    struct world n;

    if (world_writes(w, r)) {
        world_seal(world_fork(w, &n), r, true);
        visit(w, &n);
        world_seal(world_fork(w, &n), r, false);
        visit(w, &n);
    }
    if (!world_may_begin(w, r))
        return;
    world_begin(world_fork(w, &n), r); /* it has not heard of an order */
    visit(w, &n);
    if (!world_has_open(w, w->node[r].step + 1u))
        return;
    world_fork(w, &n)->node[r].orders = bit(w->node[r].step + 1u);
    world_begin(&n, r);
    visit(w, &n);
}

static void copy_moves(const struct world *w, unsigned r)
{
    struct world n;

    for (unsigned k = 0; k < 2; k++) {
        if (w->node[r].copy[k].state != WRITING)
            continue;
        if (world_copy_is_whole(world_fork(w, &n), r, k))
            visit(w, &n);
        world_copy_fails(world_fork(w, &n), r, k);
        visit(w, &n);
    }
    for (unsigned s = 1; s <= world_conf.steps; s++)
        if (world_copy_begins(world_fork(w, &n), r, s))
            visit(w, &n);
}

/* --- what the supervisor hears ---------------------------------------------------- */

static void hear_all(struct world *n, bool sealed, unsigned steps)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        for (unsigned s = 1; s <= world_conf.steps; s++)
            if (sealed && (n->node[r].sealed & steps & bit(s)))
                world_hear_sealed(n, r, s);
            else if (!sealed && (n->node[r].copied & steps & bit(s)))
                world_hear_copied(n, r, s);
}

/* All that there is to hear of s, its copies last or first: when that is all of it, the
 * last one commits. One copy by itself is seen and orders nothing.
 */
static void facts_of(const struct world *w, unsigned s, unsigned stale)
{
    unsigned sealed = 0, copied = 0;
    struct world n;

    for (unsigned r = 0; r < world_conf.ranks; r++) {
        sealed |= w->node[r].sealed & bit(s);
        copied |= w->node[r].copied & bit(s);
    }
    for (unsigned first = 0; first < 2 && (sealed || copied); first++) {
        world_fork(w, &n);
        hear_all(&n, first, stale | bit(s));
        hear_all(&n, !first, stale | bit(s));
        visit(w, &n);
    }
    for (unsigned r = 0; r < world_conf.ranks; r++)
        if (w->node[r].copied & bit(s)) {
            world_hear_copied(world_fork(w, &n), r, s);
            visit(w, &n);
            return;
        }
}

/* A version that not all have saved, or that is late. */
static void failures_of(const struct world *w, const struct open *o, unsigned last)
{
    unsigned s = (unsigned)o->v.step;
    struct world n;

    if (s <= last) {
        world_hear_missed(world_fork(w, &n), 0, s, "busy");
        visit(w, &n);
        world_hear_missed(world_fork(w, &n), 0, s, "it failed");
        visit(w, &n);
    }
    if (o->reached_ms >= 0) {
        world_deadline_passes(world_fork(w, &n), (unsigned)(o - w->c.open));
        visit(w, &n);
    }
}

/* What is forgotten here must mean nothing to the machine. */
static void check_stale(const struct world *w, unsigned s)
{
    struct world n;

    world_fork(w, &n);
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        if (w->node[r].step < s)
            continue;
        world_hear_sealed(&n, r, s);
        world_hear_copied(&n, r, s);
        world_hear_missed(&n, r, s, "it failed");
    }
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++) {
        unsigned left = !w->c.open[i].used && !n.c.open[i].used;

        world_found.stale += n.c.count[FIRST_OPEN + i][0] != left ||
                             n.c.count[FIRST_OPEN + i][1] != left;
    }
    world_found.stale += (w->open & ~n.open) != 0;
}

static void supervisor_moves(const struct world *w)
{
    unsigned open = 0, last = 0, known = w->c.when.known ? (unsigned)w->c.when.step : 0;
    struct world n;

    for (unsigned r = 0; r < world_conf.ranks; r++)
        last = w->node[r].step > last ? w->node[r].step : last;
    for (unsigned s = 1; s <= world_conf.steps; s++)
        open |= world_has_open(w, s) ? bit(s) : 0;
    for (unsigned p = known; p <= last; p++) {
        dlr_commit_progress(&world_fork(w, &n)->c, 0, p, 0);
        visit(w, &n);
    }
    for (const struct open *o = w->c.open; o < w->c.open + DLR_COMMIT_OPEN_MAX; o++)
        if (o->used && o->v.step <= world_conf.steps)
            failures_of(w, o, last);
    for (unsigned s = 1; s <= world_conf.steps; s++)
        if (open & bit(s))
            facts_of(w, s, ~open);
        else if (s <= w->last)
            check_stale(w, s);
}

/* Who has heard of a commit knows it; one that nobody has heard of is one that was not
 * decided before the supervisor died.
 */
static void supervisor_dies(const struct world *w)
{
    struct world n;

    if (w->deaths == world_conf.deaths)
        return;
    world_fork(w, &n);
    for (unsigned r = 0; r < world_conf.ranks; r++)
        n.node[r].known = w->newest;
    world_supervisor_dies(&n);
    visit(w, &n);
}

/* The round ends here, since a node is lost: what is not decided is aborted. */
static void check_recovery(const struct world *w)
{
    struct world n;

    dlr_commit_stop(&world_fork(w, &n)->c, "a node is gone");
    world_found.twice += n.open != 0;
    settle(&n);
    world_check(&n);
}

void world_merged_moves(const struct world *w, world_visit_fn *fn, void *arg)
{
    visit_fn = fn;
    visit_arg = arg;
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        rank_moves(w, r);
        copy_moves(w, r);
    }
    supervisor_moves(w);
    supervisor_dies(w);
    check_recovery(w);
}
