/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of a round's start, and whether slurmctld may have its step wait. */
#include <stdio.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/steps/controller.h"

void dlr_sup_on_stepd(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0)
        dlr_sup_node_set_stepd(rounds->env.nodes, node,
                               json_is_true(json_object_get(msg, "here")) ? round + 1
                                                                          : 0);
}

/* Slurm's own process of the round is there, on some node: it prepares tasks, or brings
 * an image.
 */
static bool is_starting(const struct dlr_sup_rounds *rounds)
{
    for (unsigned i = 0; rounds->workers.pid && i < rounds->members->n; i++)
        if (rounds->members->list[i].here &&
            rounds->members->list[i].stepd == (uint64_t)rounds->running_round + 1)
            return true;
    return false;
}

/* The first round takes its resources as a plain step does, and so does the next when
 * that one had none yet. Others overlap: what the round before had slurmctld counts as
 * taken until it has heard of its end on every node, which of a dead one it never does.
 * Where no step can overlap, none does.
 */
bool dlr_sup_may_queue(const struct dlr_sup_rounds *rounds)
{
    if (rounds->env.step->uneven && !rounds->env.step->overlap)
        return true;
    if (rounds->env.step->overlap || rounds->queue.held || *rounds->env.took_over)
        return false;
    for (unsigned i = 0; i < rounds->members->n; i++)
        if (!dlr_step_plan_bars(rounds->env.step, i) &&
            dlr_policy_is_lost(rounds->policy, i))
            return false; /* a run before us may have had it */
    return true;
}

bool dlr_sup_launch_queued(struct dlr_sup_rounds *rounds, bool queued)
{
    bool until_now = rounds->queue.does || queued;

    rounds->queue.does = queued;
    if (!until_now)
        return false;
    rounds->launch_ms = dlr_sup_now();
    rounds->launch_deadline_ms =
        rounds->launch_ms + rounds->env.conf->launch_timeout_ms;
    dlr_policy_queued(rounds->policy, rounds->launch_ms);
    return true;
}

static void end_launch(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    long long took_s = (long long)(now_ms - rounds->launch_ms) / 1000;
    const char *option = is_starting(rounds) ? "start" : "launch";
    char why[160];

    rounds->queue.held = true;
    if (rounds->tasks_up || is_starting(rounds)) {
        snprintf(why, sizeof(why),
                 "%u of %u tasks have started after %lld s (--dlrover-%s-timeout)",
                 rounds->tasks_up, rounds->env.step->world, took_s, option);
        dlr_policy_launch_late(rounds->policy, rounds->running_round, why, now_ms);
        return;
    }
    snprintf(
        why, sizeof(why),
        "srun has started no task in %lld s (--dlrover-set=launch-timeout); what it "
        "waits for it has said on its stderr",
        took_s);
    dlr_sup_ask_launch(rounds->env.steps, why, rounds->launch_ms,
                       rounds->queue.may ? rounds->workers.pid : 0);
}

bool dlr_sup_launch_late(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    if (now_ms < rounds->launch_deadline_ms)
        return false;
    if (is_starting(rounds) &&
        now_ms < rounds->launch_ms + rounds->env.conf->start_timeout_ms) {
        rounds->launch_deadline_ms = now_ms + DLR_SUP_TICK_MS; /* the clock stands */
        return false;
    }
    rounds->launch_deadline_ms = INT64_MAX;
    end_launch(rounds, now_ms);
    return true;
}
