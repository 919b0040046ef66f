/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a round's step: a task of it has started, its srun has ended, tasks
 * are late. The word of either may come first.
 */
#include <stdio.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

DLR_ACTION(note_the_start)
{
    p->started = p->ran = true;
    p->unstarted = 0;
    p->unstarted_ms = 0;
}

DLR_ACTION(note_the_start_and_finish)
{
    dlr_policy_do_note_the_start(p, e);
    dlr_policy_finish(p, 0, NULL);
}

DLR_ACTION(begin_its_time)
{
    p->launch_ms = e->now_ms;
}

/* --- tasks are late --------------------------------------------------------------- */

static void wait_for_start(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    if (!p->unstarted_ms)
        p->unstarted_ms = now_ms;
    p->controller_down = true;
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, why, now_ms);
}

DLR_ACTION(end_not_started)
{
    p->exit_code = 1;
    wait_for_start(p, e->why, e->now_ms);
}

DLR_ACTION(refuse_late_tasks)
{
    p->exit_code = 1;
    p->launch_refused = true;
    p->late_next = p->round + 1;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, e->why, e->now_ms);
}

DLR_ACTION(end_for_late_tasks)
{
    p->exit_code = 1;
    p->launch_refused = false;
    p->late_next = p->round + 1;
    dlr_policy_end_round(p, DLR_CAUSE_CONTROL, e->why, e->now_ms);
}

/* --- srun has ended --------------------------------------------------------------- */

/* Slurm may be first to tell of a node's death, or of a short program's end: wait for
 * the agents' word.
 */
DLR_ACTION(await_the_reason)
{
    p->exit_unexplained = true;
    p->deadline_ms = e->now_ms + p->conf.suspect_ms;
}

DLR_ACTION(note_srun_failed)
{
    snprintf(p->failed_why, sizeof(p->failed_why), "srun ended with code %d",
             p->exit_code);
}

DLR_ACTION(end_srun_waits)
{
    char why[160];

    snprintf(why, sizeof(why), "slurmctld does not start the step (srun: code %d)",
             p->exit_code);
    wait_for_start(p, why, e->now_ms);
}

DLR_ACTION(refuse_srun_not_started)
{
    char why[160];
    int64_t waited_ms = p->unstarted_ms ? e->now_ms - p->unstarted_ms : 0;

    p->launch_refused = true;
    snprintf(why, sizeof(why),
             "slurmctld has not started the step for %lld s "
             "(--dlrover-set=controller-timeout); srun's message above says why",
             (long long)waited_ms / 1000);
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, e->now_ms);
}

DLR_ACTION(refuse_srun_again)
{
    char why[160];

    p->launch_refused = true;
    snprintf(why, sizeof(why),
             "srun has ended %u times in a row with code %d and started no task; "
             "its own message above says why",
             ++p->unstarted, p->exit_code);
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, e->now_ms);
}

DLR_ACTION(end_for_srun)
{
    char why[160];

    p->unstarted += !p->started;
    snprintf(why, sizeof(why), "srun ended with code %d%s", p->exit_code,
             p->exit_code ? "" : " and has started no task");
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, e->now_ms);
}
