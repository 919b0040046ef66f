/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's rounds, in its tests and in those of what is above it. */
#ifndef DLR_TESTS_SUPPORT_ROUNDS_RIG_H
#define DLR_TESTS_SUPPORT_ROUNDS_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once its lower engines and s->policy are there, or where nobody asks
 * these: its inside.
 */
static inline struct dlr_sup_rounds *rounds_rig(struct dlr_sup *s,
                                                const struct dlr_sup_rounds_ops *ops)
{
    struct dlr_sup_rounds_env env = {.io = s->io,
                                     .nodes = s->nodes,
                                     .steps = s->steps,
                                     .planning = s->planning,
                                     .copies = s->copies,
                                     .versions = s->versions,
                                     .sup = s,
                                     .conf = &s->conf,
                                     .info = &s->info,
                                     .step = s->step,
                                     .plan = s->plan,
                                     .resume_round = &s->resume_round,
                                     .took_over = &s->took_over,
                                     .state_fd = &s->state_fd};

    s->rounds = dlr_sup_rounds_new(&env, ops, s);
    if (!s->rounds)
        abort();
    dlr_sup_rounds_open(s->rounds, s->policy);
    return s->rounds;
}

#endif
