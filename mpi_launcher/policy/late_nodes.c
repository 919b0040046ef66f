/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose agents are late when a job starts: a prolog may take minutes there. They
 * are neither up nor dead; a round begins without them as soon as the others are
 * enough, else it waits.
 */
#include "mpi_launcher/policy/state.h"

void dlr_policy_first_start(struct dlr_policy *p, int64_t now_ms)
{
    p->late_ms = now_ms + p->conf.start_timeout_ms;
    p->enough = p->conf.nplaces;
}

bool dlr_policy_may_come(const struct dlr_policy *p, int64_t now_ms)
{
    return now_ms < p->late_ms && dlr_policy_count(p, NODE_UNSEEN);
}

void dlr_policy_await_late(struct dlr_policy *p, int64_t now_ms)
{
    p->awaits = true;
    dlr_policy_enter(p, DLR_PHASE_AGENTS, now_ms, p->late_ms - now_ms);
    p->ops.late(p->arg, dlr_policy_count(p, NODE_UNSEEN));
}

bool dlr_policy_await_more(struct dlr_policy *p, int64_t now_ms)
{
    if (!dlr_policy_may_come(p, now_ms))
        return false;
    p->enough = dlr_policy_count(p, NODE_UP) + 1;
    dlr_policy_await_late(p, now_ms);
    return true;
}
