/* SPDX-License-Identifier: Apache-2.0 */
/* The agents are started, report, and are there or late. */
#include <string.h>

#include "mpi_launcher/policy/state.h"

/* From enough agents to the round without the others: those that are as quick come
 * along.
 */
#define SETTLE_MS 5000

void dlr_policy_call_agents(struct dlr_policy *p, int64_t now_ms)
{
    if (!dlr_restart_budget_spent(&p->agent_starts, now_ms))
        p->agent_starts.from_ms = now_ms;
    p->agent_starts.spent++;
    p->awaits = false;
    dlr_policy_enter(p, DLR_PHASE_AGENTS, now_ms, p->conf.agent_timeout_ms);
    p->ops.start_agents(p->arg);
}

void dlr_policy_start(struct dlr_policy *p, int64_t now_ms)
{
    if (!p->cleanup_unconfirmed && p->conf.start_timeout_ms)
        dlr_policy_first_start(p, now_ms);
    dlr_policy_call_agents(p, now_ms);
}

void dlr_policy_assembled(struct dlr_policy *p, int64_t now_ms)
{
    char why[sizeof(p->why)];

    if (!dlr_policy_count(p, NODE_UP)) {
        dlr_policy_finish(p, 1,
                          "no agent has reported in time "
                          "(--dlrover-set=agent-timeout); agents.log in "
                          "the job's state directory may say why");
        return;
    }
    if (!p->cleanup_unconfirmed) {
        dlr_policy_rendezvous(p, now_ms);
        return;
    }
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = p->nodes[i].state == NODE_UP;
    memcpy(why, p->why, sizeof(why));
    dlr_policy_end_round(p, p->cause, why, now_ms);
}

/* An agent has reported, or will not: whether they are enough. */
static void look_for_late(struct dlr_policy *p, int64_t now_ms)
{
    bool some = now_ms < p->late_ms && dlr_policy_count(p, NODE_UP) >= p->enough;

    if (dlr_policy_count(p, NODE_UNSEEN) == 0 || (some && p->awaits))
        dlr_policy_assembled(p, now_ms);
    else if (some && p->deadline_ms > now_ms + SETTLE_MS)
        p->deadline_ms = now_ms + SETTLE_MS;
}

void dlr_policy_node_up(struct dlr_policy *p, unsigned node, int64_t now_ms)
{
    p->nodes[node].state = NODE_UP;
    if (p->phase == DLR_PHASE_AGENTS)
        look_for_late(p, now_ms);
}

/* On the host of the batch script the prolog is over: no agent there either is another
 * trouble.
 */
void dlr_policy_agents_late(struct dlr_policy *p, int64_t now_ms)
{
    unsigned up = dlr_policy_count(p, NODE_UP);

    if (dlr_policy_may_come(p, now_ms) && up < p->enough && (up || !p->conf.batch)) {
        dlr_policy_await_late(p, now_ms);
        return;
    }
    for (unsigned i = 0; !p->late_ms && i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UNSEEN)
            p->nodes[i].state = NODE_DEAD;
    dlr_policy_assembled(p, now_ms);
}
