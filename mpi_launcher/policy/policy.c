/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/policy/state.h"

/* Every setback strikes a copy off or spares it for the only time (mpi_launcher/supervisor/copies/transfer_retry.c), so they end by
 * themselves; this ends a bug's loop.
 */
#define MAX_SETBACKS 16

void dlr_policy_enter(struct dlr_policy *p, enum dlr_phase phase, int64_t now_ms,
                      int64_t limit_ms)
{
    (void)dlr_restart_budget_spent(&p->restarts, now_ms); /* none of long ago is told */
    p->phase = phase;
    p->deadline_ms = limit_ms < 0 ? INT64_MAX : now_ms + limit_ms;
}

void dlr_policy_finish(struct dlr_policy *p, int code, const char *why)
{
    p->phase = DLR_PHASE_DONE;
    p->deadline_ms = INT64_MAX;
    p->ops.finish(p->arg, code, why);
}

/* As many places as nodes are left: fewer where the user allowed it, more when some are back. */
static int fit_places(struct dlr_policy *p, char *why, size_t size)
{
    unsigned up = dlr_policy_count(p, NODE_UP);
    unsigned n = up < p->conf.nplaces ? up : p->conf.nplaces;

    if (n < p->conf.min_places) {
        snprintf(why, size, "%u nodes are left and %u are needed", up,
                 p->conf.min_places);
        return -ENOSPC;
    }
    if (n == p->places)
        return 0;
    if (p->ops.resize(p->arg, n) < 0) {
        snprintf(why, size, "%u nodes are left, and the step cannot be made for them",
                 up);
        return n > p->places ? 0 : -ENOSPC; /* as few as before are still enough */
    }
    p->places = n;
    return 0;
}

void dlr_policy_meet(struct dlr_policy *p, int64_t now_ms)
{
    char why[128];

    if (p->leaving) {
        dlr_policy_give_back(p, "another run of the job needs the requeue", now_ms);
        return;
    }
    if (fit_places(p, why, sizeof(why)) < 0) {
        if (dlr_policy_await_more(p, now_ms))
            return;
        dlr_policy_give_back(p, why, now_ms);
        return;
    }
    dlr_policy_enter(p, DLR_PHASE_RENDEZVOUS, now_ms, p->conf.rendezvous_timeout_ms);
    p->ops.rendezvous(p->arg, p->failed_rendezvous < p->conf.rendezvous_tries);
    if (dlr_policy_heeds(p, now_ms))
        p->ops.ask_fate(p->arg); /* a job that ends starts nothing */
}

void dlr_policy_call_agents(struct dlr_policy *p, int64_t now_ms)
{
    if (!dlr_restart_budget_spent(&p->agent_starts, now_ms))
        p->agent_starts.from_ms = now_ms;
    p->agent_starts.spent++;
    p->awaits = false;
    dlr_policy_enter(p, DLR_PHASE_AGENTS, now_ms, p->conf.agent_timeout_ms);
    p->ops.start_agents(p->arg);
}

void dlr_policy_start(struct dlr_policy *p, int64_t now_ms)
{
    if (!p->unclean && p->conf.start_timeout_ms)
        dlr_policy_first_start(p, now_ms);
    dlr_policy_call_agents(p, now_ms);
}

/* The agents are there, or late. A round whose end nobody has seen is ended first. */
void dlr_policy_assembled(struct dlr_policy *p, int64_t now_ms)
{
    char why[sizeof(p->why)];

    if (!dlr_policy_count(p, NODE_UP)) {
        dlr_policy_finish(p, 1,
                          "no agent has reported in time "
                          "(--dlrover-set=agent-timeout); agents.log in "
                          "the job's state directory may say why");
        return;
    }
    if (!p->unclean) {
        dlr_policy_meet(p, now_ms);
        return;
    }
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = p->nodes[i].state == NODE_UP;
    memcpy(why, p->why, sizeof(why));
    dlr_policy_end_round(p, p->cause, why, now_ms);
}

