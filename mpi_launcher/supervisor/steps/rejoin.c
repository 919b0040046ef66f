/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that were lost and are alive again: rebooted, or no process of ours was left
 * there. As long as Slurm has them in the job they get an agent, each by a step of its
 * own, and are spares. One whose agent lives comes back by itself
 * (mpi_launcher/supervisor/dispatch.c).
 */
#include "mpi_launcher/supervisor/steps/rejoin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/policy/rejoin.h"
#include "mpi_launcher/slurm/srun_io.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define ASK_MS 60000   /* for slurmctld, and for the nodes, to answer one question */
#define ASK_MAX 16     /* nodes in one question: each may take a second */
#define SILENT_MS 2000 /* who was heard since has an agent that lives */

struct dlr_sup_rejoin {
    struct dlr_rejoin *nodes; /* [nnodes] */
    struct dlr_proc *steps;   /* [nnodes] the srun of that node's agent */
    struct dlr_proc ask;      /* dlrover-slurm */
    int out;                  /* read end of its stdout */
    int64_t late_ms;
};

int dlr_sup_rejoin_start(struct dlr_sup_steps *steps, struct dlr_err *err)
{
    struct dlr_sup_rejoin *r = calloc(1, sizeof(*r));

    if (r) {
        r->nodes = calloc(steps->members->n, sizeof(*r->nodes));
        r->steps = calloc(steps->members->n, sizeof(*r->steps));
    }
    steps->rejoin = r;
    return r && r->nodes && r->steps ? 0 : dlr_fail(err, -ENOMEM, "out of memory");
}

void dlr_sup_rejoin_free(struct dlr_sup_steps *steps)
{
    if (!steps->rejoin)
        return;
    free(steps->rejoin->nodes);
    free(steps->rejoin->steps);
    free(steps->rejoin);
}

static void end_step(struct dlr_sup_steps *steps, unsigned node)
{
    if (steps->rejoin->steps[node].pid)
        dlr_srun_abandon(steps, &steps->rejoin->steps[node]);
}

bool dlr_sup_rejoin_any(const struct dlr_sup_steps *steps)
{
    for (unsigned i = 0; i < steps->members->n; i++)
        if (steps->rejoin->steps[i].pid)
            return true;
    return false;
}

void dlr_sup_rejoin_end(struct dlr_sup_steps *steps)
{
    for (unsigned i = 0; i < steps->members->n; i++)
        end_step(steps, i);
}

/* "host:port" of its agent is how it reaches this host, so its slurmstepd does, too. */
void dlr_sup_rejoin_lost(struct dlr_sup_steps *steps, unsigned node)
{
    const struct dlr_member *m = &steps->members->list[node];
    const char *colon = strrchr(m->addr, ':');
    char address[sizeof(m->addr)];
    int rc;

    end_step(steps, node);
    if (!steps->agents.pid || !colon)
        return;
    dlr_format(address, sizeof(address), "%.*s", (int)(colon - m->addr), m->addr);
    rc = dlr_srun_io_end(&steps->agents, address);
    if (rc > 0)
        dlr_sup_node_set_apart(steps->env.nodes, node, true);
    if (rc < 0)
        dlr_user_line(steps->env.io,
                      "the agents' srun cannot be told that node %s is lost: %s",
                      m->node.name, strerror(-rc));
}

/* --- an agent for it -------------------------------------------------------------- */

/* The agent has ended, or was not started: its node says so by its silence. */
static int step_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;

    for (unsigned i = 0; i < steps->members->n; i++) {
        struct dlr_proc *step = &steps->rejoin->steps[i];

        if (step->pid && step->pidfd == item->fd) {
            dlr_sup_unwatch(steps->env.io, step->pidfd);
            dlr_proc_reap(step);
            break;
        }
    }
    return dlr_sup_steps_go_on(steps);
}

