/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what was promised can still be restored. */
#include "tests/commit_world_state.h"

bool world_holds(const struct cell *cells, unsigned step)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].step == step && !cells[k].doomed &&
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

/* After the first commit something is restorable whichever node is, or dies, dead; and it is
 * the newest commit itself where commits exist.
 */
void world_check(struct world *w)
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
