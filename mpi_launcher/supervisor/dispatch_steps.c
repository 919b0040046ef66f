/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to Slurm's steps: who is told of it. */
#include <errno.h>

#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* --- what has happened to steps --------------------------------------------------- */

static void on_agents_ended(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_gather_stop(s->planning);
}

static void on_agent_left(void *arg, unsigned node)
{
    dlr_sup_transfers_lost(((struct dlr_sup *)arg)->copies, node);
}

static void on_agents_gone(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_policy_agents_gone(s->policy, dlr_sup_now());
}

static void on_flushed(void *arg)
{
    dlr_sup_moves_check(arg);
}

static void on_failed(void *arg, enum dlr_controller_query what, int code,
                      const char *why)
{
    struct dlr_sup *s = arg;
    struct dlr_plan none = {0};
    int64_t now = dlr_sup_now();

    if (what == DLR_QUERY_RENDEZVOUS)
        dlr_sup_rendezvous_late(s->planning);
    else if (what == DLR_QUERY_AGENTS)
        dlr_policy_agents_gone(s->policy, now);
    else if (what == DLR_QUERY_PLAN)
        dlr_sup_planning_ops.planned(s, -EPROTO, &none, why);
    else if (what == DLR_QUERY_STEP)
        dlr_policy_step_ended(s->policy, dlr_sup_running_round(s->rounds), code, now);
    else if (what == DLR_QUERY_LAUNCH)
        dlr_policy_launch_late(s->policy, dlr_sup_running_round(s->rounds), why, now);
    else if (what == DLR_QUERY_REQUEUE)
        dlr_policy_requeue_failed(s->policy, why);
}

static void on_away(void *arg, enum dlr_controller_query what, const char *why)
{
    struct dlr_sup *s = arg;

    if (what == DLR_QUERY_STEP)
        dlr_sup_no_failure(s->rounds);
    dlr_policy_controller_away(s->policy, why, dlr_sup_now());
}

static void on_back(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_policy_controller_back(s->policy, dlr_sup_now());
}

static void on_mapped(void *arg)
{
    dlr_sup_rendezvous_resume(((struct dlr_sup *)arg)->planning);
}

static bool is_queued(void *arg, bool queued)
{
    return dlr_sup_launch_queued(((struct dlr_sup *)arg)->rounds, queued);
}

const struct dlr_sup_steps_ops dlr_sup_steps_ops = {
    .ended = on_agents_ended,
    .refused = dlr_sup_lost_before,
    .left = on_agent_left,
    .gone = on_agents_gone,
    .flushed = on_flushed,
    .failed = on_failed,
    .away = on_away,
    .back = on_back,
    .mapped = on_mapped,
    .queued = is_queued,
    .since = dlr_sup_phase_since,
    .barred = dlr_sup_is_barred,
    .finished = dlr_sup_has_ended,
    .over = dlr_sup_is_over,
};
