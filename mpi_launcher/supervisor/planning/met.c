/* SPDX-License-Identifier: Apache-2.0 */
/* A job's later runs: their nodes have met by MPI a run before, in the same step of
 * agents, so these report, and no other step is started.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"

/* The candidates in any order, each since it was booted. */
static uint64_t sum_of(const struct dlr_sup_planning *planning)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < planning->members->n; i++) {
        const struct dlr_member *m = &planning->members->list[i];

        if (dlr_sup_is_candidate(planning->env.steps, i))
            sum += XXH64(m->node.name, strlen(m->node.name),
                         XXH64(m->boot, strlen(m->boot), 0));
    }
    return sum;
}

/* Agents see no GPU, and nothing of what the user has asked to be checked by MPI. */
static bool is_mpi_needed(const struct dlr_sup_planning *planning)
{
    static const char *const gpus[] = {"SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE",
                                       "SLURM_GPUS"};

    for (unsigned i = 0; i < sizeof(gpus) / sizeof(*gpus); i++)
        if (getenv(gpus[i]))
            return true;
    return strcmp(planning->env.conf->checks, "auto") != 0 ||
           dlr_sup_network_ms(planning) > 0 || getenv("DLROVER_INJECT");
}

bool dlr_sup_met_before(struct dlr_sup_planning *planning)
{
    return planning->check_all && !is_mpi_needed(planning) &&
           dlr_sup_agents_have_met(planning->env.steps, sum_of(planning));
}

void dlr_sup_met(struct dlr_sup_planning *planning, const struct dlr_plan *plan)
{
    /* Of the first plan: a restart must not wait for the disk. A warning is one again. */
    if (planning->plan.world == 0 && plan->nout == 0)
        dlr_sup_agents_met(planning->env.steps, sum_of(planning));
}
