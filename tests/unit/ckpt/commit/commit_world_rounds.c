/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a round: who writes to the disk while it runs, and what the next one
 * begins from. The choice is the real plan's (mpi_launcher/plan/plan.h); here is asked
 * whether it is the right one.
 *
 * A round ends, its ranks are killed, nodes that are left have heard all that was said,
 * unless words were lost. Slots that were being filled are none. Nodes that are lost
 * get new ones in their place, which are empty; each rank has its copy of what is
 * restored. What is newer is dropped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/plan/plan.h"
#include "tests/unit/ckpt/commit/commit_world_state.h"

/* --- the disk --------------------------------------------------------------------- */

static void give_up(struct world *w)
{
    w->writes = w->filed = 0;
    for (unsigned r = 0; r < world_conf.ranks; r++)
        w->node[r].reads = 0;
}

void world_write_begins(struct world *w, unsigned r, unsigned s)
{
    struct node *x = &w->node[r];

    if (w->writes != s)
        return; /* it was given up */
    for (unsigned k = 0; k < 2; k++)
        if (world_holds((struct cell[2]){x->own[k]}, s))
            x->reads = (unsigned char)(k + 1);
    if (!x->reads)
        give_up(w);
}

bool world_write_ends(struct world *w, unsigned r)
{
    struct node *x = &w->node[r];
    struct cell *c = &x->own[x->reads - (x->reads > 0)];

    if (!x->reads)
        return false;
    world_found.mixed += c->step != w->writes; /* these are bytes of another one */
    x->reads = 0;
    w->filed |= (unsigned char)bit(r);
    world_decision_arrives(w, r, x->known, true);
    return true;
}

bool world_manifest(struct world *w)
{
    unsigned all = bit(world_conf.ranks) - 1u;

    if (!w->writes || !w->filed ||
        (w->filed != all && world_conf.broken != WORLD_MANIFEST_EARLY))
        return false;
    w->disk = w->writes;
    w->stored = w->filed;
    give_up(w);
    return true;
}

void world_hear_torn(struct world *w, unsigned r, unsigned s)
{
    w->torn |= bit(s);
    if (world_conf.broken != WORLD_TORN_COUNTS)
        w->rejected |= bit(s);
    if (w->newest < s)
        world_hear_missed(w, r, s, "memory changed");
}

/* --- what the next round begins from ---------------------------------------------- */

struct input {
    struct dlr_plan_report report[WORLD_RANKS];
    struct dlr_plan_copy copy[WORLD_RANKS][4];
    struct dlr_plan_file file[WORLD_RANKS];
    struct dlr_plan_rejected rejected[1];
    unsigned tasks[WORLD_RANKS];
};

static void add_copies(struct dlr_plan_report *report, const struct cell *cells,
                       unsigned rank)
{
    for (unsigned k = 0; k < 2; k++)
        if (world_holds((struct cell[2]){cells[k]}, cells[k].step) && cells[k].step)
            report->copies[report->ncopies++] =
                (struct dlr_plan_copy){.rank = (int32_t)rank,
                                       .world = world_conf.ranks,
                                       .version = world_version(cells[k].step),
                                       .bytes = 4096,
                                       .layout = 1};
}

static unsigned add_reports(const struct world *w, unsigned lost, struct input *in)
{
    unsigned n = 0;

    for (unsigned r = 0; r < world_conf.ranks; r++) {
        unsigned before = (r + world_conf.ranks - 1) % world_conf.ranks;
        struct dlr_plan_report *report = &in->report[n];

        if (lost & bit(r))
            continue;
        *report = (struct dlr_plan_report){.copies = in->copy[n++]};
        snprintf(report->node.name, sizeof(report->node.name), "n%u", r);
        snprintf(report->node.path, sizeof(report->node.path), "n%u", r);
        add_copies(report, w->node[r].own, r);
        add_copies(report, w->node[before].copy, before);
    }
    return n;
}

static unsigned add_files(const struct world *w, struct input *in)
{
    for (unsigned r = 0; r < world_conf.ranks && w->disk; r++) {
        in->file[r].copy = (struct dlr_plan_copy){.rank = (int32_t)r,
                                                  .world = world_conf.ranks,
                                                  .version = world_version(w->disk),
                                                  .bytes = 4096,
                                                  .layout = 1};
        snprintf(in->file[r].path, sizeof(in->file[r].path), "/file%u", r);
    }
    return w->disk ? world_conf.ranks : 0;
}

static unsigned add_struck(const struct world *w, struct input *in)
{
    unsigned n = 0;

    for (unsigned s = 1; s <= world_all(); s++)
        if (w->rejected & bit(s)) {
            in->rejected[n] =
                (struct dlr_plan_rejected){.rank = -1, .version = world_version(s)};
            in->rejected[n++].where[0] = '*';
        }
    return world_conf.broken == WORLD_STRUCK_LOADED ? 0 : n;
}

