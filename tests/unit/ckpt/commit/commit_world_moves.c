/* SPDX-License-Identifier: Apache-2.0 */
/* What can happen next, one event at a time: to slots, ranks, copies and words. */
#include "tests/unit/ckpt/commit/commit_world_state.h"

static world_visit_fn *visit_fn;
static void *visit_arg;

static void visit(struct world *n, unsigned one_in)
{
    world_check(n);
    visit_fn(n, one_in, visit_arg);
}

/* What ends a round or a save is drawn less often where the later rounds are looked at,
 * too.
 */
static unsigned seldom(unsigned one_in)
{
    return world_conf.rounds > 1 ? 8 * one_in : one_in;
}

/* Where something went wrong, as often as the test allows. */
static void go_wrong(struct world *n)
{
    if (world_conf.faults == WORLD_FAULTS_ANY || ++n->faults <= world_conf.faults)
        visit(n, seldom(16));
}

static void rank_moves(const struct world *w, unsigned r)
{
    struct world n;

    if (r == w->dead)
        return;
    if (world_writes(w, r)) {
        world_seal(world_fork(w, &n), r, true);
        visit(&n, 1);
        world_seal(world_fork(w, &n), r, false);
        go_wrong(&n);
        if (world_conf.naive)
            return; /* it waits for its save */
    }
    if (world_may_begin(w, r)) {
        world_begin(world_fork(w, &n), r);
        visit(&n, 16);
    }
}

/* A copy of r's that is on its way ends well, or its sender is gone or gives up. */
static void copy_ends(const struct world *w, unsigned r, unsigned k)
{
    struct world n;

    if (world_copy_is_whole(world_fork(w, &n), r, k))
        visit(&n, 1);
    world_copy_fails(world_fork(w, &n), r, k);
    if (r == w->dead || w->node[r].copy[k].rejected)
        visit(&n, 1);
    else
        go_wrong(&n);
}

static void copy_moves(const struct world *w, unsigned r)
{
    struct world n;

    if (world_next_to(r) == w->dead)
        return;
    for (unsigned k = 0; k < 2; k++)
        if (w->node[r].copy[k].state == WRITING)
            copy_ends(w, r, k);
    for (unsigned s = 1; s <= world_top(w) && r != w->dead; s++)
        if (world_copy_begins(world_fork(w, &n), r, s))
            visit(&n, 1);
}

static void supervisor_hears(const struct world *w, unsigned r, unsigned s)
{
    const struct node *x = &w->node[r];
    struct world n;

    if (x->sealed & bit(s)) {
        world_hear_sealed(world_fork(w, &n), r, s);
        visit(&n, 1);
    }
    if (x->copied & bit(s)) {
        world_hear_copied(world_fork(w, &n), r, s);
        visit(&n, 1);
    }
    if (x->missed & bit(s)) { /* that one ends, or what was announced with it */
        world_hear_missed(world_fork(w, &n), r, s, "busy");
        visit(&n, 1);
        world_hear_missed(world_fork(w, &n), r, s, "it failed");
        visit(&n, 1);
    }
    if (world_conf.tears && !w->torn && s > w->round * world_conf.steps &&
        r != w->dead && world_holds(x->own, s)) {
        world_hear_torn(world_fork(w, &n), r, s);
        visit(&n, seldom(64));
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
    world_word_arrives(&n, r, word);
    visit(&n, 1);
}

static void deadlines_pass(const struct world *w)
{
    struct world n;

    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX; i++) {
        if (!w->c.open[i].used || w->c.open[i].reached_ms < 0)
            continue;
        world_deadline_passes(world_fork(w, &n), i);
        go_wrong(&n);
    }
}

/* The newest commit is written to the disk, while the round goes on. */
static void disk_moves(const struct world *w)
{
    struct world n;

    if (!w->writes && w->newest > w->disk && w->newest > w->round * world_conf.steps) {
        world_fork(w, &n)->writes = w->newest;
        world_say(&n, PERSIST, w->newest);
        visit(&n, 4);
    }
    for (unsigned r = 0; r < world_conf.ranks; r++)
        if (r != w->dead && world_write_ends(world_fork(w, &n), r))
            visit(&n, 4);
    if (world_manifest(world_fork(w, &n)))
        visit(&n, 1);
}

/* With the node that is lost, or without a loss; perhaps one more is lost before
 * anything was restored.
 */
static void rounds_end(const struct world *w)
{
    unsigned most = world_conf.kills ? world_conf.kills : 1;
    struct world n;

    for (unsigned r = 0; r <= world_conf.ranks; r++) {
        unsigned lost = w->dead == NOBODY ? 0 : bit(w->dead);

        if (r < world_conf.ranks && (r == w->dead || w->kills == most))
            continue;
        world_fork(w, &n);
        if (r < world_conf.ranks) {
            n.kills++;
            lost |= bit(r);
        }
        if (world_round_ends(&n, lost))
            visit(&n, w->dead == NOBODY ? seldom(64) : 16);
    }
}

void world_moves(const struct world *w, world_visit_fn *fn, void *arg)
{
    struct world n;

    if (world_conf.merged) {
        world_merged_moves(w, fn, arg);
        return;
    }
    visit_fn = fn;
    visit_arg = arg;
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        rank_moves(w, r);
        copy_moves(w, r);
        if (w->dead == NOBODY && w->kills < (world_conf.kills ? world_conf.kills : 1)) {
            world_fork(w, &n)->dead = (unsigned char)r;
            n.kills++;
            visit(&n, seldom(64));
        }
        if (world_conf.naive)
            continue;
        agent_hears(w, r);
        for (unsigned s = 1; s <= world_top(w); s++)
            supervisor_hears(w, r, s);
        dlr_commit_progress(&world_fork(w, &n)->c, w->round,
                            w->node[r].step - w->round * world_conf.steps, 0);
        visit(&n, 1);
    }
    if (!world_conf.naive)
        deadlines_pass(w);
    if (world_conf.disk)
        disk_moves(w);
    if (world_conf.rounds > 1)
        rounds_end(w);
    if (w->deaths < world_conf.deaths && w->dead == NOBODY) {
        world_supervisor_dies(world_fork(w, &n)); /* else the round is ended */
        visit(&n, seldom(64));
    }
}
