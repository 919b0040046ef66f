/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm suspends a job (scontrol suspend, gang scheduling) with SIGTSTP to every process of
 * every step, and SIGSTOP two seconds later: time to ask the supervisor to hold the lease. What
 * is stopped without that word is a frozen node, and ends like one.
 */
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

#define STOP_MS 5000  /* from SIGTSTP to SIGSTOP; then it was somebody else's SIGTSTP */
#define GRACE_MS 5000 /* after SIGCONT, for the supervisor to wake too */

static void say(struct dlr_agent *a, const char *what)
{
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t", what,
                                     "round", (json_int_t)a->round.round));
    dlr_agent_lease_beat(a); /* its answer is the hold, or the first lease after it */
}

static int not_stopped(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->suspend_timer = -1;
    dlr_agent_suspend_awake(a);
    return 0;
}

void dlr_agent_suspend(struct dlr_agent *a)
{
    dlr_debug("%s: the job is about to be suspended", a->self.node);
    a->suspended = true;
    dlr_agent_timer(a->base, &a->suspend_timer, STOP_MS, not_stopped, a);
    say(a, "suspend");
}

void dlr_agent_suspend_awake(struct dlr_agent *a)
{
    if (!a->suspended)
        return;
    a->suspended = false;
    dlr_agent_timer_end(a->base, &a->suspend_timer);
    dlr_agent_lease_unhold(a, GRACE_MS);
    say(a, "awake");
}
