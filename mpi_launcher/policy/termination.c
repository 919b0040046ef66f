/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM came to the steps of the job: a time limit, a preemption, --signal, scancel
 * -s, or the end of the job. The tasks are left to it, as without us. Only slurmctld
 * knows which of these it is: it is asked when they have ended, and decides what
 * becomes of the run.
 */
#include <stdio.h>
#include <string.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

#define ASK_MS 30000 /* for slurmctld to say what became of the job */

static const char ended_by_it[] = "ended by signal 15 (Terminated)";

bool dlr_policy_heeds(const struct dlr_policy *p, int64_t now_ms)
{
    return p->sigterm.wanted || now_ms < p->sigterm.until_ms;
}

/* Tasks of a round that began after it never had it. */
bool dlr_policy_tasks_heed(const struct dlr_policy *p, int64_t now_ms)
{
    return dlr_policy_heeds(p, now_ms) &&
           (p->sigterm.wanted || p->sigterm.next == p->round + 1);
}

/* --- while the tasks end ---------------------------------------------------------- */

/* While slurmctld is asked its answer is waited for, and no longer. */
DLR_ACTION(keep_its_end)
{
    if (e->stops || !dlr_policy_stops_at(p, p->sigterm.code)) {
        p->sigterm.code = e->code;
        snprintf(p->sigterm.why, sizeof(p->sigterm.why), "%s", e->why);
    }
    if (!p->sigterm.wanted && !p->sigterm.settling)
        p->deadline_ms = p->sigterm.until_ms;
}

DLR_ACTION(await_sigterm)
{
    p->sigterm.code = e->code;
    snprintf(p->sigterm.why, sizeof(p->sigterm.why), "%s", e->why);
    p->deadline_ms = e->now_ms + p->conf.suspect_ms;
}

/* Its tasks have ended. Nothing of it is tried again, whatever slurmctld says. */
DLR_ACTION(ask_after_the_end)
{
    p->exit_unexplained = false;
    p->sigterm.settling = true;
    p->deadline_ms = e->now_ms + ASK_MS;
    p->ops.ask_fate(p->arg);
}

DLR_ACTION(limit_the_tasks)
{
    p->deadline_ms = e->now_ms + e->limit_ms;
}

DLR_ACTION(await_the_other_tasks)
{
    p->deadline_ms = p->sigterm.until_ms;
}

DLR_ACTION(ask_fate)
{
    p->ops.ask_fate(p->arg);
}

/* SIGTERM comes to us when the tasks had it before and have ended, or what is in memory
 * is being written. That goes on, within its limit.
 */
DLR_ACTION(want_it)
{
    p->sigterm.wanted = true;
}

DLR_ACTION(want_it_written)
{
    if (p->sigterm.over)
        return;
    p->sigterm.over = true;
    p->exit_code = 128 + 15;
    snprintf(p->why, sizeof(p->why), "%s", ended_by_it);
}

/* --- slurmctld's word, or its time is over ---------------------------------------- */

static void why_it_ended(const struct dlr_policy *p, enum dlr_fate fate, char *ret_why,
                         size_t size)
{
    if (p->sigterm.wanted || fate == DLR_FATE_ENDS)
        snprintf(ret_why, size, "%s", ended_by_it);
    else if (p->sigterm.limit)
        snprintf(ret_why, size, "the step's time was over (srun --time)");
    else if (p->sigterm.warning)
        snprintf(ret_why, size, "the program has ended after signal %d (%s)",
                 p->sigterm.warning, strsignal(p->sigterm.warning));
    else
        snprintf(ret_why, size, "the program has ended after SIGTERM");
}

DLR_ACTION(conclude)
{
    char why[128];

    why_it_ended(p, e->fate, why, sizeof(why));
    p->sigterm.settling = false;
    p->sigterm.over = true;
    p->sigterm.back = e->fate == DLR_FATE_PREEMPTED;
    p->sigterm.taken = e->fate == DLR_FATE_ENDS;
    dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, p->sigterm.back ? "preempted" : why,
                         e->now_ms);
}

DLR_ACTION(end_for_sigterm)
{
    p->exit_code = 128 + 15;
    dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, ended_by_it, e->now_ms);
}

DLR_ACTION(end_for_its_task)
{
    p->exit_code = p->sigterm.code;
    p->killed = p->exit_code == 128 + 15;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, p->sigterm.why, e->now_ms);
}

/* --- the run ends for it ---------------------------------------------------------- */

static void persist(struct dlr_policy *p)
{
    if (p->sigterm.wanted && p->exit_code == 128 + 9)
        p->exit_code = 128 + 15; /* srun that is told SIGTERM kills its tasks */
    p->ops.persist(p->arg);
}

DLR_ACTION(persist_last)
{
    p->sigterm.over = true;
    p->sigterm.back = e->fate == DLR_FATE_PREEMPTED;
    p->exit_code = 128 + 15;
    snprintf(p->why, sizeof(p->why), "%s", p->sigterm.back ? "preempted" : ended_by_it);
    persist(p);
}

DLR_ACTION(stop_and_persist_last)
{
    p->ops.stop_rendezvous(p->arg);
    dlr_policy_do_persist_last(p, e);
}

DLR_ACTION(persist_after_the_round)
{
    p->failed_rendezvous = 0;
    if (!p->sigterm.over && p->sigterm.wanted && !p->ended)
        p->exit_code = 128 + 15;
    p->sigterm.over = true;
    persist(p);
}

DLR_ACTION(finish_after_sigterm)
{
    dlr_policy_finish(p, p->exit_code,
                      p->exit_code || p->sigterm.taken ? p->why : NULL);
}
