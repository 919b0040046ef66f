/* SPDX-License-Identifier: Apache-2.0 */
/* The state is written before the allocation is given back, and before a run that has
 * failed for the last time ends.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

void dlr_policy_persist(struct dlr_policy *p, int64_t now_ms)
{
    dlr_policy_enter(p, DLR_PHASE_PERSIST, now_ms, p->conf.persist_timeout_ms);
    p->ops.persist(p->arg);
}

void dlr_policy_requeue(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    snprintf(p->why, sizeof(p->why), "%s", why);
    dlr_policy_persist(p, now_ms);
}

void dlr_policy_fail(struct dlr_policy *p, int code, const char *why, int64_t now_ms)
{
    if (!p->ops.unwritten || !p->ops.unwritten(p->arg)) {
        dlr_policy_finish(p, code, why);
        return;
    }
    p->failed = true;
    p->exit_code = code;
    snprintf(p->failed_why, sizeof(p->failed_why), "%s", why);
    dlr_policy_persist(p, now_ms);
}
