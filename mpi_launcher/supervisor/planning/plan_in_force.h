/* SPDX-License-Identifier: Apache-2.0 */
/* The plan that the round has, and what the next one must know. Everybody reads it, at
 * an address that stays; it changes by these functions alone.
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

/* A new one: of this run's nodes, places and ranks? */
bool dlr_sup_plan_is_ours(const struct dlr_sup_planning *planning,
                          const struct dlr_plan *plan);
/* It is in force from now on: its memory is the engine's. */
void dlr_sup_plan_take(struct dlr_sup_planning *planning, struct dlr_plan *plan);
/* It is not, or there is none, for that reason, which is told: what the policy is told.
 * Too few nodes are fit (-ENOSPC): another allocation may help, without those that are
 * not. With none fit it is nothing of the nodes' (a full file system that all share,
 * say), and would not: -ENODEV.
 */
int dlr_sup_plan_refuse(struct dlr_sup_planning *planning, int rc,
                        const struct dlr_plan *plan, const char *why);
/* Health checks have left it out when too few were fit. */
bool dlr_sup_is_unfit(const struct dlr_sup_planning *planning, unsigned node);
/* It is a former supervisor's, as dlr_plan_to_json() has written it. -ESTALE: its nodes
 * are not the job's, or not so many; there is none then.
 */
int dlr_sup_plan_adopt(struct dlr_sup_planning *planning, const json_t *plan);
void dlr_sup_plan_drop(struct dlr_sup_planning *planning);

/* To the journal and the user, when the round has its number. */
void dlr_sup_tell_plan(struct dlr_sup_planning *planning);
/* Its places, spares and the version to restore. */
json_t *dlr_sup_plan_rows(const struct dlr_sup_planning *planning);

/* Its seats are what the next one starts from: "vetted". */
void dlr_sup_keep_plan(struct dlr_sup_planning *planning);
/* What the next plan may not use, and why; copied. */
void dlr_sup_leave_out(struct dlr_sup_planning *planning,
                       const struct dlr_plan_out *out);
bool dlr_sup_is_left_out(const struct dlr_sup_planning *planning, const char *node);

/* plan_changes.c: inside a round. Another place keeps the copies of this one. */
void dlr_sup_plan_partner(struct dlr_sup_planning *planning, unsigned place,
                          unsigned partner);
/* The ranks are where the program has told: so many at each place, ranks as in struct
 * dlr_plan_want. What the next plan assumes: "reseated". -ENOMEM.
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
