/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and what the next supervisor gets. */
#include "mpi_launcher/supervisor/steps/steps.h"

#include <stdlib.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

struct dlr_sup_steps *dlr_sup_steps_new(const struct dlr_sup_steps_env *env,
                                        const struct dlr_sup_steps_ops *ops, void *arg)
{
    static const struct dlr_sup_steps_ops none;
    struct dlr_sup_steps *steps = calloc(1, sizeof(*steps));

    if (!steps)
        return NULL;
    steps->env = *env;
    steps->ops = ops ? ops : &none;
    steps->arg = arg;
    steps->hosts_fd = -1;
    steps->flushing_srun.pidfd = -1;
    steps->shutdown_deadline_ms = INT64_MAX;
    return steps;
}

struct dlr_sup_steps *dlr_sup_steps_free(struct dlr_sup_steps *steps)
{
    if (!steps)
        return NULL;
    dlr_shared_agent_step_close(steps);
    dlr_sup_rejoin_free(steps);
    free(steps);
    return NULL;
}

int dlr_sup_steps_open(struct dlr_sup_steps *steps, const struct dlr_policy *policy,
                       struct dlr_err *err)
{
    steps->members = dlr_sup_members(steps->env.nodes);
    steps->policy = policy;
    return dlr_sup_rejoin_start(steps, err);
}

bool dlr_sup_steps_busy(const struct dlr_sup_steps *steps)
{
    return steps->agents.pid || steps->flushing_srun.pid;
}

/* --- what outlives this process --------------------------------------------------- */

void dlr_sup_steps_state(const struct dlr_sup_steps *steps, json_t *state)
{
    char agents[DLR_PROCID_TEXT];

    json_object_set_new(state, "agents_pid", json_integer(steps->agents.pid));
    if (steps->agents_shared) {
        dlr_procid_show(&steps->agents_id, agents);
        json_object_set_new(state, "agents_id", json_string(agents));
    }
    json_object_set_new(state, "flushing_pid", json_integer(steps->flushing_srun.pid));
}

static pid_t pid_of(const json_t *state, const char *key)
{
    uint64_t pid = 0;

    dlr_msg_uint(state, key, INT32_MAX, &pid);
    return (pid_t)pid;
}

void dlr_sup_steps_take(struct dlr_sup_steps *steps, const json_t *state)
{
    const char *agents;

    dlr_sup_adopt_child(pid_of(state, "flushing_pid"), &steps->flushing_srun);
    if (dlr_msg_str(state, "agents_id", &agents) == 0)
        dlr_shared_agent_step_adopt(steps, agents);
    else
        dlr_sup_adopt_child(pid_of(state, "agents_pid"), &steps->agents);
}

void dlr_sup_steps_orphaned(struct dlr_sup_steps *steps)
{
    steps->agents_orphaned = true;
}

void dlr_sup_steps_adopt(struct dlr_sup_steps *steps)
{
    dlr_srun_flush_adopt(steps);
    dlr_sup_agents_watch(steps);
}
