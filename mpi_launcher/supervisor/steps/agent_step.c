/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' step, from its start to its end. */
#include "mpi_launcher/supervisor/steps/agent_step.h"

#include <signal.h>
#include <unistd.h>

#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define GONE_BEATS 4 /* missed after the farewell: the agent has ended */

/* --- agents ----------------------------------------------------------------------- */

static int agents_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;

    dlr_sup_unwatch(steps->env.io, steps->agents.pidfd);
    dlr_proc_reap(&steps->agents);
    if (steps->ops->finished(steps->arg))
        return dlr_sup_steps_go_on(steps);
    dlr_user_line(steps->env.io,
                  "the agents ended (see agents.log in the job's state directory)");
    steps->ops->ended(steps->arg);
    dlr_sup_agents_refused(steps);
    for (unsigned i = 0; i < steps->members->n; i++) {
        dlr_sup_node_left(steps->env.nodes, i);
        dlr_sup_peers_went(steps->env.nodes, i);
        steps->ops->left(steps->arg, i);
    }
    if (dlr_policy_phase(steps->policy) == DLR_PHASE_AGENTS)
        dlr_sup_ask_controller(steps, DLR_QUERY_AGENTS, 0, "", 0);
    else
        steps->ops->gone(steps->arg);
    return dlr_sup_steps_go_on(steps);
}

void dlr_sup_agents_watch(struct dlr_sup_steps *steps)
{
    if (steps->agents.pid)
        dlr_sup_watch(steps->env.io, steps->agents.pidfd, agents_ended, steps);
}

bool dlr_sup_agents_start(struct dlr_sup_steps *steps)
{
    struct dlr_err err = {0};

    if (steps->agents.pid || steps->agents_orphaned)
        return false;
    if (dlr_shared_agent_step_start(steps, &err) < 0)
        dlr_user_line(steps->env.io, "cannot start the agents: %s", err.text);
    else
        dlr_sup_agents_watch(steps);
    return true;
}

bool dlr_sup_agents_there(const struct dlr_sup_steps *steps)
{
    return steps->agents.pid != 0;
}

/* --- their end -------------------------------------------------------------------- */

/* Every agent that was here has gone: it said so, or has not beaten for a while. */
static bool have_left(const struct dlr_sup_steps *steps, int64_t now_ms)
{
    int64_t quiet_ms = GONE_BEATS * (int64_t)steps->env.conf->beat.every_ms;

    for (unsigned i = 0; i < steps->members->n; i++)
        if (steps->members->list[i].here &&
            now_ms - steps->members->list[i].heard_ms < quiet_ms)
            return false;
    return true;
}

/* The step is the job's: it goes on, this run has no more to do with it. */
static void part(struct dlr_sup_steps *steps)
{
    if (!steps->agents.pid)
        return;
    dlr_sup_unwatch(steps->env.io, steps->agents.pidfd);
    close(steps->agents.pidfd);
    steps->agents = (struct dlr_proc){.pidfd = -1};
}

void dlr_sup_agents_left(struct dlr_sup_steps *steps, unsigned node)
{
    dlr_sup_node_left(steps->env.nodes, node);
    if (steps->agents_shared && have_left(steps, dlr_sup_now()))
        part(steps);
}

void dlr_sup_agents_shutdown(struct dlr_sup_steps *steps, int64_t deadline_ms)
{
    steps->shutdown_deadline_ms = deadline_ms;
    dlr_shared_agent_step_close(steps);
}

/* A step of our own ends by itself, unless a node is dead: Slurm may not know yet. */
void dlr_sup_agents_wait(struct dlr_sup_steps *steps, int64_t now_ms)
{
    bool lost = false;

    for (unsigned i = 0; i < steps->members->n; i++)
        lost |= dlr_policy_is_lost(steps->policy, i);
    lost |= steps->agents_shared || dlr_sup_rejoin_any(steps);
    if (now_ms < steps->shutdown_deadline_ms && (!lost || !have_left(steps, now_ms)))
        return;
    steps->shutdown_deadline_ms = INT64_MAX;
    dlr_sup_rejoin_end(steps);
    if (steps->agents_shared) {
        part(steps);
        return;
    }
    dlr_sup_cancel_steps(steps, steps->agents.pid);
    dlr_proc_kill(&steps->agents, SIGKILL);
}
