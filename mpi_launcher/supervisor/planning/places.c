/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at which place: seats of the program's ranks, and places of former rounds. */
#include "mpi_launcher/supervisor/planning/places.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/slot.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

static unsigned world_of(const struct dlr_plan_world *w)
{
    unsigned world = 0;

    for (unsigned p = 0; p < w->nplaces; p++)
        world += w->tasks[p];
    return world;
}

struct dlr_plan_world dlr_sup_placement(const struct dlr_sup_planning *planning)
{
    const struct dlr_step_plan *step = &planning->step;

    return planning->placement.nplaces && planning->placement.nplaces == step->nplaces
               ? planning->placement
               : (struct dlr_plan_world){step->nplaces, step->tasks, step->ranks};
}

unsigned dlr_sup_placement_world(const struct dlr_sup_planning *planning)
{
    struct dlr_plan_world placement = dlr_sup_placement(planning);

    return world_of(&placement);
}

bool dlr_sup_seats_told(const struct dlr_sup_planning *planning)
{
    return dlr_sup_placement(planning).tasks != planning->step.tasks;
}

unsigned dlr_sup_slots_max(const struct dlr_sup_planning *planning)
{
    unsigned world = planning->plan.world > planning->full_world ? planning->plan.world
                                                                 : planning->full_world;

    return world * DLR_SLOT_OWNERS - 1;
}

static void world_free(struct dlr_plan_world *w)
{
    free(w->tasks);
    free(w->ranks);
    *w = (struct dlr_plan_world){0};
}

void dlr_sup_placement_state(const struct dlr_sup_planning *planning, json_t *state)
{
    struct dlr_plan_world placement = dlr_sup_placement(planning);

    if (dlr_sup_seats_told(planning)) {
        json_t *row = json_object();

        dlr_plan_put_places(row, placement.nplaces, placement.tasks, placement.ranks);
        json_object_set_new(state, "ranks", row);
    }
}

void dlr_sup_placement_take(struct dlr_sup_planning *planning, const json_t *state)
{
    const json_t *row = json_object_get(state, "ranks");
    struct dlr_plan_world placement = {0};

    if (!row)
        return;
    if (dlr_plan_read_places(row, &placement) < 0) {
        world_free(&placement);
        return;
    }
    world_free(&planning->placement);
    planning->placement = placement;
}

void dlr_sup_places_done(struct dlr_sup_planning *planning)
{
    world_free(&planning->placement);
    while (planning->nworlds)
        world_free(&planning->worlds[--planning->nworlds]);
}

/* --- parity, of this round and of former ones ------------------------------------- */

unsigned dlr_sup_parity_rows(const struct dlr_sup_planning *planning)
{
    const struct dlr_redundancy_conf *asked = &planning->env.conf->redundancy;

    return asked->members && planning->step.nplaces > 1 ? asked->copies : 0;
}

/* The newest commit is of the last plan's ranks, or what that plan restores: the next
 * one may need it.
 */
static bool is_needed(const struct dlr_sup_planning *planning, unsigned world)
{
    return world == planning->plan.world ||
           (planning->plan.restore && world == planning->plan.made_by);
}

/* Two of them are needed at most. */
static_assert(DLR_PLAN_WORLDS_MAX > 2, "one can go");

static void forget_oldest(struct dlr_sup_planning *planning)
{
    struct dlr_plan_world *w = planning->worlds;

    while (w + 1 < planning->worlds + planning->nworlds &&
           is_needed(planning, world_of(w)))
        w++;
    world_free(w);
    planning->nworlds--;
    memmove(w, w + 1, (size_t)(planning->worlds + planning->nworlds - w) * sizeof(*w));
}

static unsigned *copy_of(const unsigned *list, unsigned n)
{
    unsigned *copy = list ? calloc(n + 1, sizeof(*copy)) : NULL;

    return copy ? memcpy(copy, list, n * sizeof(*copy)) : NULL;
}

/* Without memory for it what they leave can be restored from whole copies only. */
void dlr_sup_places_remember(struct dlr_sup_planning *planning)
{
    struct dlr_plan_world placement = dlr_sup_placement(planning),
                          now = {.nplaces = placement.nplaces};
    unsigned world = dlr_sup_placement_world(planning);

    if (dlr_sup_parity_rows(planning) == 0)
        return;
    for (unsigned i = 0; i < planning->nworlds; i++)
        if (world_of(&planning->worlds[i]) == world)
            return;
    now.tasks = copy_of(placement.tasks, now.nplaces);
    now.ranks = copy_of(placement.ranks, world);
    if (!now.tasks || (placement.ranks && !now.ranks)) {
        world_free(&now);
        return;
    }
    if (planning->nworlds == DLR_PLAN_WORLDS_MAX)
        forget_oldest(planning);
    planning->worlds[planning->nworlds++] = now;
}

int dlr_sup_world_sets(const struct dlr_sup_planning *planning, unsigned world,
                       struct dlr_parity_sets *ret)
{
    unsigned members = planning->env.conf->redundancy.members;
    unsigned rows = dlr_sup_parity_rows(planning);
    struct dlr_plan_world placement = dlr_sup_placement(planning);

    memset(ret, 0, sizeof(*ret));
    if (rows == 0)
        return -ENOENT;
    if (world == dlr_sup_placement_world(planning))
        return dlr_parity_sets_init(ret, placement.nplaces, placement.tasks,
                                    placement.ranks, members, rows);
    for (unsigned i = 0; i < planning->nworlds; i++)
        if (world_of(&planning->worlds[i]) == world)
            return dlr_parity_sets_init(ret, planning->worlds[i].nplaces,
                                        planning->worlds[i].tasks,
                                        planning->worlds[i].ranks, members, rows);
    return -ENOENT;
}

void dlr_sup_want_places(const struct dlr_sup_planning *planning,
                         struct dlr_plan_want *ret)
{
    struct dlr_plan_world placement = dlr_sup_placement(planning);

    ret->nplaces = placement.nplaces;
    ret->tasks = placement.tasks;
    ret->ranks = placement.ranks;
    ret->rows = dlr_sup_parity_rows(planning);
    ret->members = ret->rows ? planning->env.conf->redundancy.members : 0;
    ret->worlds = planning->worlds;
    ret->nworlds = planning->nworlds;
}

/* Seats that Slurm's tasks have, too, or that no plan can have, are not kept. */
int dlr_sup_place_ranks(struct dlr_sup_planning *planning, const unsigned *tasks,
                        const unsigned *ranks)
{
    unsigned n = planning->step.nplaces, world = 0;
    bool kept = planning->plan.nplaces == n, in_order = true;

    dlr_sup_places_remember(planning);
    for (unsigned p = 0; kept && p < n; p++) {
        kept = tasks[p] > 0;
        world += tasks[p];
    }
    for (unsigned r = 0; kept && r < world; r++)
        in_order = in_order && ranks[r] == r;
    if (kept && world == planning->step.world &&
        !memcmp(tasks, planning->step.tasks, n * sizeof(*tasks)))
        kept = planning->step.ranks
                   ? memcmp(ranks, planning->step.ranks, world * sizeof(*ranks)) != 0
                   : !in_order;
    world_free(&planning->placement);
    if (kept) {
        struct dlr_plan_world *placement = &planning->placement;

        placement->tasks = copy_of(tasks, n);
        placement->ranks = in_order ? NULL : copy_of(ranks, world);
        placement->nplaces = placement->tasks && (in_order || placement->ranks) ? n : 0;
    }
    return planning->ops->reseated(planning->arg, tasks, ranks);
}
