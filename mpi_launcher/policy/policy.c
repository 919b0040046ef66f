/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine is told. Each function keeps the facts that need no rule, and asks
 * the rules (rules.c) what follows.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/policy/guards.h"
#include "mpi_launcher/policy/rules.h"
#include "mpi_launcher/policy/state.h"

/* a program that ends within this time of SIGTERM ended for it */
#define TOLD_MS 600000

static void happens(struct dlr_policy *p, enum dlr_policy_what what, const char *why,
                    int64_t now_ms)
{
    dlr_policy_happens(
        p, &(struct dlr_policy_event){.what = what, .why = why, .now_ms = now_ms});
}

/* Of a round that is over nothing is taken any more. */
static void happens_in(struct dlr_policy *p, uint32_t round, enum dlr_policy_what what,
                       const char *why, int64_t now_ms)
{
    if (round == p->round)
        happens(p, what, why, now_ms);
}

/* --- the start -------------------------------------------------------------------- */

void dlr_policy_start(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_START, NULL, now_ms);
}

void dlr_policy_adopt(struct dlr_policy *p, const unsigned char *member,
                      int64_t launch_ms, int64_t now_ms)
{
    dlr_policy_happens(p, &(struct dlr_policy_event){.what = DLR_EVENT_ADOPT,
                                                     .member = member,
                                                     .launch_ms = launch_ms,
                                                     .now_ms = now_ms});
}

void dlr_policy_adopt_failed(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    happens(p, DLR_EVENT_ADOPT_FAILED, why, now_ms);
}

/* --- nodes ------------------------------------------------------------------------ */

void dlr_policy_node_up(struct dlr_policy *p, unsigned node, int64_t now_ms)
{
    p->nodes[node].state = NODE_UP;
    happens(p, DLR_EVENT_NODE_UP, NULL, now_ms);
}

void dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                          int64_t now_ms)
{
    if (p->nodes[node].state == NODE_DEAD)
        return;
    p->nodes[node].state = NODE_DEAD;
    p->nodes[node].processes_left = false;
    dlr_policy_happens(p, &(struct dlr_policy_event){.what = DLR_EVENT_NODE_DEAD,
                                                     .node = node,
                                                     .why = why,
                                                     .now_ms = now_ms});
}

void dlr_policy_agents_gone(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_AGENTS_GONE, NULL, now_ms);
}

/* --- rendezvous and preparation --------------------------------------------------- */

void dlr_policy_hold(struct dlr_policy *p, int64_t now_ms, int64_t limit_ms)
{
    dlr_policy_happens(p, &(struct dlr_policy_event){.what = DLR_EVENT_HOLD,
                                                     .limit_ms = limit_ms,
                                                     .now_ms = now_ms});
}

void dlr_policy_replan(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_REPLAN, NULL, now_ms);
}

void dlr_policy_give_up(struct dlr_policy *p, const char *why)
{
    happens(p, DLR_EVENT_GIVE_UP, why, 0);
}

void dlr_policy_starves(struct dlr_policy *p, const char *why)
{
    happens(p, DLR_EVENT_STARVES, why, 0);
}

void dlr_policy_planned(struct dlr_policy *p, int rc, const unsigned char *member,
                        const char *why, int64_t now_ms)
{
    struct dlr_policy_event e = {.what = rc == -ENOSPC ? DLR_EVENT_TOO_FEW
                                         : rc < 0      ? DLR_EVENT_NOT_MET
                                                       : DLR_EVENT_PLANNED,
                                 .member = member,
                                 .why = why,
                                 .now_ms = now_ms};

    dlr_policy_happens(p, &e);
}

void dlr_policy_prepared(struct dlr_policy *p, int rc, const char *why, int64_t now_ms)
{
    happens(p, rc < 0 ? DLR_EVENT_COPIES_FAILED : DLR_EVENT_PREPARED, why, now_ms);
}

/* --- while the user's step runs --------------------------------------------------- */

