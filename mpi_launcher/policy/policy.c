/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a run, by phase: nodes die, the rendezvous and the preparation end,
 * tasks end, a signal comes, a limit is over.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/policy/state.h"

void dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                          int64_t now_ms)
{
    bool member = p->nodes[node].member;

    if (p->nodes[node].state == NODE_DEAD)
        return;
    p->nodes[node].state = NODE_DEAD;
    p->nodes[node].processes_left = false;
    switch (p->phase) {
    case DLR_PHASE_AGENTS:
        if (dlr_policy_count(p, NODE_UNSEEN) == 0)
            dlr_policy_assembled(p, now_ms);
        break;
    case DLR_PHASE_RENDEZVOUS:
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_rendezvous(p, now_ms);
        break;
    case DLR_PHASE_PREPARE:
        if (member)
            dlr_policy_rendezvous(p, now_ms);
        break;
    case DLR_PHASE_RUN:
        if (member)
            dlr_policy_end_round(p, DLR_CAUSE_NODE, why, now_ms);
        break;
    case DLR_PHASE_END:
        if (member)
            dlr_policy_explain(p, DLR_CAUSE_NODE, why);
        dlr_policy_check_clean(p, now_ms);
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
    dlr_policy_rendezvous(p, now_ms);
}

void dlr_policy_give_up(struct dlr_policy *p, const char *why)
{
    if (p->phase == DLR_PHASE_RENDEZVOUS)
        dlr_policy_finish(p, p->exit_code ? p->exit_code : 1, why);
}

void dlr_policy_planned(struct dlr_policy *p, int rc, const unsigned char *member,
                        const char *why, int64_t now_ms)
{
    char text[384];

    if (p->phase != DLR_PHASE_RENDEZVOUS)
        return;
    if (rc == -ENOSPC) {
        if (!dlr_policy_await_more(p, now_ms))
            dlr_policy_requeue(p, why, now_ms);
        return;
    }
    if (rc < 0) {
        if (p->failed_rendezvous++ < p->conf.rendezvous_tries) {
            dlr_policy_rendezvous(p, now_ms);
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
        dlr_policy_set_back(p, why,
                            now_ms); /* the next plan does without what failed */
        return;
    }
    p->ended = p->exit_unexplained = p->started = p->stepped = p->killed = false;
    p->launch_ms = now_ms;
    p->exit_code = p->sigterm.code = 0;
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
                            int wait_status, int64_t now_ms)
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
    if (p->phase == DLR_PHASE_RUN && dlr_policy_sigterm_exit(p, code, now_ms)) {
        snprintf(p->sigterm.why, sizeof(p->sigterm.why), "%s", why);
        return;
    }
    p->exit_code = code;
    p->killed = code == 128 + SIGKILL || code == 128 + SIGTERM;
    if (p->phase == DLR_PHASE_RUN)
        dlr_policy_end_round(p, DLR_CAUSE_PROGRAM,
                             p->sigterm.code ? p->sigterm.why : why, now_ms);
    else /* it ended before the one that was told first */
        snprintf(p->why, sizeof(p->why), "%s", why);
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
    p->launch_refused = true;
    p->exit_code = 1;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, why, now_ms);
}

void dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms)
{
    char why[64];

    if (sig == SIGTERM && dlr_policy_sigterm_writing(p))
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

/* --- limits ----------------------------------------------------------------------- */

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
        if (!dlr_policy_sigterm_late(p, now_ms))
            dlr_policy_unexplained(p, now_ms);
        break;
    case DLR_PHASE_END:
        dlr_policy_end_late(p, now_ms);
        break;
    case DLR_PHASE_PERSIST:
        dlr_policy_persisted(p, now_ms);
        break;
    case DLR_PHASE_REQUEUE:
        dlr_policy_requeue_failed(p, "slurmctld did not act in time");
        break;
    case DLR_PHASE_WAIT:
        dlr_policy_finish(
            p, 1, "slurmctld cannot be reached (--dlrover-set=controller-timeout)");
        break;
    case DLR_PHASE_DONE:
        break;
    }
}
