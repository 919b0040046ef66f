/* SPDX-License-Identifier: Apache-2.0 */
/* An agents' step that could not be started on a node: srun gives up the whole step, on
 * the nodes that have it already, too; so it is asked for without such a node.
 */
#include <stdio.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/slurm/srun_errors.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* The first failure may be a passing one, of the network or of slurmd. */
#define LAUNCH_TRIES 2

void dlr_sup_agents_log(const struct dlr_sup *s, char *path, size_t size)
{
    snprintf(path, size, "%s/agents.log", s->info.job_dir);
}

static unsigned candidates(const struct dlr_sup *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->members->n; i++)
        n += dlr_sup_is_candidate(s, i);
    return n;
}

static void refuse(struct dlr_sup *s, unsigned node, const char *reason)
{
    const struct dlr_member *m = &s->members->list[node];
    char why[512];

    if (dlr_policy_is_lost(s->policy, node) ||
        dlr_sup_node_unlaunched(s->nodes, node) < LAUNCH_TRIES || candidates(s) < 2)
        return; /* to leave out the last one is no help */
    snprintf(why, sizeof(why), "node %.200s: its agent cannot be started: %.200s",
             m->node.name, reason);
    dlr_policy_lost_before(s->policy, node);
    dlr_sup_give_up(s->nodes, node, why, reason);
}

void dlr_sup_agents_refused(struct dlr_sup *s)
{
    char name[DLR_SRUN_NODE], reason[DLR_SRUN_WORDS];
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];
    const char *at;

    if (dlr_policy_phase(s->policy) != DLR_PHASE_AGENTS || s->finished)
        return;
    dlr_sup_agents_log(s, path, sizeof(path));
    at = text = dlr_sup_file_text(s->io, path, s->agents_log_from);
    while (at && (at = dlr_srun_end_node(at, name, reason))) {
        int node = dlr_members_find(s->members, name);

        if (node >= 0)
            refuse(s, node, reason);
    }
}
