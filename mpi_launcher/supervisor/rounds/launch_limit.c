/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of a round's start, and whether slurmctld may have its step wait. */
#include <stdio.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_on_stepd(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0)
        dlr_sup_node_set_stepd(
            s->nodes, node, json_is_true(json_object_get(msg, "here")) ? round + 1 : 0);
}

/* Slurm's own process of the round is there, on some node: it prepares tasks, or brings
 * an image.
 */
static bool is_starting(const struct dlr_sup *s)
{
    for (unsigned i = 0; s->workers.pid && i < s->members->n; i++)
        if (s->members->list[i].here &&
            s->members->list[i].stepd == (uint64_t)s->running_round + 1)
            return true;
    return false;
}

/* The first round takes its resources as a plain step does, and so does the next when
 * that one had none yet. Others overlap: what the round before had slurmctld counts as
 * taken until it has heard of its end on every node, which of a dead one it never does.
 * Where no step can overlap, none does.
 */
bool dlr_sup_may_queue(const struct dlr_sup *s)
{
    if (s->step->uneven && !s->step->overlap)
        return true;
    if (s->step->overlap || s->queue.held || s->took_over)
        return false;
    for (unsigned i = 0; i < s->members->n; i++)
        if (!dlr_stepplan_bars(s->step, i) && dlr_policy_is_lost(s->policy, i))
            return false; /* a run before us may have had it */
    return true;
}

bool dlr_sup_launch_queued(struct dlr_sup *s, bool queued)
{
    bool until_now = s->queue.does || queued;

    s->queue.does = queued;
    if (!until_now)
        return false;
    s->launch_ms = dlr_sup_now();
    s->launch_deadline_ms = s->launch_ms + s->conf.launch_timeout_ms;
    dlr_policy_queued(s->policy, s->launch_ms);
    return true;
}

static void end_launch(struct dlr_sup *s, int64_t now_ms)
{
    long long took_s = (long long)(now_ms - s->launch_ms) / 1000;
    const char *option = is_starting(s) ? "start" : "launch";
    char why[160];

    s->queue.held = true;
    if (s->tasks_up || is_starting(s)) {
        snprintf(why, sizeof(why),
                 "%u of %u tasks have started after %lld s (--dlrover-%s-timeout)",
                 s->tasks_up, s->step->world, took_s, option);
        dlr_policy_launch_late(s->policy, s->running_round, why, now_ms);
        return;
    }
    snprintf(
        why, sizeof(why),
        "srun has started no task in %lld s (--dlrover-set=launch-timeout); what it "
        "waits for it has said on its stderr",
        took_s);
    dlr_sup_ask_launch(s->steps, why, s->launch_ms, s->queue.may ? s->workers.pid : 0);
}

bool dlr_sup_launch_late(struct dlr_sup *s, int64_t now_ms)
{
    if (now_ms < s->launch_deadline_ms)
        return false;
    if (is_starting(s) && now_ms < s->launch_ms + s->conf.start_timeout_ms) {
        s->launch_deadline_ms = now_ms + DLR_SUP_TICK_MS; /* the clock stands */
        return false;
    }
    s->launch_deadline_ms = INT64_MAX;
    end_launch(s, now_ms);
    return true;
}
