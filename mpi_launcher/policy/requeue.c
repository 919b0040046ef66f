/* SPDX-License-Identifier: Apache-2.0 */
/* The state is written: the job is requeued, or the run ends. Another run of the job
 * may want the requeue.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

void dlr_policy_persisted(struct dlr_policy *p, int64_t now_ms)
{
    if (p->phase != DLR_PHASE_PERSIST || dlr_policy_sigterm_persisted(p))
        return;
    if (p->failed) {
        dlr_policy_finish(p, p->exit_code, p->failed_why);
        return;
    }
    dlr_policy_enter(p, DLR_PHASE_REQUEUE, now_ms, p->conf.requeue_timeout_ms);
    p->ops.requeue(p->arg, p->why);
}

void dlr_policy_requeue_failed(struct dlr_policy *p, const char *why)
{
    char text[640];

    if (p->phase != DLR_PHASE_REQUEUE)
        return;
    snprintf(text, sizeof(text), "%s, and the job could not be requeued: %s", p->why,
             why);
    dlr_policy_finish(p, 1, text);
}

void dlr_policy_requeue_with_job(struct dlr_policy *p, int64_t now_ms)
{
    if (p->requeues_with_job)
        return;
    p->requeues_with_job = true;
    if (p->phase == DLR_PHASE_RUN) {
        dlr_policy_end_round(p, DLR_CAUSE_CONTROL,
                             "another run of the job needs the requeue", now_ms);
    } else if (p->phase == DLR_PHASE_RENDEZVOUS) {
        p->ops.stop_rendezvous(p->arg);
        dlr_policy_rendezvous(p, now_ms);
    } else if (p->phase == DLR_PHASE_PREPARE) {
        dlr_policy_rendezvous(p, now_ms);
    }
}

void dlr_policy_requeue_cancel(struct dlr_policy *p, int64_t now_ms)
{
    p->requeues_with_job = false;
    if (p->phase == DLR_PHASE_REQUEUE)
        dlr_policy_rendezvous(p, now_ms);
}

void dlr_policy_requeue_limit(struct dlr_policy *p, int64_t deadline_ms)
{
    if (p->phase == DLR_PHASE_REQUEUE)
        p->deadline_ms = deadline_ms;
}
