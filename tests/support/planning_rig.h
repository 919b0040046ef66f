/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's planning, in tests of what is above it. */
#ifndef DLR_TESTS_SUPPORT_PLANNING_RIG_H
#define DLR_TESTS_SUPPORT_PLANNING_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->nodes and s->steps are there where they are asked: its inside,
 * to be written.
 */
static inline struct dlr_sup_planning *
planning_rig(struct dlr_sup *s, const struct dlr_sup_planning_ops *ops)
{
    struct dlr_sup_planning_env env = {.io = s->io,
                                       .nodes = s->nodes,
                                       .steps = s->steps,
                                       .conf = &s->conf,
                                       .info = &s->info};

    s->planning = dlr_sup_planning_new(&env, ops, s);
    if (!s->planning)
        abort();
    s->step = dlr_sup_step(s->planning);
    s->plan = dlr_sup_plan(s->planning);
    return s->planning;
}

#endif
