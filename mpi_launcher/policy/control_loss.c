/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a run when a part of its own control is lost: the supervisor, the
 * agents, slurmctld. None of it costs a restart.
 */
#include <stdio.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

/* --- a round of a former supervisor that still runs ------------------------------- */

DLR_ACTION(adopt)
{
    p->round = p->next_round - 1;
    p->places = 0;
    for (unsigned i = 0; i < p->conf.nnodes; i++) {
        p->nodes[i].member = e->member[i];
        p->places += e->member[i] != 0;
    }
    dlr_restart_budget_resume(&p->agent_starts, 1, e->now_ms);
    p->launch_ms = e->launch_ms;
    p->started = p->ran = true;
}

/* It is ended when all nodes are seen. */
DLR_ACTION(take_over_the_adopted)
{
    dlr_policy_take_over(p, e->why);
}

DLR_ACTION(end_unwatched)
{
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, e->why, e->now_ms);
}

static const char for_the_job[] = "another run of the job needs the requeue";

DLR_ACTION(end_for_the_job)
{
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, for_the_job, e->now_ms);
}

DLR_ACTION(explain_by_the_job)
{
    dlr_policy_explain(p, DLR_CAUSE_CONTROL, for_the_job);
}

/* Like a node's death, it explains the failures that it caused. */
DLR_ACTION(explain_by_control)
{
    dlr_policy_explain(p, DLR_CAUSE_CONTROL, e->why);
}

static void count_stepd(struct dlr_policy *p, int64_t now_ms)
{
    (void)dlr_restart_budget_spent(&p->steps_lost, now_ms);
    if (!p->steps_lost.spent++)
        p->steps_lost.from_ms = now_ms;
}

DLR_ACTION(end_for_the_stepd)
{
    count_stepd(p, e->now_ms);
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, e->why, e->now_ms);
}

DLR_ACTION(explain_by_the_stepd)
{
    count_stepd(p, e->now_ms);
    dlr_policy_explain(p, DLR_CAUSE_CONTROL, e->why);
}

/* --- the agents ended ------------------------------------------------------------- */

/* The round is ended once more when they are back: nobody has seen its end. */
DLR_ACTION(end_without_agents)
{
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, "the agents ended", e->now_ms);
    p->cleanup_unconfirmed = true;
}

DLR_ACTION(doubt_its_end)
{
    p->cleanup_unconfirmed = true;
}

/* --- slurmctld is away ------------------------------------------------------------ */

DLR_ACTION(end_for_the_controller)
{
    p->controller_down = true;
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, e->why, e->now_ms);
}

DLR_ACTION(explain_by_the_controller)
{
    p->controller_down = true;
    if (dlr_policy_is_programs(p))
        dlr_policy_explain(p, DLR_CAUSE_CONTROL, e->why);
}

static void wait_for(struct dlr_policy *p, bool requeue, const char *why)
{
    p->requeue_wait = requeue;
    p->ops.wait_controller(p->arg, why);
}

DLR_ACTION(wait_for_the_controller)
{
    wait_for(p, false, e->why);
}

DLR_ACTION(stop_and_wait)
{
    p->ops.stop_rendezvous(p->arg);
    wait_for(p, false, e->why);
}

DLR_ACTION(wait_after_the_round)
{
    p->failed_rendezvous = 0;
    p->controller_down = false;
    wait_for(p, false, p->why);
}

DLR_ACTION(wait_to_requeue)
{
    wait_for(p, true, e->why);
}

DLR_ACTION(finish_no_controller)
{
    dlr_policy_finish(p, 1,
                      "slurmctld cannot be reached (--dlrover-set=controller-timeout)");
}
