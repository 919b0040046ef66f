/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a round's step: a task of it has started, its srun has ended, tasks
 * are late. The word of either may come first.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

#define MAX_UNSTARTED 2 /* sruns in a row that end and have started nothing */

void dlr_policy_started(struct dlr_policy *p, uint32_t round)
{
    if (round != p->round || (p->phase != DLR_PHASE_RUN &&
                              !(p->phase == DLR_PHASE_END && dlr_policy_ended_well(p))))
        return;
    p->started = p->ran = true;
    p->unstarted = 0;
    p->unstarted_ms = 0;
    if (p->phase == DLR_PHASE_RUN && dlr_policy_ended_well(p))
        dlr_policy_finish(p, 0, NULL);
}

void dlr_policy_step_ended(struct dlr_policy *p, uint32_t round, int code,
                           int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || round != p->round)
        return;
    p->ended = true;
    p->exit_code = code;
    if (dlr_policy_sigterm_step_ended(p, now_ms))
        return;
    if (code == 0 && p->started) {
        dlr_policy_finish(p, 0, NULL);
        return;
    }
    /* Slurm may be first to tell of a node's death, or of a short program's end: wait
     * for the agents' word.
     */
    p->exit_unexplained = true;
    p->deadline_ms = now_ms + p->conf.suspect_ms;
}

/* The step was started before: what it lacks now the former round still holds, as
 * slurmctld has it. That is waited for, within a limit. False: it is over, or what the
 * user asks for was never to be had.
 */
static bool await_start(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    if (!p->ran || p->started)
        return false;
    if (!p->unstarted_ms)
        p->unstarted_ms = now_ms;
    if (now_ms - p->unstarted_ms >= p->conf.controller_timeout_ms)
        return false;
    dlr_policy_controller_away(p, why, now_ms);
    return true;
}

void dlr_policy_launch_late(struct dlr_policy *p, uint32_t round, const char *why,
                            int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || round != p->round)
        return;
    p->exit_code = 1;
    if (await_start(p, why, now_ms))
        return;
    p->launch_refused =
        p->late_next && p->late_next == round; /* the one before was late, too */
    p->late_next = round + 1;
    dlr_policy_end_round(p, p->launch_refused ? DLR_CAUSE_PROGRAM : DLR_CAUSE_CONTROL,
                         why, now_ms);
}

void dlr_policy_queued(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase == DLR_PHASE_RUN && !p->started)
        p->launch_ms = now_ms;
}

void dlr_policy_stepped(struct dlr_policy *p, uint32_t round)
{
    p->stepped |= round == p->round;
}

void dlr_policy_committed(struct dlr_policy *p, uint64_t step)
{
    if (p->has_best && step <= p->best)
        return; /* it is done again */
    p->has_best = true;
    p->best = step;
    dlr_restart_budget_progress(&p->restarts);
}

void dlr_policy_unexplained(struct dlr_policy *p, int64_t now_ms)
{
    char why[160];

    if (p->conf.tolerant && p->started) {
        snprintf(why, sizeof(why), "srun ended with code %d", p->exit_code);
        if (p->exit_code)
            dlr_policy_fail(p, p->exit_code, why, now_ms);
        else
            dlr_policy_finish(p, 0, NULL);
        return;
    }
    snprintf(why, sizeof(why), "slurmctld does not start the step (srun: code %d)",
             p->exit_code);
    if (p->exit_code && await_start(p, why, now_ms))
        return;
    if (!p->started && p->exit_code && p->ran) {
        p->launch_refused = true;
        snprintf(why, sizeof(why),
                 "slurmctld has not started the step for %lld s "
                 "(--dlrover-set=controller-timeout); srun's message above says why",
                 (long long)(now_ms - p->unstarted_ms) / 1000);
    } else if (!p->started && ++p->unstarted >= MAX_UNSTARTED) {
        p->launch_refused = true;
        snprintf(why, sizeof(why),
                 "srun has ended %u times in a row with code %d and started no task; "
                 "its own message above says why",
                 p->unstarted, p->exit_code);
    } else {
        snprintf(why, sizeof(why), "srun ended with code %d%s", p->exit_code,
                 p->exit_code ? "" : " and has started no task");
    }
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, now_ms);
}
