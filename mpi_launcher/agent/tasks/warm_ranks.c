/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that have run ahead get ranks: from then on they have stayed. */
#include "mpi_launcher/agent/tasks/tasks_state.h"

static void become_task(struct dlr_agent_warm_process *w, int32_t rank)
{
    struct dlr_agent_tasks *tasks = w->of;

    if (!dlr_agent_tasks_add_own(tasks, tasks->warm.round, rank, w->pid, w->pidfd))
        return;
    w->waits->kind = DLR_CONN_STAY;
    w->waits->parked = true;
    w->waits->round = tasks->warm.round;
    w->waits->rank = rank;
    *w = (struct dlr_agent_warm_process){.of = tasks, .pidfd = -1};
}

void dlr_agent_warm_round(struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_node *here =
        dlr_agent_round_node(tasks->round, tasks->self->node);
    unsigned rank = 0;

    if (!here || here->nranks == 0)
        return;
    for (unsigned i = 0; i < tasks->warm.n && rank < here->nranks; i++)
        if (tasks->warm.list[i].waits && tasks->self->job.in_process)
            become_task(&tasks->warm.list[i], here->ranks[rank++]);
    dlr_agent_warm_end(tasks);
}
