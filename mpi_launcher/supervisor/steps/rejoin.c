/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that were lost and are alive again: rebooted, or no process of ours was left there. As long as
 * Slurm has them in the job they get an agent, each by a step of its own, and are spares. One whose
 * agent lives comes back by itself (mpi_launcher/supervisor/dispatch.c).
 */
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
#include "mpi_launcher/supervisor/supervisor.h"

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

int dlr_sup_rejoin_start(struct dlr_sup *s, struct dlr_err *err)
{
    struct dlr_sup_rejoin *r = calloc(1, sizeof(*r));

    if (r) {
        r->nodes = calloc(s->members->n, sizeof(*r->nodes));
        r->steps = calloc(s->members->n, sizeof(*r->steps));
    }
    s->rejoin = r; /* until the process ends */
    return r && r->nodes && r->steps ? 0 : dlr_fail(err, -ENOMEM, "out of memory");
}

static void end_step(struct dlr_sup *s, unsigned node)
{
    if (s->rejoin->steps[node].pid)
        dlr_sup_let_go(s, &s->rejoin->steps[node]);
}

bool dlr_sup_rejoin_any(const struct dlr_sup *s)
{
    for (unsigned i = 0; i < s->members->n; i++)
        if (s->rejoin->steps[i].pid)
            return true;
    return false;
}

void dlr_sup_rejoin_end(struct dlr_sup *s)
{
    for (unsigned i = 0; i < s->members->n; i++)
        end_step(s, i);
}

/* "host:port" of its agent is how it reaches this host, so its slurmstepd does, too. */
void dlr_sup_rejoin_lost(struct dlr_sup *s, unsigned node)
{
    const struct dlr_member *m = &s->members->list[node];
    const char *colon = strrchr(m->addr, ':');
    char address[sizeof(m->addr)];
    int rc;

    end_step(s, node);
    if (!s->agents.pid || !colon)
        return;
    dlr_format(address, sizeof(address), "%.*s", (int)(colon - m->addr), m->addr);
    rc = dlr_srun_io_end(&s->agents, address);
    if (rc > 0)
        dlr_sup_node_set_apart(s->nodes, node, true);
    if (rc < 0)
        dlr_sup_say(s->io, "the agents' srun cannot be told that node %s is lost: %s",
                    m->node.name, strerror(-rc));
}

/* --- an agent for it ------------------------------------------------------------------------ */

/* The agent has ended, or was not started: its node says so by its silence. */
static int step_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    for (unsigned i = 0; i < s->members->n; i++) {
        struct dlr_proc *step = &s->rejoin->steps[i];

        if (step->pid && step->pidfd == item->fd) {
            dlr_sup_unwatch(s->io, step->pidfd);
            dlr_proc_reap(step);
            break;
        }
    }
    return dlr_sup_is_over(s) ? -1 : 0;
}

static bool is_missing(const struct dlr_sup *s, unsigned node)
{
    const struct dlr_member *m = &s->members->list[node];

    return !m->here && !s->rejoin->steps[node].pid && !dlr_sup_is_barred(s, node) &&
           (m->apart || dlr_policy_is_lost(s->policy, node));
}

static void start_on(struct dlr_sup *s, unsigned node, int64_t now_ms)
{
    const struct dlr_member *m = &s->members->list[node];
    struct dlr_proc *step = &s->rejoin->steps[node];
    struct dlr_err err;

    if (!is_missing(s, node) || (m->heard_ms && now_ms - m->heard_ms < SILENT_MS))
        return;
    dlr_sup_say(s->io, "node %s is alive again: an agent is started there",
                m->node.name);
    if (dlr_sup_hosts_start_on(s, m->node.name, step, &err) < 0) {
        dlr_sup_say(s->io, "cannot start the agent: %s", err.text);
        return;
    }
    dlr_sup_node_set_apart(s->nodes, node, true);
    dlr_sup_watch(s->io, step->pidfd, step_ended, s);
}

/* --- who is alive ---------------------------------------------------------------------------- */

static void take_answer(struct dlr_sup *s, char *text)
{
    char *line, *rest;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *gone = dlr_after(line, "-");
        int node = dlr_members_find(s->members, gone ? gone : line);

        if (node < 0)
            continue;
        if (!gone) {
            start_on(s, node, dlr_sup_now());
            continue;
        }
        dlr_rejoin_gone(&s->rejoin->nodes[node]);
        dlr_sup_say(s->io, "node %s: Slurm has taken it from the job", gone);
    }
}

static int answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    struct dlr_sup_rejoin *r = s->rejoin;
    char text[ASK_MAX * (DLR_TOPO_NAME + 2) + 1] = "";
    ssize_t n = read(r->out, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    close(r->out);
    dlr_sup_unwatch(s->io, r->ask.pidfd);
    if (dlr_proc_reap(&r->ask) == 0 && !s->finished)
        take_answer(s, text);
    return dlr_sup_is_over(s) ? -1 : 0;
}

static void ask(struct dlr_sup *s, const char *list, int64_t now_ms)
{
    struct dlr_sup_rejoin *r = s->rejoin;
    struct dlr_words words = {0};
    struct dlr_err err;
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    dlr_sup_slurm_words(s, &words, "alive", true);
    dlr_words_add(&words, "%s", list);
    if (dlr_sup_start_slurm(s, &words, pipes[1], &r->ask, &err) == 0) {
        r->out = dlr_steal_fd(&pipes[0]);
        r->late_ms = now_ms + ASK_MS;
        dlr_sup_watch(s->io, r->ask.pidfd, answered, s);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

void dlr_sup_rejoin_tick(struct dlr_sup *s, int64_t now_ms)
{
    struct dlr_sup_rejoin *r = s->rejoin;
    char list[ASK_MAX * (DLR_TOPO_NAME + 1)];
    unsigned n = 0;
    int used = 0;

    if (r->ask.pid) {
        if (now_ms >= r->late_ms)
            dlr_proc_kill(&r->ask, SIGKILL);
        return;
    }
    if (s->adopt.active || dlr_policy_phase(s->policy) > DLR_PHASE_END)
        return;
    for (unsigned i = 0; i < s->members->n && n < ASK_MAX; i++) {
        int64_t first_ms = dlr_policy_is_lost(s->policy, i) ? DLR_REJOIN_FIRST_MS : 0;

        if (dlr_rejoin_due(&r->nodes[i], is_missing(s, i), first_ms, now_ms))
            used += snprintf(list + used, sizeof(list) - used, "%s%s", n++ ? "," : "",
                             s->members->list[i].node.name);
    }
    if (n)
        ask(s, list, now_ms);
}
