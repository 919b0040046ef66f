/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a run when a part of its own control is lost: the supervisor, the
 * agents, slurmctld. None of it costs a restart.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

/* Within an hour. */
#define MAX_STEPS_LOST 5   /* slurmstepds of one supervisor's rounds, at no cost */
#define MAX_AGENT_STARTS 5 /* of one supervisor: agents that always end are no help */

/* --- a round of a former supervisor that still runs ------------------------------ */

void dlr_policy_adopt(struct dlr_policy *p, const unsigned char *member,
                      int64_t launch_ms, int64_t now_ms)
{
    p->round = p->next_round - 1;
    p->places = 0;
    for (unsigned i = 0; i < p->conf.nnodes; i++) {
        p->nodes[i].member = member[i];
        p->places += member[i] != 0;
    }
    dlr_restart_budget_resume(&p->agent_starts, 1, now_ms);
    p->launch_ms = launch_ms;
    p->started = p->ran = true;
    dlr_policy_enter(p, DLR_PHASE_RUN, now_ms, -1);
}

void dlr_policy_watch_lost(struct dlr_policy *p, uint32_t round, const char *why,
                           int64_t now_ms)
{
    if (p->phase == DLR_PHASE_RUN && round == p->round)
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL, why, now_ms);
}

void dlr_policy_adopt_failed(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN)
        return;
    dlr_policy_take_over(p, why);
    dlr_policy_enter(p, DLR_PHASE_AGENTS, now_ms, p->conf.agent_timeout_ms);
    if (dlr_policy_count(p, NODE_UNSEEN) == 0)
        dlr_policy_assembled(p, now_ms);
}

/* Like a node's death, it explains the failures that it caused. */
void dlr_policy_lease_expired(struct dlr_policy *p, uint32_t round, const char *why,
                              int64_t now_ms)
{
    if (round != p->round)
        return;
    if (p->phase == DLR_PHASE_RUN)
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL, why, now_ms);
    else
        dlr_policy_explain(p, DLR_CAUSE_CONTROL, why);
}

void dlr_policy_step_lost(struct dlr_policy *p, uint32_t round, const char *why,
                          int64_t now_ms)
{
    bool counts = p->phase == DLR_PHASE_RUN ||
                  (p->phase == DLR_PHASE_END && p->cause == DLR_CAUSE_PROGRAM);

    if (round != p->round || !counts ||
        dlr_restart_budget_spent(&p->steps_lost, now_ms) >= MAX_STEPS_LOST)
        return;
    if (!p->steps_lost.spent++)
        p->steps_lost.from_ms = now_ms;
    dlr_policy_lease_expired(p, round, why, now_ms);
}

/* --- the agents ended ------------------------------------------------------------- */

/* Losing the agents is not losing nodes: they are started again, and a round that ran,
 * whose workers nobody can vouch for any more, is ended as soon as they are back.
 */
static void agents_again(struct dlr_policy *p, int64_t now_ms)
{
    if (dlr_restart_budget_spent(&p->agent_starts, now_ms) >= MAX_AGENT_STARTS) {
        dlr_policy_finish(
            p, 1,
            "the agents ended again and again; agents.log in the job's state "
            "directory may say why");
        return;
    }
    if (p->begun)
        p->late_ms = 0; /* who was there is not told from who never was */
    for (unsigned i = 0; i < p->conf.nnodes; i++) {
        if (p->nodes[i].state == NODE_UP)
            p->nodes[i].state = NODE_UNSEEN;
        p->nodes[i].processes_left = false;
    }
    dlr_policy_call_agents(p, now_ms);
}

void dlr_policy_agents_gone(struct dlr_policy *p, int64_t now_ms)
{
    switch (p->phase) {
    case DLR_PHASE_DONE:
    case DLR_PHASE_REQUEUE:
        return;
    case DLR_PHASE_PERSIST:
        dlr_policy_persisted(p, now_ms);
        return;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        break;
    case DLR_PHASE_RUN:
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL, "the agents ended", now_ms);
        p->cleanup_unconfirmed = true;
        break;
    case DLR_PHASE_END:
        if (p->cause == DLR_CAUSE_SIGNAL) {
            dlr_policy_finish(p, p->exit_code, p->why);
            return;
        }
        p->cleanup_unconfirmed = true;
        break;
    default:
        break;
    }
    agents_again(p, now_ms);
}

/* --- slurmctld is away ------------------------------------------------------------ */

void dlr_policy_controller_away(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    p->requeue_wait = p->phase == DLR_PHASE_REQUEUE;
    switch (p->phase) {
    case DLR_PHASE_RUN:
        p->controller_down = true;
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL, why, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_wait(p, why, now_ms);
        break;
    case DLR_PHASE_AGENTS:
    case DLR_PHASE_REQUEUE:
        dlr_policy_wait(p, why, now_ms);
        break;
    default:
        break;
    }
}

void dlr_policy_controller_back(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_WAIT)
        return;
    if (p->requeue_wait) {
        dlr_policy_enter(p, DLR_PHASE_REQUEUE, now_ms, p->conf.requeue_timeout_ms);
        p->ops.requeue(p->arg, p->why);
    } else if (dlr_policy_count(p, NODE_UP)) {
        dlr_policy_rendezvous(p, now_ms);
    } else {
        if (p->agent_starts.spent)
            p->agent_starts.spent--; /* that start was none */
        dlr_policy_call_agents(p, now_ms);
    }
}
