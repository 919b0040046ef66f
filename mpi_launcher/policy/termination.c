/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM came to the steps of the job: a time limit, a preemption, --signal, scancel -s, or the
 * end of the job. The tasks are left to it, as without us. Only slurmctld knows which of these it
 * is: it is asked when they have ended, and decides what becomes of the run.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

#define TOLD_MS                                                                        \
    600000           /* a program that ends within this time of SIGTERM ended for it */
#define ASK_MS 30000 /* for slurmctld to say what became of the job */

bool dlr_policy_is_told(const struct dlr_policy *p)
{
    return p->told.wanted || p->told.over;
}

bool dlr_policy_heeds(const struct dlr_policy *p, int64_t now_ms)
{
    return p->told.wanted || now_ms < p->told.until_ms;
}

/* Tasks of a round that began after it never had it. */
static bool tasks_heed(const struct dlr_policy *p, int64_t now_ms)
{
    return dlr_policy_heeds(p, now_ms) &&
           (p->told.wanted || p->told.next == p->round + 1);
}

/* Its tasks have ended. Nothing of it is tried again, whatever slurmctld says. */
static void settle(struct dlr_policy *p, int64_t now_ms)
{
    p->suspect = false;
    p->told.settling = true;
    p->deadline_ms = now_ms + ASK_MS;
    p->ops.ask_fate(p->arg);
}

bool dlr_policy_told_before(const struct dlr_policy *p, int64_t round)
{
    return p->phase == DLR_PHASE_RUN && round >= 0 && round < p->round;
}

void dlr_policy_told(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                     int64_t now_ms)
{
    p->told.wanted |= wanted;
    p->told.until_ms = now_ms + TOLD_MS;
    if (p->phase == DLR_PHASE_RUN || p->phase == DLR_PHASE_END)
        p->told.next = p->round + 1;
    switch (p->phase) {
    case DLR_PHASE_RUN:
        if (p->suspect && p->ended)
            settle(p, now_ms); /* here is the reason that it waited for */
        else if (p->told.code)
            p->deadline_ms = p->told.until_ms;
        if (wanted && !p->told.settling)
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

/* No agent is told: their step has no such limit. Slurm looks at it twice a minute, and never early. */
static void look_at_limit(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || !p->conf.limit_ms ||
        now_ms - p->launch_ms < p->conf.limit_ms)
        return;
    p->told.limit = true;
    p->told.until_ms = now_ms + TOLD_MS;
    p->told.next = p->round + 1;
}

bool dlr_policy_told_step_ended(struct dlr_policy *p, int64_t now_ms)
{
    look_at_limit(p, now_ms);
    if (!tasks_heed(p, now_ms))
        return false;
    settle(p, now_ms);
    return true;
}

bool dlr_policy_told_exit(struct dlr_policy *p, int code, int64_t now_ms)
{
    look_at_limit(p, now_ms);
    if (tasks_heed(p, now_ms)) {
        p->told.code = code;
        if (!p->told.wanted)
            p->deadline_ms = p->told.until_ms;
        return true;
    }
    if (code != 128 + 15 || p->told.code)
        return false;
    p->told.code = code; /* the agents' word may be on its way */
    p->deadline_ms = now_ms + p->conf.suspect_ms;
    return true;
}

bool dlr_policy_told_after_end(struct dlr_policy *p, int64_t now_ms)
{
    if (!p->told.over && p->told.wanted && !p->ended)
        p->exit_code = 128 + 15;
    if (p->told.wanted || (p->cause == DLR_CAUSE_PROGRAM && tasks_heed(p, now_ms)))
        p->told.over = true; /* the word came while it was being ended */
    if (!p->told.over)
        return false;
    dlr_policy_told_over(p, now_ms);
    return true;
}

void dlr_policy_told_over(struct dlr_policy *p, int64_t now_ms)
{
    if (p->told.wanted && p->exit_code == 128 + 9)
        p->exit_code = 128 + 15; /* srun that is told SIGTERM kills its tasks */
    dlr_policy_persist(p, now_ms);
}

bool dlr_policy_told_writing(struct dlr_policy *p)
{
    if (p->told.settling && p->phase == DLR_PHASE_RUN) {
        p->told.wanted = true;
        return true;
    }
    if (p->phase != DLR_PHASE_PERSIST)
        return p->told.over && p->phase == DLR_PHASE_END;
    if (!p->told.over) {
        p->told.over = true;
        p->exit_code = 128 + 15;
        snprintf(p->why, sizeof(p->why), "ended by signal 15 (Terminated)");
    }
    return true;
}

bool dlr_policy_told_persisted(struct dlr_policy *p)
{
    if (!p->told.over || p->told.back)
        return false;
    dlr_policy_finish(p, p->exit_code, p->exit_code || p->told.taken ? p->why : NULL);
    return true;
}
