/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM came to the steps of the job: a time limit, a preemption, --signal, scancel
 * -s, or the end of the job. The tasks are left to it, as without us. Only slurmctld
 * knows which of these it is: it is asked when they have ended, and decides what
 * becomes of the run.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

/* a program that ends within this time of SIGTERM ended for it */
#define TOLD_MS 600000
#define ASK_MS 30000 /* for slurmctld to say what became of the job */

bool dlr_policy_has_sigterm(const struct dlr_policy *p)
{
    return p->sigterm.wanted || p->sigterm.over;
}

bool dlr_policy_heeds(const struct dlr_policy *p, int64_t now_ms)
{
    return p->sigterm.wanted || now_ms < p->sigterm.until_ms;
}

/* Tasks of a round that began after it never had it. */
static bool tasks_heed(const struct dlr_policy *p, int64_t now_ms)
{
    return dlr_policy_heeds(p, now_ms) &&
           (p->sigterm.wanted || p->sigterm.next == p->round + 1);
}

/* Its tasks have ended. Nothing of it is tried again, whatever slurmctld says. */
static void settle(struct dlr_policy *p, int64_t now_ms)
{
    p->exit_unexplained = false;
    p->sigterm.settling = true;
    p->deadline_ms = now_ms + ASK_MS;
    p->ops.ask_fate(p->arg);
}

bool dlr_policy_sigterm_before(const struct dlr_policy *p, int64_t round)
{
    return p->phase == DLR_PHASE_RUN && round >= 0 && round < p->round;
}

void dlr_policy_sigterm(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                        int64_t now_ms)
{
    p->sigterm.wanted |= wanted;
    p->sigterm.until_ms = now_ms + TOLD_MS;
    if (p->phase == DLR_PHASE_RUN || p->phase == DLR_PHASE_END)
        p->sigterm.next = p->round + 1;
    switch (p->phase) {
    case DLR_PHASE_RUN:
        if (p->exit_unexplained && p->ended)
            settle(p, now_ms); /* here is the reason that it waited for */
        else if (p->sigterm.code)
            p->deadline_ms = p->sigterm.until_ms;
        if (wanted && !p->sigterm.settling)
            p->deadline_ms = now_ms + limit_ms;
        break;
    case DLR_PHASE_END:
    case DLR_PHASE_PERSIST:
    case DLR_PHASE_REQUEUE:
    case DLR_PHASE_DONE:
        break;
    default:
        p->ops.ask_fate(p->arg); /* there are no tasks: it may be the job's end */
    }
}

/* No agent is told: their step has no such limit. Slurm looks at it twice a minute, and
 * never early.
 */
static void look_at_limit(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || !p->conf.limit_ms ||
        now_ms - p->launch_ms < p->conf.limit_ms)
        return;
    p->sigterm.limit = true;
    p->sigterm.until_ms = now_ms + TOLD_MS;
    p->sigterm.next = p->round + 1;
}

bool dlr_policy_sigterm_step_ended(struct dlr_policy *p, int64_t now_ms)
{
    look_at_limit(p, now_ms);
    if (!tasks_heed(p, now_ms))
        return false;
    settle(p, now_ms);
    return true;
}

bool dlr_policy_sigterm_exit(struct dlr_policy *p, int code, int64_t now_ms)
{
    look_at_limit(p, now_ms);
    if (tasks_heed(p, now_ms)) {
        p->sigterm.code = code;
        if (!p->sigterm.wanted)
            p->deadline_ms = p->sigterm.until_ms;
        return true;
    }
    if (code != 128 + 15 || p->sigterm.code)
        return false;
    p->sigterm.code = code; /* the agents' word may be on its way */
    p->deadline_ms = now_ms + p->conf.suspect_ms;
    return true;
}

bool dlr_policy_sigterm_after_end(struct dlr_policy *p, int64_t now_ms)
{
    if (!p->sigterm.over && p->sigterm.wanted && !p->ended)
        p->exit_code = 128 + 15;
    if (p->sigterm.wanted || (p->cause == DLR_CAUSE_PROGRAM && tasks_heed(p, now_ms)))
        p->sigterm.over = true; /* the word came while it was being ended */
    if (!p->sigterm.over)
        return false;
    dlr_policy_sigterm_over(p, now_ms);
    return true;
}

void dlr_policy_sigterm_over(struct dlr_policy *p, int64_t now_ms)
{
    if (p->sigterm.wanted && p->exit_code == 128 + 9)
        p->exit_code = 128 + 15; /* srun that is told SIGTERM kills its tasks */
    dlr_policy_persist(p, now_ms);
}

bool dlr_policy_sigterm_writing(struct dlr_policy *p)
{
    if (p->sigterm.settling && p->phase == DLR_PHASE_RUN) {
        p->sigterm.wanted = true;
        return true;
    }
    if (p->phase != DLR_PHASE_PERSIST)
        return p->sigterm.over && p->phase == DLR_PHASE_END;
    if (!p->sigterm.over) {
        p->sigterm.over = true;
        p->exit_code = 128 + 15;
        snprintf(p->why, sizeof(p->why), "ended by signal 15 (Terminated)");
    }
    return true;
}

bool dlr_policy_sigterm_persisted(struct dlr_policy *p)
{
    if (!p->sigterm.over || p->sigterm.back)
        return false;
    dlr_policy_finish(p, p->exit_code,
                      p->exit_code || p->sigterm.taken ? p->why : NULL);
    return true;
}
