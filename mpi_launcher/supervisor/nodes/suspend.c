/* SPDX-License-Identifier: Apache-2.0 */
/* A job that Slurm suspends: agents tell it before they are stopped. Until they are
 * awake again the supervisor's clock stands still, so nobody is judged and no limit
 * runs out, and every lease is held: nothing is restarted, and nobody is killed for
 * having been stopped.
 */
#include "mpi_launcher/supervisor/nodes/suspend.h"

#include "common/base/clock.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

#define WAKE_MS 10000 /* from the first node that is awake to the last */

/* The process's one clock, as everybody's dlr_sup_now() is. */
static struct {
    int64_t lost_ms;  /* how long it has stood still in all */
    int64_t since_ms; /* it stands still since; 0: it does not */
} stopped;

int64_t dlr_sup_now(void)
{
    return (stopped.since_ms ? stopped.since_ms : dlr_now_ms()) - stopped.lost_ms;
}

bool dlr_sup_is_held(void)
{
    return stopped.since_ms != 0;
}

void dlr_sup_suspend(struct dlr_sup_nodes *nodes, unsigned node)
{
    nodes->members.list[node].asleep = true;
    nodes->awake_ms = 0;
    if (dlr_sup_is_held())
        return;
    stopped.since_ms = dlr_now_ms();
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "suspended", "s:s", "node",
                     nodes->members.list[node].node.name);
}

void dlr_sup_awake(struct dlr_sup_nodes *nodes, unsigned node)
{
    nodes->members.list[node].asleep = false;
    if (!nodes->awake_ms)
        nodes->awake_ms = dlr_now_ms();
}

static bool anybody_asleep(const struct dlr_sup_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->members.n; i++)
        if (nodes->members.list[i].here && nodes->members.list[i].asleep)
            return true;
    return false;
}

/* All begin anew: their silence so far, and ours, does not count. */
void dlr_sup_end_hold(struct dlr_sup_nodes *nodes)
{
    int64_t held_ms, now = dlr_now_ms();

    if (!dlr_sup_is_held())
        return;
    if (anybody_asleep(nodes) && (!nodes->awake_ms || now - nodes->awake_ms < WAKE_MS))
        return;
    held_ms = now - stopped.since_ms;
    stopped.lost_ms += held_ms;
    stopped.since_ms = 0;
    for (unsigned i = 0; i < nodes->members.n; i++) {
        nodes->members.list[i].asleep = false;
        nodes->members.list[i].heard_ms = dlr_sup_now();
    }
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "resumed", "s:I", "held_ms",
                     (json_int_t)held_ms);
}
