/* SPDX-License-Identifier: Apache-2.0 */
/* The agents are started, report, and are there or late. When a job starts, a prolog
 * may take minutes on some nodes: they are neither up nor dead; a round begins without
 * them as soon as the others are enough, else it waits.
 */
#include <string.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

DLR_ACTION(start_agents)
{
    if (!dlr_restart_budget_spent(&p->agent_starts, e->now_ms))
        p->agent_starts.from_ms = e->now_ms;
    p->agent_starts.spent++;
    p->awaits = false;
    p->ops.start_agents(p->arg);
}

DLR_ACTION(start_agents_some_late)
{
    p->late_ms = e->now_ms + p->conf.start_timeout_ms;
    p->enough = p->conf.nplaces;
    dlr_policy_do_start_agents(p, e);
}

/* Losing the agents is not losing nodes: they are started again, and a round that ran,
 * whose workers nobody can vouch for any more, is ended as soon as they are back.
 */
DLR_ACTION(start_agents_again)
{
    if (p->begun)
        p->late_ms = 0; /* who was there is not told from who never was */
    for (unsigned i = 0; i < p->conf.nnodes; i++) {
        if (p->nodes[i].state == NODE_UP)
            p->nodes[i].state = NODE_UNSEEN;
        p->nodes[i].processes_left = false;
    }
    dlr_policy_do_start_agents(p, e);
}

DLR_ACTION(start_agents_at_no_cost)
{
    dlr_policy_count_fruitless(p, e->now_ms);
    if (p->agent_starts.spent)
        p->agent_starts.spent--; /* that start was none */
    dlr_policy_do_start_agents(p, e);
}

DLR_ACTION(settle)
{
    p->deadline_ms = e->now_ms + DLR_POLICY_SETTLE_MS;
}

DLR_ACTION(await_the_late)
{
    p->awaits = true;
    p->deadline_ms = p->late_ms;
    p->ops.late(p->arg, dlr_policy_count(p, NODE_UNSEEN));
}

DLR_ACTION(await_one_more)
{
    p->enough = dlr_policy_count(p, NODE_UP) + 1;
    dlr_policy_do_await_the_late(p, e);
}

DLR_ACTION(give_up_the_unseen)
{
    for (unsigned i = 0; !p->late_ms && i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UNSEEN)
            p->nodes[i].state = NODE_DEAD;
}

DLR_ACTION(finish_without_agents)
{
    dlr_policy_finish(p, 1,
                      "no agent has reported in time (--dlrover-set=agent-timeout); "
                      "agents.log in the job's state directory may say why");
}

DLR_ACTION(finish_agents_ended)
{
    dlr_policy_finish(p, 1,
                      "the agents ended again and again; agents.log in the job's state "
                      "directory may say why");
}

/* A round whose end nobody has seen is ended before anything else. */
DLR_ACTION(end_the_former_round)
{
    char why[sizeof(p->why)];

    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = p->nodes[i].state == NODE_UP;
    memcpy(why, p->why, sizeof(why));
    dlr_policy_end_round(p, p->cause, why, e->now_ms);
}