static void make_plan(const struct world *w, unsigned lost, struct dlr_plan *plan)
{
    static struct input in;
    struct dlr_plan_want want = {.nplaces = world_conf.ranks,
                                 .tasks = in.tasks,
                                 .files = in.file,
                                 .rejected = in.rejected,
                                 .has_committed = w->newest > 0,
                                 .committed = world_version(w->newest)};
    unsigned n = add_reports(w, lost, &in);
    struct dlr_err err;

    for (unsigned r = 0; r < world_conf.ranks; r++)
        in.tasks[r] = 1;
    want.nfiles = add_files(w, &in);
    want.nrejected = add_struck(w, &in);
    if (dlr_plan_restorable(in.report, n, &want, plan, &err) < 0)
        abort();
}

/* Rank r has that step in the memory of a node that is left. */
static bool in_memory(const struct world *w, unsigned lost, unsigned r, unsigned s)
{
    const struct node *x = &w->node[r];

    return (!(lost & bit(r)) && world_holds(x->own, s)) ||
           (!(lost & bit(world_next_to(r))) && world_holds(x->copy, s));
}

static bool is_whole(const struct world *w, unsigned lost, unsigned s)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        if (!in_memory(w, lost, r, s) && !(s == w->disk && (w->stored & bit(r))))
            return false;
    return true;
}

/* The newest that is whole and not struck off; a rank's newest that a program knows as
 * committed is no newer, unless more was lost than copies are for.
 */
static void check_choice(const struct world *w, unsigned lost,
                         const struct dlr_plan *plan, unsigned chosen)
{
    bool promised = !(w->torn & bit(w->newest)) && !(lost & (lost - 1)) &&
                    (!lost || w->newest > w->round * world_conf.steps);
    unsigned best = world_all();

    while (best && ((w->torn & bit(best)) || !is_whole(w, lost, best)))
        best--;
    world_found.behind += chosen != best;
    world_found.lost += chosen < w->newest && promised;
    world_found.unsaid += chosen < w->newest && !plan->nnotes;
    world_found.restores += chosen > 0;
    for (unsigned r = 0; r < world_conf.ranks && chosen; r++)
        world_found.files += plan->sources[r].from == DLR_PLAN_FILE;
}

/* --- the next round --------------------------------------------------------------- */

static void hear_the_rest(struct world *w, unsigned lost)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        while (!(lost & bit(r)) && w->node[r].heard < w->nwords)
            world_word_arrives(w, r, w->words[w->node[r].heard++]);
}

/* Ranks are killed: what they or the network had not finished is nothing, nor is what
 * was lost.
 */
static void stop_all(struct world *w, unsigned lost)
{
    for (unsigned r = 0; r < world_conf.ranks; r++)
        for (unsigned k = 0; k < 2; k++) {
            struct cell *own = &w->node[r].own[k], *copy = &w->node[r].copy[k];

            if (own->state == WRITING || own->rejected || (lost & bit(r)))
                *own = (struct cell){.state = FREE};
            if (copy->state == WRITING || copy->rejected ||
                (lost & bit(world_next_to(r))))
                *copy = (struct cell){.state = FREE};
        }
}

static void drop_newer(struct cell *cells, unsigned chosen)
{
    for (unsigned k = 0; k < 2; k++)
        if (cells[k].step > chosen)
            cells[k] = (struct cell){.state = GONE};
}

/* It comes to its rank from where the plan has found it. */
static void fetch(struct cell *cells, unsigned chosen)
{
    struct cell *to = cells[0].step < cells[1].step ? &cells[0] : &cells[1];

    if (chosen && !world_holds(cells, chosen))
        *to = (struct cell){.step = (unsigned char)chosen, .state = WHOLE};
}

static void begin_round(struct world *w, unsigned chosen)
{
    struct dlr_version v = world_version(chosen);
    unsigned first = ++w->round * world_conf.steps;

    w->c.sets = malloc(sizeof(w->bits)); /* which it frees */
    if (!w->c.sets ||
        dlr_commit_round(&w->c, w->round, w->c.world, chosen ? &v : NULL) < 0)
        abort();
    world_ready(&w->c, w->round);
    memcpy(w->bits, w->c.sets, sizeof(w->bits));
    free(w->c.sets);
    w->c.sets = w->bits;
    w->dead = NOBODY;
    w->began = w->newest = (unsigned char)chosen;
    w->last = (unsigned char)(first + (chosen ? v.step : 0));
    w->nwords = 0;
    w->open = 0;
    for (unsigned r = 0; r < world_conf.ranks; r++) {
        struct node *x = &w->node[r];

        drop_newer(x->own, chosen);
        drop_newer(x->copy, chosen);
        fetch(x->own, chosen);
        x->orders = x->ended = x->sealed = x->copied = x->missed = 0;
        x->heard = x->reads = 0;
        x->known = (unsigned char)chosen;
        x->step = w->last;
    }
}

bool world_round_ends(struct world *w, unsigned lost)
{
    struct dlr_plan plan;
    unsigned chosen;

    dlr_commit_stop(&w->c, "a node is gone");
    world_found.twice += w->open != 0;
    hear_the_rest(w, lost);
    if (w->filed != bit(world_conf.ranks) - 1u)
        give_up(w); /* else its manifest is on its way */
    stop_all(w, lost);
    make_plan(w, lost, &plan);
    chosen = plan.restore ? world_step(plan.version) : 0;
    check_choice(w, lost, &plan, chosen);
    dlr_plan_done(&plan);
    if (w->round + 1u >= world_conf.rounds)
        return false;
    begin_round(w, chosen);
    return true;
}