void dlr_policy_node_up(struct dlr_policy *p, unsigned node, int64_t now_ms)
{
    p->nodes[node].state = NODE_UP;
    if (p->phase == DLR_PHASE_AGENTS)
        dlr_policy_look_for_late(p, now_ms);
}

/* --- the end of a round ---------------------------------------------------------- */

static void set_back(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    char text[384];

    if (++p->setbacks > MAX_SETBACKS) {
        snprintf(text, sizeof(text),
                 "no copy could be used %u times in a row, last: %s", p->setbacks, why);
        dlr_policy_finish(p, 1, text);
        return;
    }
    dlr_policy_meet(p, now_ms);
}

void dlr_policy_wait(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    dlr_policy_enter(p, DLR_PHASE_WAIT, now_ms, p->conf.controller_timeout_ms);
    p->ops.wait_controller(p->arg, why);
}

/* Whether the failure is the last. */
static bool give_up(struct dlr_policy *p, int64_t now_ms)
{
    struct dlr_restart_budget_failure f = dlr_policy_failed_how(p);
    enum dlr_restart_budget_next next =
        dlr_restart_budget_failed(&p->restarts, &f, now_ms);
    char why[512];

    if (next == DLR_RESTART_AGAIN)
        return false;
    if (next == DLR_RESTART_SPENT)
        snprintf(why, sizeof(why),
                 "given up after %u restarts (--dlrover-max-restarts): %s",
                 p->conf.max_restarts, p->why);
    else
        snprintf(why, sizeof(why), "%s, as before%s: not tried again", p->why,
                 next == DLR_RESTART_START ? " at its start"
                                           : ", after as long a time");
    dlr_policy_fail(p, p->exit_code ? p->exit_code : 1, why, now_ms);
    return true;
}

static void after_end(struct dlr_policy *p, int64_t now_ms)
{
    p->failed_rendezvous = 0;
    if (dlr_policy_told_after_end(p, now_ms))
        return;
    if (p->cause == DLR_CAUSE_PROGRAM && dlr_policy_ended_well(p) && p->started) {
        dlr_policy_finish(p, 0, NULL); /* the word of its tasks was late */
        return;
    }
    if (p->away && p->cause != DLR_CAUSE_SIGNAL) {
        p->away = false;
        dlr_policy_wait(p, p->why, now_ms);
        return;
    }
    if (p->cause == DLR_CAUSE_RESTORE) {
        set_back(p, p->why, now_ms);
        return;
    }
    p->setbacks = 0;
    if (p->cause == DLR_CAUSE_SIGNAL) {
        dlr_policy_finish(p, p->exit_code, p->why);
        return;
    }
    if (p->cause == DLR_CAUSE_PROGRAM && p->refused) {
        dlr_policy_finish(p, p->exit_code ? p->exit_code : 1, p->why);
        return;
    }
    p->refused = false;
    if (p->cause != DLR_CAUSE_PROGRAM || !give_up(p, now_ms))
        dlr_policy_meet(p, now_ms);
}

static void check_clean(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_END)
        return;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UP && p->nodes[i].dirty)
            return;
    after_end(p, now_ms);
}

/* The first reason ends the round; a node's death found later explains the failures that it
 * caused, so it takes the place of a failure of the program.
 */
void dlr_policy_end_round(struct dlr_policy *p, enum dlr_cause cause, const char *why,
                          int64_t now_ms)
{
    p->suspect = p->unclean = false;
    p->failed_ms = now_ms;
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].dirty = p->nodes[i].member && p->nodes[i].state == NODE_UP;
    dlr_policy_enter(p, DLR_PHASE_END, now_ms, p->conf.end_timeout_ms);
    p->ops.end_round(p->arg, p->round, cause, why);
    check_clean(p, now_ms);
}

void dlr_policy_clean(struct dlr_policy *p, unsigned node, uint32_t round,
                      int64_t now_ms)
{
    if (round != p->round)
        return;
    p->nodes[node].dirty = false;
    check_clean(p, now_ms);
}

void dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                          int64_t now_ms)
{
    bool member = p->nodes[node].member;

    if (p->nodes[node].state == NODE_DEAD)
        return;
    p->nodes[node].state = NODE_DEAD;
    p->nodes[node].dirty = false;
    switch (p->phase) {
    case DLR_PHASE_AGENTS:
        if (dlr_policy_count(p, NODE_UNSEEN) == 0)
            dlr_policy_assembled(p, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_meet(p, now_ms);
        break;
    case DLR_PHASE_PREPARE:
        if (member)
            dlr_policy_meet(p, now_ms);
        break;
    case DLR_PHASE_RUN:
        if (member)
            dlr_policy_end_round(p, DLR_CAUSE_NODE, why, now_ms);
        break;
    case DLR_PHASE_END:
        if (member && p->cause == DLR_CAUSE_PROGRAM) {
            p->cause = DLR_CAUSE_NODE;
            snprintf(p->why, sizeof(p->why), "%s", why);
        }
        check_clean(p, now_ms);
        break;
    default:
        break;
    }
}

/* --- rendezvous and preparation -------------------------------------------------- */

void dlr_policy_hold(struct dlr_policy *p, int64_t now_ms, int64_t limit_ms)
{
    if (p->phase == DLR_PHASE_RENDEZVOUS)
        dlr_policy_enter(p, DLR_PHASE_RENDEZVOUS, now_ms, limit_ms);
}

void dlr_policy_replan(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RENDEZVOUS)
        return;
    p->failed_rendezvous = 0;
    dlr_policy_meet(p, now_ms);
}

void dlr_policy_planned(struct dlr_policy *p, int rc, const unsigned char *member,
                        const char *why, int64_t now_ms)
{
    char text[384];

    if (p->phase != DLR_PHASE_RENDEZVOUS)
        return;
    if (rc == -ENOSPC) {
        if (!dlr_policy_await_more(p, now_ms))
            dlr_policy_give_back(p, why, now_ms);
        return;
    }
    if (rc < 0) {
        if (p->failed_rendezvous++ < p->conf.rendezvous_tries) {
            dlr_policy_meet(p, now_ms);
            return;
        }
        snprintf(text, sizeof(text), "no rendezvous: %s", why);
        dlr_policy_finish(p, 1, text);
        return;
    }
    p->failed_rendezvous = 0;
    p->round = p->next_round++;
    p->begun = true;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = member[i];
    dlr_policy_enter(p, DLR_PHASE_PREPARE, now_ms, p->conf.transfer_timeout_ms);
    p->ops.prepare(p->arg, p->round);
}

void dlr_policy_prepared(struct dlr_policy *p, int rc, const char *why, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_PREPARE)
        return;
    if (rc < 0) {
        set_back(p, why, now_ms); /* the next plan does without what failed */
        return;
    }
    p->ended = p->suspect = p->started = p->stepped = p->killed = false;
    p->launch_ms = now_ms;
    p->exit_code = p->told.code = 0;
    dlr_policy_enter(p, DLR_PHASE_RUN, now_ms, -1);
    p->ops.launch(p->arg, p->round);
}

/* --- while the user's step runs -------------------------------------------------- */

static int exit_code_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

void dlr_policy_worker_exit(struct dlr_policy *p, uint32_t round, int rank,
                            unsigned node, int wait_status, int64_t now_ms)
{
    char why[128];
    int code = exit_code_of(wait_status);

    if (round != p->round || code == 0 || p->conf.tolerant)
        return;
    if (p->phase != DLR_PHASE_RUN &&
        (p->phase != DLR_PHASE_END || p->cause != DLR_CAUSE_PROGRAM))
        return;
    if (WIFSIGNALED(wait_status))
        snprintf(why, sizeof(why), "rank %d was killed by signal %d (%s)", rank,
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(why, sizeof(why), "rank %d exited with code %d", rank, code);
    if (p->phase == DLR_PHASE_RUN && dlr_policy_told_exit(p, code, now_ms)) {
        snprintf(p->told.why, sizeof(p->told.why), "%s", why);
        return;
    }
    p->exit_code = code;
    p->killed = code == 128 + SIGKILL || code == 128 + SIGTERM;
    if (p->phase == DLR_PHASE_RUN)
        dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, p->told.code ? p->told.why : why,
                             now_ms);
    else /* it ended before the one that was told first */
        snprintf(p->why, sizeof(p->why), "%s", why);
}

