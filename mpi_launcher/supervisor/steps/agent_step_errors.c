/* SPDX-License-Identifier: Apache-2.0 */
/* An agents' step that could not be started on a node: srun gives up the whole step, on
 * the nodes that have it already, too; so it is asked for without such a node.
 */
#include <stdio.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/slurm/srun_errors.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

/* The first failure may be a passing one, of the network or of slurmd. */
#define LAUNCH_TRIES 2

void dlr_sup_agents_log(const struct dlr_sup_steps *steps, char *path, size_t size)
{
    snprintf(path, size, "%s/agents.log", steps->env.info->job_dir);
}

static unsigned candidates(const struct dlr_sup_steps *steps)
{
    unsigned n = 0;

    for (unsigned i = 0; i < steps->members->n; i++)
        n += dlr_sup_is_candidate(steps, i);
    return n;
}

/* A node that the job has no more is asked for in vain: srun then names nobody. */
static void refuse(struct dlr_sup_steps *steps, unsigned node, const char *reason,
                   bool gone)
{
    const struct dlr_member *m = &steps->members->list[node];
    char why[512];

    if (dlr_policy_is_lost(steps->policy, node) ||
        (dlr_sup_node_unlaunched(steps->env.nodes, node) < LAUNCH_TRIES && !gone) ||
        candidates(steps) < 2)
        return; /* to leave out the last one is no help */
    snprintf(why, sizeof(why), "node %.200s: its agent cannot be started: %.200s",
             m->node.name, reason);
    steps->ops->refused(steps->arg, node);
    dlr_node_mark_dead(steps->env.nodes, node, why, reason);
}

void dlr_sup_agents_refused(struct dlr_sup_steps *steps)
{
    char name[DLR_SRUN_NODE], reason[DLR_SRUN_WORDS];
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];
    const char *at;
    bool gone, starting = dlr_policy_phase(steps->policy) == DLR_PHASE_AGENTS;

    if (steps->ops->finished(steps->arg))
        return;
    dlr_sup_agents_log(steps, path, sizeof(path));
    at = text = dlr_sup_file_text(steps->env.io, path, steps->agents_log_from);
    while (at && (at = dlr_srun_end_node(at, name, reason, &gone))) {
        int node = dlr_members_find(steps->members, name);

        /* Who is late, and given up by Slurm, ends the step of those who run. */
        if (node >= 0 && (gone || starting))
            refuse(steps, node, reason, gone);
    }
}
