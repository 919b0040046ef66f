/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's steps, in tests of what is above it. */
#ifndef DLR_TESTS_SUPPORT_STEPS_RIG_H
#define DLR_TESTS_SUPPORT_STEPS_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->nodes and s->policy are there, or where nobody asks these. */
static inline void steps_rig(struct dlr_sup *s, const struct dlr_sup_steps_ops *ops)
{
    struct dlr_sup_steps_env env = {.io = s->io,
                                    .nodes = s->nodes,
                                    .conf = &s->conf,
                                    .info = &s->info,
                                    .id = &s->id,
                                    .address = s->address};
    struct dlr_err err;

    s->steps = dlr_sup_steps_new(&env, ops, s);
    if (!s->steps || (s->nodes && dlr_sup_steps_open(s->steps, s->policy, &err) < 0))
        abort();
}

#endif
