/* SPDX-License-Identifier: Apache-2.0 */
/* Places of the run's ranks: as the step has them or as the program told them, in this
 * round and in former ones, whose parity may be needed.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLACES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLACES_H

#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/supervisor/planning/planning.h"

/* Of the program's ranks, as far as known: what the next plan assumes. Borrowed. */
struct dlr_plan_world dlr_sup_placement(const struct dlr_sup_planning *planning);
unsigned dlr_sup_placement_world(const struct dlr_sup_planning *planning);
/* They are as the program told them, not Slurm's tasks. */
bool dlr_sup_seats_told(const struct dlr_sup_planning *planning);
/* For the next supervisor, where they were told. */
void dlr_sup_placement_state(const struct dlr_sup_planning *planning, json_t *state);
void dlr_sup_placement_take(struct dlr_sup_planning *planning, const json_t *state);
/* The highest number of a slot, parity's included, that a node may speak of. */
unsigned dlr_sup_slots_max(const struct dlr_sup_planning *planning);

/* Shards that each set of ranks has beside its copies; 0: there is no parity. */
unsigned dlr_sup_parity_rows(const struct dlr_sup_planning *planning);
/* Who shared parity when there were so many ranks: dlr_parity_sets_done(). -ENOENT: not
 * known.
 */
int dlr_sup_world_sets(const struct dlr_sup_planning *planning, unsigned world,
                       struct dlr_parity_sets *ret);
/* Places and parity, of this round and of former ones: what finds a version. Borrowed.
 */
void dlr_sup_want_places(const struct dlr_sup_planning *planning,
                         struct dlr_plan_want *ret);

#endif
