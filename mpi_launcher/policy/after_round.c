/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a round, and what comes after it. */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

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
    if (dlr_policy_sigterm_after_end(p, now_ms))
        return;
    if (p->cause == DLR_CAUSE_PROGRAM && dlr_policy_ended_well(p) && p->started) {
        dlr_policy_finish(p, 0, NULL); /* the word of its tasks was late */
        return;
    }
    if (p->controller_down && p->cause != DLR_CAUSE_SIGNAL) {
        p->controller_down = false;
        dlr_policy_wait(p, p->why, now_ms);
        return;
    }
    if (p->cause == DLR_CAUSE_RESTORE) {
        dlr_policy_set_back(p, p->why, now_ms);
        return;
    }
    p->failed_restores = 0;
    if (p->cause == DLR_CAUSE_SIGNAL) {
        dlr_policy_finish(p, p->exit_code, p->why);
        return;
    }
    if (p->cause == DLR_CAUSE_PROGRAM && p->launch_refused) {
        dlr_policy_finish(p, p->exit_code ? p->exit_code : 1, p->why);
        return;
    }
    p->launch_refused = false;
    if (p->cause != DLR_CAUSE_PROGRAM || !give_up(p, now_ms))
        dlr_policy_rendezvous(p, now_ms);
}

void dlr_policy_check_clean(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_END)
        return;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UP && p->nodes[i].processes_left)
            return;
    after_end(p, now_ms);
}

void dlr_policy_end_round(struct dlr_policy *p, enum dlr_cause cause, const char *why,
                          int64_t now_ms)
{
    p->exit_unexplained = p->cleanup_unconfirmed = false;
    p->failed_ms = now_ms;
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].processes_left = p->nodes[i].member && p->nodes[i].state == NODE_UP;
    dlr_policy_enter(p, DLR_PHASE_END, now_ms, p->conf.end_timeout_ms);
    p->ops.end_round(p->arg, p->round, cause, why);
    dlr_policy_check_clean(p, now_ms);
}

void dlr_policy_explain(struct dlr_policy *p, enum dlr_cause cause, const char *why)
{
    if (p->phase != DLR_PHASE_END || p->cause != DLR_CAUSE_PROGRAM)
        return;
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    p->ops.explain(p->arg, p->round, cause, why);
}

void dlr_policy_clean(struct dlr_policy *p, unsigned node, uint32_t round,
                      int64_t now_ms)
{
    if (round != p->round)
        return;
    p->nodes[node].processes_left = false;
    dlr_policy_check_clean(p, now_ms);
}

void dlr_policy_end_late(struct dlr_policy *p, int64_t now_ms)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].processes_left)
            p->nodes[i].state =
                NODE_DEAD; /* its processes did not go: not fit to be used */
    after_end(p, now_ms);
}
