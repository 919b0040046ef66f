/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's planning, in tests of what is above it. */
#ifndef DLR_TESTS_SUPPORT_PLANNING_RIG_H
#define DLR_TESTS_SUPPORT_PLANNING_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->nodes and s->steps are there. */
static inline void planning_rig(struct dlr_sup *s,
                                const struct dlr_sup_planning_ops *ops)
{
    struct dlr_sup_planning_env env = {.io = s->io,
                                       .nodes = s->nodes,
                                       .steps = s->steps,
                                       .conf = &s->conf,
                                       .info = &s->info,
                                       .job_number = &s->job_number};

    s->planning = dlr_sup_planning_new(&env, ops, s);
    if (!s->planning)
        abort();
}

#endif
