/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a round, its reason, and what comes after it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

#define HANG_CODE 124 /* as of timeout(1) */

/* --- it begins -------------------------------------------------------------------- */

void dlr_policy_end_round(struct dlr_policy *p, enum dlr_cause cause, const char *why,
                          int64_t now_ms)
{
    p->exit_unexplained = p->cleanup_unconfirmed = false;
    p->failed_ms = now_ms;
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    for (unsigned i = 0; i < p->conf.nnodes; i++) {
        p->nodes[i].processes_left = p->nodes[i].member && p->nodes[i].state == NODE_UP;
        p->nodes[i].unheard = p->nodes[i].member && p->nodes[i].state == NODE_UNSEEN;
    }
    p->ops.end_round(p->arg, p->round, cause, why);
}

DLR_ACTION(end_for_the_node)
{
    dlr_policy_end_round(p, DLR_CAUSE_NODE, e->why, e->now_ms);
}

static void note_task(struct dlr_policy *p, const struct dlr_policy_event *e)
{
    p->exit_code = e->code;
    p->killed = e->code == 128 + SIGKILL || e->code == 128 + SIGTERM;
    p->said_stop = e->stops;
}

DLR_ACTION(end_for_the_task)
{
    note_task(p, e);
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM,
                         p->sigterm.code && !e->stops ? p->sigterm.why : e->why,
                         e->now_ms);
}

DLR_ACTION(end_for_the_hang)
{
    p->exit_code = HANG_CODE;
    p->killed = p->said_stop = false;
    snprintf(p->place, sizeof(p->place), "%s", e->place);
    dlr_policy_end_round(p, DLR_CAUSE_HANG, e->why, e->now_ms);
}

DLR_ACTION(end_for_the_copy)
{
    dlr_policy_end_round(p, DLR_CAUSE_RESTORE, e->why, e->now_ms);
}

DLR_ACTION(end_refused)
{
    p->launch_refused = true;
    p->exit_code = 1;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, e->why, e->now_ms);
}

DLR_ACTION(end_for_the_signal)
{
    p->exit_code = 128 + e->code;
    dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, e->why, e->now_ms);
}

/* --- another reason is heard ------------------------------------------------------ */

void dlr_policy_explain(struct dlr_policy *p, enum dlr_cause cause, const char *why)
{
    p->cause = cause;
    snprintf(p->why, sizeof(p->why), "%s", why);
    p->ops.explain(p->arg, p->round, cause, why);
}

DLR_ACTION(explain_by_the_node)
{
    dlr_policy_explain(p, DLR_CAUSE_NODE, e->why);
}

DLR_ACTION(explain_by_the_copy)
{
    dlr_policy_explain(p, DLR_CAUSE_RESTORE, e->why);
}

/* It ended before the one that was told first, or says that the run is to stop. */
DLR_ACTION(name_the_first_task)
{
    note_task(p, e);
    snprintf(p->why, sizeof(p->why), "%s", e->why);
}

DLR_ACTION(name_the_signal)
{
    p->exit_code = 128 + e->code;
    p->cause = DLR_CAUSE_SIGNAL;
    snprintf(p->why, sizeof(p->why), "%s", e->why);
}

/* --- it is over ------------------------------------------------------------------- */

DLR_ACTION(give_up_its_nodes)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].processes_left)
            p->nodes[i].state =
                NODE_DEAD; /* its processes did not go: not fit to be used */
}

DLR_ACTION(finish_well)
{
    dlr_policy_finish(p, 0, NULL);
}

DLR_ACTION(finish_for_the_signal)
{
    if (e->what == DLR_EVENT_SIGNAL) {
        p->exit_code = 128 + e->code;
        dlr_policy_finish(p, p->exit_code, e->why);
        return;
    }
    dlr_policy_finish(p, p->exit_code, p->why);
}

DLR_ACTION(stop_and_finish_for_the_signal)
{
    p->ops.stop_rendezvous(p->arg);
    dlr_policy_do_finish_for_the_signal(p, e);
}

DLR_ACTION(finish_refused)
{
    dlr_policy_finish(p, p->exit_code ? p->exit_code : 1, p->why);
}

/* --- is it the last failure? ------------------------------------------------------ */

static void forget_what_failed_before(struct dlr_policy *p)
{
    p->failed_rendezvous = p->failed_restores = 0;
    p->launch_refused = false;
}

DLR_ACTION(forget_the_failure)
{
    forget_what_failed_before(p);
}

DLR_ACTION(ask_the_budget)
{
    struct dlr_restart_budget_failure f = dlr_policy_failed_how(p);

    forget_what_failed_before(p);
    p->verdict = dlr_restart_budget_failed(&p->restarts, &f, e->now_ms);
}

DLR_ACTION(note_the_last_failure)
{
    if (!p->exit_code)
        p->exit_code = 1;
    if (p->verdict == DLR_RESTART_SPENT)
        snprintf(p->failed_why, sizeof(p->failed_why),
                 "given up after %u restarts (--dlrover-max-restarts): %s",
                 p->conf.max_restarts, p->why);
    else
        snprintf(p->failed_why, sizeof(p->failed_why),
                 "%s, as before%s: not tried again", p->why,
                 p->verdict == DLR_RESTART_START ? " at its start"
                                                 : ", after as long a time");
}

/* The user wants it so (--dlrover-on). */
DLR_ACTION(note_it_stops)
{
    if (!p->exit_code)
        p->exit_code = 1;
    snprintf(p->failed_why, sizeof(p->failed_why), "%s: the run stops (--dlrover-on)",
             p->why);
}