/* No agent is told of the step's time limit. Slurm looks at it twice a minute, and
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

void dlr_policy_started(struct dlr_policy *p, uint32_t round)
{
    happens_in(p, round, DLR_EVENT_STARTED, NULL, 0);
}

void dlr_policy_queued(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_QUEUED, NULL, now_ms);
}

void dlr_policy_launch_late(struct dlr_policy *p, uint32_t round, const char *why,
                            int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_LAUNCH_LATE, why, now_ms);
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
    dlr_restart_budget_progress(&p->fruitless);
}

static int exit_code_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

/* Of a task that was killed nobody knows what it wanted: Slurm ends a step, and we a
 * round, by signals.
 */
bool dlr_policy_stops(const struct dlr_policy *p, int wait_status)
{
    return WIFEXITED(wait_status) && dlr_policy_stops_at(p, WEXITSTATUS(wait_status));
}

void dlr_policy_worker_exit(struct dlr_policy *p, uint32_t round, int rank,
                            int wait_status, int64_t now_ms)
{
    char why[128];
    struct dlr_policy_event e = {.what = DLR_EVENT_TASK_FAILED,
                                 .code = exit_code_of(wait_status),
                                 .stops = dlr_policy_stops(p, wait_status),
                                 .why = why,
                                 .now_ms = now_ms};

    if (round != p->round || e.code == 0 || p->conf.tolerant)
        return;
    if (WIFSIGNALED(wait_status))
        snprintf(why, sizeof(why), "rank %d was killed by signal %d (%s)", rank,
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(why, sizeof(why), "rank %d exited with code %d", rank, e.code);
    look_at_limit(p, now_ms);
    dlr_policy_happens(p, &e);
}

void dlr_policy_hang(struct dlr_policy *p, uint32_t round, const char *why,
                     const char *place, int64_t now_ms)
{
    const struct dlr_policy_event e = {
        .what = DLR_EVENT_HANG, .why = why, .place = place, .now_ms = now_ms};

    if (round == p->round)
        dlr_policy_happens(p, &e);
}

void dlr_policy_restore_failed(struct dlr_policy *p, uint32_t round, const char *why,
                               int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_RESTORE_FAILED, why, now_ms);
}

void dlr_policy_restore_refused(struct dlr_policy *p, uint32_t round, const char *why,
                                int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_RESTORE_REFUSED, why, now_ms);
}

void dlr_policy_lease_expired(struct dlr_policy *p, uint32_t round, const char *why,
                              int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_LEASE_EXPIRED, why, now_ms);
}

void dlr_policy_watch_lost(struct dlr_policy *p, uint32_t round, const char *why,
                           int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_WATCH_LOST, why, now_ms);
}

void dlr_policy_step_lost(struct dlr_policy *p, uint32_t round, const char *why,
                          int64_t now_ms)
{
    happens_in(p, round, DLR_EVENT_STEPD_LOST, why, now_ms);
}

static void step_ended(struct dlr_policy *p, uint32_t round, int code, bool early,
                       int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || round != p->round)
        return;
    p->ended = true;
    p->ended_early = early;
    p->exit_code = code;
    look_at_limit(p, now_ms);
    happens(p, DLR_EVENT_STEP_ENDED, NULL, now_ms);
}

void dlr_policy_step_ended(struct dlr_policy *p, uint32_t round, int code,
                           int64_t now_ms)
{
    step_ended(p, round, code, false, now_ms);
}

void dlr_policy_step_ended_early(struct dlr_policy *p, uint32_t round, int64_t now_ms)
{
    step_ended(p, round, 0, true, now_ms);
}

void dlr_policy_clean(struct dlr_policy *p, unsigned node, uint32_t round,
                      int64_t now_ms)
{
    if (round != p->round)
        return;
    p->nodes[node].processes_left = false;
    /* of many nodes the word of the last one counts */
    if (dlr_policy_if_nothing_is_left(p, NULL))
        happens(p, DLR_EVENT_CLEAN, NULL, now_ms);
}

/* --- signals ---------------------------------------------------------------------- */

void dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms)
{
    char why[64];
    struct dlr_policy_event e = {
        .what = DLR_EVENT_SIGNAL, .code = sig, .why = why, .now_ms = now_ms};

    snprintf(why, sizeof(why), "ended by signal %d (%s)", sig, strsignal(sig));
    dlr_policy_happens(p, &e);
}

bool dlr_policy_has_sigterm(const struct dlr_policy *p)
{
    return p->sigterm.wanted || p->sigterm.over;
}

bool dlr_policy_sigterm_before(const struct dlr_policy *p, int64_t round)
{
    return p->phase == DLR_PHASE_RUN && round >= 0 && round < p->round;
}

void dlr_policy_sigterm(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                        int64_t now_ms)
{
    p->sigterm.wanted |= wanted;
    p->sigterm.warning = 0;
    p->sigterm.until_ms = now_ms + TOLD_MS;
    if (p->phase == DLR_PHASE_RUN || p->phase == DLR_PHASE_END)
        p->sigterm.next = p->round + 1;
    dlr_policy_happens(p, &(struct dlr_policy_event){.what = DLR_EVENT_SIGTERM,
                                                     .wanted = wanted,
                                                     .limit_ms = limit_ms,
                                                     .now_ms = now_ms});
}

void dlr_policy_warning_asked(struct dlr_policy *p)
{
    p->sigterm.asked = true;
}

void dlr_policy_warned(struct dlr_policy *p, int sig, int64_t now_ms)
{
    p->sigterm.asked = false;
    if (!sig || (dlr_policy_tasks_heed(p, now_ms) && !p->sigterm.warning))
        return; /* it was for nothing, or they have SIGTERM */
    dlr_policy_sigterm(p, false, 0, now_ms);
    p->sigterm.warning = sig;
}

void dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    dlr_policy_happens(p, &(struct dlr_policy_event){
                              .what = DLR_EVENT_FATE, .fate = fate, .now_ms = now_ms});
}

/* --- the state is written, the job requeued --------------------------------------- */

void dlr_policy_persisted(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_PERSISTED, NULL, now_ms);
}

void dlr_policy_requeue_failed(struct dlr_policy *p, const char *why)
{
    happens(p, DLR_EVENT_REQUEUE_FAILED, why, 0);
}

void dlr_policy_requeue_with_job(struct dlr_policy *p, int64_t now_ms)
{
    if (p->requeues_with_job)
        return;
    p->requeues_with_job = true;
    happens(p, DLR_EVENT_REQUEUE_WITH_JOB, NULL, now_ms);
}

void dlr_policy_requeue_cancel(struct dlr_policy *p, int64_t now_ms)
{
    p->requeues_with_job = false;
    happens(p, DLR_EVENT_REQUEUE_CANCEL, NULL, now_ms);
}

void dlr_policy_requeue_limit(struct dlr_policy *p, int64_t deadline_ms)
{
    if (p->phase == DLR_PHASE_REQUEUE)
        p->deadline_ms = deadline_ms;
}

/* --- slurmctld -------------------------------------------------------------------- */

void dlr_policy_controller_away(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    happens(p, DLR_EVENT_CONTROLLER_AWAY, why, now_ms);
}

void dlr_policy_controller_back(struct dlr_policy *p, int64_t now_ms)
{
    happens(p, DLR_EVENT_CONTROLLER_BACK, NULL, now_ms);
}

/* --- limits ----------------------------------------------------------------------- */

void dlr_policy_tick(struct dlr_policy *p, int64_t now_ms)
{
    static const char *const whys[] = {
        [DLR_PHASE_RENDEZVOUS] = "it took too long",
        [DLR_PHASE_PREPARE] = "copies took too long",
        [DLR_PHASE_REQUEUE] = "slurmctld did not act in time",
        [DLR_PHASE_DONE] = NULL,
    };

    if (now_ms < p->deadline_ms)
        return;
    p->deadline_ms = INT64_MAX;
    happens(p, DLR_EVENT_LIMIT, whys[p->phase], now_ms);
}