static bool is_missing(const struct dlr_sup_steps *steps, unsigned node)
{
    const struct dlr_member *m = &steps->members->list[node];

    return !m->here && !steps->rejoin->steps[node].pid &&
           !steps->ops->barred(steps->arg, node) &&
           (m->apart || dlr_policy_is_lost(steps->policy, node));
}

static void start_on(struct dlr_sup_steps *steps, unsigned node, int64_t now_ms)
{
    const struct dlr_member *m = &steps->members->list[node];
    struct dlr_proc *step = &steps->rejoin->steps[node];
    struct dlr_err err;

    if (!is_missing(steps, node) || (m->heard_ms && now_ms - m->heard_ms < SILENT_MS))
        return;
    dlr_user_line(steps->env.io, "node %s is alive again: an agent is started there",
                  m->node.name);
    if (dlr_shared_agent_step_start_on(steps, m->node.name, step, &err) < 0) {
        dlr_user_line(steps->env.io, "cannot start the agent: %s", err.text);
        return;
    }
    dlr_sup_node_set_apart(steps->env.nodes, node, true);
    dlr_sup_watch(steps->env.io, step->pidfd, step_ended, steps);
}

/* --- who is alive ----------------------------------------------------------------- */

static void take_answer(struct dlr_sup_steps *steps, char *text)
{
    char *line, *rest;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *gone = dlr_after(line, "-");
        int node = dlr_members_find(steps->members, gone ? gone : line);

        if (node < 0)
            continue;
        if (!gone) {
            start_on(steps, node, dlr_sup_now());
            continue;
        }
        dlr_rejoin_gone(&steps->rejoin->nodes[node]);
        dlr_user_line(steps->env.io, "node %s: Slurm has taken it from the job", gone);
    }
}

static int answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;
    struct dlr_sup_rejoin *r = steps->rejoin;
    char text[ASK_MAX * (DLR_TOPO_NAME + 2) + 1] = "";
    ssize_t n = read(r->out, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    close(r->out);
    dlr_sup_unwatch(steps->env.io, r->ask.pidfd);
    if (dlr_proc_reap(&r->ask) == 0 && !steps->ops->finished(steps->arg))
        take_answer(steps, text);
    return dlr_sup_steps_go_on(steps);
}

static void ask(struct dlr_sup_steps *steps, const char *list, int64_t now_ms)
{
    struct dlr_sup_rejoin *r = steps->rejoin;
    struct dlr_words words = {0};
    struct dlr_err err;
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    dlr_sup_slurm_words(steps, &words, "alive", true);
    dlr_words_add(&words, "%s", list);
    if (dlr_sup_start_slurm(&words, pipes[1], &r->ask, &err) == 0) {
        r->out = dlr_steal_fd(&pipes[0]);
        r->late_ms = now_ms + ASK_MS;
        dlr_sup_watch(steps->env.io, r->ask.pidfd, answered, steps);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

void dlr_sup_rejoin_tick(struct dlr_sup_steps *steps, int64_t now_ms, bool may_ask)
{
    struct dlr_sup_rejoin *r = steps->rejoin;
    char list[ASK_MAX * (DLR_TOPO_NAME + 1)];
    unsigned n = 0;
    int used = 0;

    if (r->ask.pid) {
        if (now_ms >= r->late_ms)
            dlr_proc_kill(&r->ask, SIGKILL);
        return;
    }
    if (!may_ask || dlr_policy_phase(steps->policy) > DLR_PHASE_END)
        return;
    for (unsigned i = 0; i < steps->members->n && n < ASK_MAX; i++) {
        int64_t first_ms =
            dlr_policy_is_lost(steps->policy, i) ? DLR_REJOIN_FIRST_MS : 0;

        if (dlr_rejoin_due(&r->nodes[i], is_missing(steps, i), first_ms, now_ms))
            used += snprintf(list + used, sizeof(list) - used, "%s%s", n++ ? "," : "",
                             steps->members->list[i].node.name);
    }
    if (n)
        ask(steps, list, now_ms);
}
