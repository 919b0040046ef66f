/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what was promised can still be restored. */
#include "tests/unit/ckpt/commit/commit_world_state.h"

bool world_holds(const struct cell *cells, unsigned step)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].step == step && !cells[k].rejected &&
            (cells[k].state == WHOLE || cells[k].state == SAFE))
            return true;
    return false;
}

unsigned world_next_to(unsigned r)
{
    return (r + 1) % world_conf.ranks;
}

/* Every rank has this step on a node other than dead. */
static bool restorable(const struct world *w, unsigned step, unsigned dead)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        if ((r == dead || !world_holds(w->node[r].own, step)) &&
            (world_next_to(r) == dead || !world_holds(w->node[r].copy, step)))
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

/* What rank r would load by itself: the newest that it finds. */
static unsigned newest_of(const struct world *w, unsigned r, unsigned dead)
{
    for (unsigned s = world_conf.steps; s > 0; s--)
        if ((r != dead && world_holds(w->node[r].own, s)) ||
            (world_next_to(r) != dead && world_holds(w->node[r].copy, s)))
            return s;
    return 0;
}

static bool alike(const struct world *w, unsigned dead)
{
    for (unsigned r = 1; r < world_conf.ranks; r++)
        if (newest_of(w, r, dead) != newest_of(w, 0, dead))
            return false;
    return true;
}

/* After the first commit something is restorable whichever node is, or dies, dead.
 * Where commits exist all ranks load the version that one of them names, so each must
 * have it; the naive ranks load what they find.
 */
void world_check(struct world *w)
{
    if (world_conf.naive && w->dead == NOBODY && !w->whole)
        w->whole = once_whole(w);
    if (!world_conf.naive && world_conf.broken != WORLD_COMMIT_FORGOTTEN)
        world_found.twice +=
            w->newest != (w->c.has_newest ? world_step(w->c.newest) : 0);
    if (world_conf.naive ? !w->whole : !w->newest)
        return;
    for (unsigned r = 0; r < world_conf.ranks; r++)
        world_found.behind += w->node[r].known > w->newest;
    if (w->round && w->newest == w->began) {
        world_found.lost += w->dead == NOBODY && !restorable(w, w->newest, NOBODY);
        return; /* what was lost with a node is copied anew, or saved anew, first */
    }
    for (unsigned k = 0; k < world_conf.ranks; k++) {
        if (w->dead != NOBODY && w->dead != k)
            continue;
        if (world_conf.naive ? !anything(w, k) : !restorable(w, w->newest, k))
            world_found.lost++;
        if (world_conf.naive && !alike(w, k))
            world_found.mixed++;
    }
}

bool world_is_bad(void)
{
    return world_found.lost || world_found.reused || world_found.twice ||
           world_found.stale || world_found.behind || world_found.unsaid ||
           (world_found.mixed && !world_conf.naive);
}
