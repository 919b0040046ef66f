/* SPDX-License-Identifier: Apache-2.0 */
/* The plan in force inside a round: its ranks, what they begin from, who keeps their
 * copies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

void dlr_sup_plan_partner(struct dlr_sup_planning *planning, unsigned place,
                          unsigned partner)
{
    planning->plan.places[place].partner = partner;
}

int dlr_sup_plan_seat(struct dlr_sup_planning *planning, const unsigned *tasks,
                      const unsigned *ranks, unsigned world)
{
    struct dlr_plan *plan = &planning->plan;
    unsigned from = 0;
    int rc;

    free(plan->ranks);
    free(plan->place_of);
    plan->ranks = plan->place_of = NULL;
    plan->world = world;
    for (unsigned p = 0; p < plan->nplaces; p++) {
        plan->places[p].from = from;
        plan->places[p].tasks = tasks[p];
        from += tasks[p];
    }
    rc = dlr_plan_former_place(plan, tasks, plan->nplaces, ranks);
    return rc < 0 ? rc : dlr_sup_place_ranks(planning, tasks, ranks);
}

int dlr_sup_plan_restore(struct dlr_sup_planning *planning, const struct dlr_version *v)
{
    struct dlr_plan *plan = &planning->plan;
    struct dlr_plan_source *fresh;

    plan->restore = v && plan->restore;
    if (!v)
        return 0;
    fresh = calloc(plan->world, sizeof(*fresh));
    if (!fresh)
        return -ENOMEM;
    for (unsigned r = 0; plan->sources && r < plan->made_by; r++)
        free(plan->sources[r].where);
    free(plan->sources);
    plan->sources = fresh;
    plan->made_by = plan->world;
    plan->version = *v;
    plan->restore = true;
    return 0;
}

int dlr_sup_plan_source(struct dlr_sup_planning *planning, unsigned rank,
                        const char *node, uint64_t bytes)
{
    struct dlr_plan_source *source = &planning->plan.sources[rank];
    char *where = node ? strdup(node) : NULL;

    if (node && !where)
        return -ENOMEM;
    free(source->where);
    *source = (struct dlr_plan_source){
        .from = node ? DLR_PLAN_NODE : DLR_PLAN_LOCAL, .where = where, .bytes = bytes};
    return 0;
}
