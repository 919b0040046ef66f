/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end. */
#include "mpi_launcher/supervisor/rounds/rounds.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

struct dlr_sup_rounds *dlr_sup_rounds_new(const struct dlr_sup_rounds_env *env,
                                          const struct dlr_sup_rounds_ops *ops,
                                          void *arg)
{
    static const struct dlr_sup_rounds_ops none;
    struct dlr_sup_rounds *rounds = calloc(1, sizeof(*rounds));

    if (!rounds)
        return NULL;
    rounds->env = *env;
    rounds->ops = ops ? ops : &none;
    rounds->arg = arg;
    rounds->members = dlr_sup_members(env->nodes);
    rounds->workers.pidfd = -1;
    rounds->restore_deadline_ms = rounds->adopt.deadline_ms = INT64_MAX;
    return rounds;
}

struct dlr_sup_rounds *dlr_sup_rounds_free(struct dlr_sup_rounds *rounds)
{
    if (!rounds)
        return NULL;
    dlr_sup_ranks_stop(rounds);
    dlr_sup_failure_reset(rounds, 0);
    dlr_class_rules_free(rounds->rules);
    free(rounds->adopt.told);
    json_decref(rounds->adopt.open);
    json_decref(rounds->adopt.later);
    free(rounds->roles);
    free(rounds->stay.parked);
    free(rounds->warm.told);
    free(rounds->warm.able);
    free(rounds->up);
    free(rounds->restored);
    free(rounds);
    return NULL;
}

void dlr_sup_rounds_open(struct dlr_sup_rounds *rounds, struct dlr_policy *policy)
{
    rounds->policy = policy;
}

void dlr_sup_rounds_start(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    rounds->started_ms = now_ms;
}

const int64_t *dlr_sup_started_ms(const struct dlr_sup_rounds *rounds)
{
    return &rounds->started_ms;
}

uint32_t dlr_sup_running_round(const struct dlr_sup_rounds *rounds)
{
    return rounds->running_round;
}

bool dlr_sup_anywhere(const struct dlr_sup_rounds *rounds)
{
    return rounds->anywhere;
}

int64_t dlr_sup_phase_begins(struct dlr_sup_rounds *rounds)
{
    return rounds->phase_ms = dlr_sup_now();
}

int64_t dlr_sup_phase_ms(const struct dlr_sup_rounds *rounds)
{
    return rounds->phase_ms;
}
