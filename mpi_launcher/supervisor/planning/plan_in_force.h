/* SPDX-License-Identifier: Apache-2.0 */
/* The plan that the round has. Everybody reads it, at an address that stays; it changes
 * by these functions alone.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLAN_IN_FORCE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLAN_IN_FORCE_H

#include "mpi_launcher/supervisor/planning/planning.h"

const struct dlr_plan *dlr_sup_plan(const struct dlr_sup_planning *planning);

/* Is there one, or has no round had any yet? */
static inline bool dlr_sup_has_plan(const struct dlr_plan *plan)
{
    return plan->world > 0;
}

/* Where the rank is: its place; a place's node, as the members' table has it. */
int dlr_sup_place_of(const struct dlr_sup_planning *planning, unsigned rank);
int dlr_sup_node_of(const struct dlr_sup_planning *planning, unsigned place);

/* It is a former supervisor's, as dlr_plan_to_json() has written it. -ESTALE: its nodes
 * are not the job's, or not so many; there is none then.
 */
int dlr_sup_plan_adopt(struct dlr_sup_planning *planning, const json_t *plan);
void dlr_sup_plan_drop(struct dlr_sup_planning *planning);

/* plan_changes.c: inside a round. Another place keeps the copies of this one. */
void dlr_sup_plan_partner(struct dlr_sup_planning *planning, unsigned place,
                          unsigned partner);
/* The ranks are where the program has told: so many at each place, ranks as in struct
 * dlr_plan_want. -ENOMEM.
 */
int dlr_sup_plan_seat(struct dlr_sup_planning *planning, const unsigned *tasks,
                      const unsigned *ranks, unsigned world);
/* They begin from v, that they have made themselves: dlr_sup_plan_source() of each.
 * NULL: from nothing. -ENOMEM.
 */
int dlr_sup_plan_restore(struct dlr_sup_planning *planning,
                         const struct dlr_version *v);
/* A node has what the rank needs of that; NULL: the one where it runs. -ENOMEM. */
int dlr_sup_plan_source(struct dlr_sup_planning *planning, unsigned rank,
                        const char *node, uint64_t bytes);

#endif
