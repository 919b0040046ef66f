/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm suspends a job (scontrol suspend, gang scheduling) with SIGTSTP to every
 * process of every step, and SIGSTOP two seconds later: time to ask the supervisor to
 * hold the lease. What is stopped without that word is a frozen node, and ends like
 * one.
 */
#include "mpi_launcher/agent/suspend.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/lease.h"

#define STOP_MS 5000  /* from SIGTSTP to SIGSTOP; then it was somebody else's SIGTSTP */
#define GRACE_MS 5000 /* after SIGCONT, for the supervisor to wake too */

struct dlr_agent_suspend {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    struct dlr_agent_lease *lease;
    bool suspended; /* SIGTSTP came: SIGSTOP follows */
    int timer;      /* -1: off */
};

static void say(struct dlr_agent_suspend *u, const char *what)
{
    dlr_agent_send_supervisor(u->base,
                              json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                        what, "round", (json_int_t)u->round->round));
    dlr_agent_lease_beat(
        u->lease); /* its answer is the hold, or the first lease after it */
}

static int not_stopped(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_suspend *u = arg;

    u->timer = -1;
    dlr_agent_suspend_awake(u);
    return 0;
}

void dlr_agent_suspend(struct dlr_agent_suspend *u)
{
    dlr_debug("%s: the job is about to be suspended", u->self->node);
    u->suspended = true;
    dlr_agent_timer(u->base, &u->timer, STOP_MS, not_stopped, u);
    say(u, "suspend");
}

void dlr_agent_suspend_awake(struct dlr_agent_suspend *u)
{
    if (!u->suspended)
        return;
    u->suspended = false;
    dlr_agent_timer_end(u->base, &u->timer);
    dlr_agent_lease_unhold(u->lease, GRACE_MS);
    say(u, "awake");
}

bool dlr_agent_is_suspended(const struct dlr_agent_suspend *u)
{
    return u->suspended;
}

struct dlr_agent_suspend *dlr_agent_suspend_new(struct dlr_agent_base *base,
                                                const struct dlr_agent_self *self,
                                                const struct dlr_agent_round *round,
                                                struct dlr_agent_lease *lease)
{
    struct dlr_agent_suspend *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->base = base;
    u->self = self;
    u->round = round;
    u->lease = lease;
    u->timer = -1;
    return u;
}

struct dlr_agent_suspend *dlr_agent_suspend_free(struct dlr_agent_suspend *u)
{
    free(u);
    return NULL;
}