/* Like a node's death, it explains the failures that it caused. */
void dlr_policy_lapsed(struct dlr_policy *p, uint32_t round, const char *why,
                       int64_t now_ms)
{
    if (round != p->round)
        return;
    if (p->phase == DLR_PHASE_RUN)
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL, why, now_ms);
    else if (p->phase == DLR_PHASE_END && p->cause == DLR_CAUSE_PROGRAM) {
        p->cause = DLR_CAUSE_CONTROL;
        snprintf(p->why, sizeof(p->why), "%s", why);
    }
}

void dlr_policy_restore_failed(struct dlr_policy *p, uint32_t round, const char *why,
                               int64_t now_ms)
{
    if (p->phase == DLR_PHASE_RUN && round == p->round)
        dlr_policy_end_round(p, DLR_CAUSE_RESTORE, why, now_ms);
}

void dlr_policy_restore_refused(struct dlr_policy *p, uint32_t round, const char *why,
                                int64_t now_ms)
{
    if (p->phase != DLR_PHASE_RUN || round != p->round)
        return;
    p->refused = true;
    p->exit_code = 1;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, now_ms);
}

void dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms)
{
    char why[64];

    if (sig == SIGTERM && dlr_policy_told_writing(p))
        return;
    snprintf(why, sizeof(why), "ended by signal %d (%s)", sig, strsignal(sig));
    p->exit_code = 128 + sig;
    switch (p->phase) {
    case DLR_PHASE_RUN:
        dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, why, now_ms);
        break;
    case DLR_PHASE_END:
        p->cause = DLR_CAUSE_SIGNAL;
        snprintf(p->why, sizeof(p->why), "%s", why);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_finish(p, p->exit_code, why);
        break;
    case DLR_PHASE_DONE:
        break;
    default:
        dlr_policy_finish(p, p->exit_code, why);
    }
}

/* --- limits ------------------------------------------------------------------------ */

static void end_late(struct dlr_policy *p, int64_t now_ms)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].dirty)
            p->nodes[i].state =
                NODE_DEAD; /* its processes did not go: not fit to be used */
    after_end(p, now_ms);
}

void dlr_policy_tick(struct dlr_policy *p, int64_t now_ms)
{
    if (now_ms < p->deadline_ms)
        return;
    p->deadline_ms = INT64_MAX;
    switch (p->phase) {
    case DLR_PHASE_AGENTS:
        dlr_policy_agents_late(p, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_planned(p, -ETIMEDOUT, NULL, "it took too long", now_ms);
        break;
    case DLR_PHASE_PREPARE:
        dlr_policy_prepared(p, -ETIMEDOUT, "copies took too long", now_ms);
        break;
    case DLR_PHASE_RUN:
        if (!dlr_policy_told_late(p, now_ms))
            dlr_policy_unexplained(p, now_ms);
        break;
    case DLR_PHASE_END:
        end_late(p, now_ms);
        break;
    case DLR_PHASE_PERSIST:
        dlr_policy_persisted(p, now_ms);
        break;
    case DLR_PHASE_REQUEUE:
        dlr_policy_requeue_failed(p, "slurmctld did not act in time", now_ms);
        break;
    case DLR_PHASE_WAIT:
        dlr_policy_finish(
            p, 1, "slurmctld cannot be reached (--dlrover-set=controller-timeout)");
        break;
    case DLR_PHASE_DONE:
        break;
    }
}
