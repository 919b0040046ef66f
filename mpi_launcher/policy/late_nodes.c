/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose agents are late when a job starts: a prolog may take minutes there. They are neither
 * up nor dead; a round begins without them as soon as the others are enough, else it waits.
 */
#include "mpi_launcher/policy/state.h"

/* From enough agents to the round without the others: those that are as quick come along. */
#define SETTLE_MS 5000

void dlr_policy_first_start(struct dlr_policy *p, int64_t now_ms)
{
    p->late_ms = now_ms + p->conf.start_timeout_ms;
    p->enough = p->conf.nplaces;
}

static bool may_come(const struct dlr_policy *p, int64_t now_ms)
{
    return now_ms < p->late_ms && dlr_policy_count(p, NODE_UNSEEN);
}

static void await(struct dlr_policy *p, int64_t now_ms)
{
    p->awaits = true;
    dlr_policy_enter(p, DLR_PHASE_AGENTS, now_ms, p->late_ms - now_ms);
    p->ops.late(p->arg, dlr_policy_count(p, NODE_UNSEEN));
}

bool dlr_policy_await_more(struct dlr_policy *p, int64_t now_ms)
{
    if (!may_come(p, now_ms))
        return false;
    p->enough = dlr_policy_count(p, NODE_UP) + 1;
    await(p, now_ms);
    return true;
}

void dlr_policy_look_for_late(struct dlr_policy *p, int64_t now_ms)
{
    bool some = now_ms < p->late_ms && dlr_policy_count(p, NODE_UP) >= p->enough;

    if (dlr_policy_count(p, NODE_UNSEEN) == 0 || (some && p->awaits))
        dlr_policy_assembled(p, now_ms);
    else if (some && p->deadline_ms > now_ms + SETTLE_MS)
        p->deadline_ms = now_ms + SETTLE_MS;
}

/* On the host of the batch script the prolog is over: no agent there either is another trouble. */
void dlr_policy_agents_late(struct dlr_policy *p, int64_t now_ms)
{
    unsigned up = dlr_policy_count(p, NODE_UP);

    if (may_come(p, now_ms) && up < p->enough && (up || !p->conf.batch)) {
        await(p, now_ms);
        return;
    }
    for (unsigned i = 0; !p->late_ms && i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UNSEEN)
            p->nodes[i].state = NODE_DEAD;
    dlr_policy_assembled(p, now_ms);
}
