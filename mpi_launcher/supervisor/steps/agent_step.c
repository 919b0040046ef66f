/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of our own: what all of them say to srun, and the agents'. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/hostlist.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define GONE_BEATS 4 /* missed after the farewell: the agent has ended */

/* --- internal steps ---------------------------------------------------------------------- */

int dlr_sup_internal_env(struct dlr_sup *s, struct dlr_env *env)
{
    int rc = dlr_env_copy(env, true);

    if (rc == 0)
        rc = dlr_env_set(env, "DLROVER_SUPERVISED", "%s.%u.%s", s->info.job,
                         s->info.incarnation, s->info.name);
    return rc;
}

/* "srun" and what every internal step says: it names all it wants. */
void dlr_sup_step_words(const struct dlr_sup *s, struct dlr_words *w, const char *name,
                        const char *mpi, const char *list, unsigned n)
{
    dlr_words_add(w, "srun");
    dlr_words_add(w, "--jobid=%s", s->info.job);
    dlr_words_add(w, "--job-name=%s", name);
    dlr_words_add(w, "--nodes=%u", n);
    dlr_words_add(w, "--ntasks=%u", n);
    dlr_words_add(w, "--ntasks-per-node=1");
    dlr_words_add(w, "--nodelist=%s", list);
    dlr_words_add(w, "--mpi=%s", mpi);
    dlr_words_add(w, "--overlap");
    dlr_words_add(w, "--mem=0"); /* the job's, whatever it is */
    dlr_words_add(w, "--gres=none");
    dlr_words_add(w, "--distribution=block");
    dlr_words_add(w, "--cpu-bind=none");
    dlr_words_add(w, "--input=none");
    dlr_words_add(w, "--export=ALL");
    dlr_words_add(w, "--quiet");
}

void dlr_sup_internal_words(struct dlr_sup *s, struct dlr_words *w, const char *name,
                            const char *mpi)
{
    DLR_AUTO_FREE const char **names = calloc(s->members->n + 1, sizeof(*names));
    DLR_AUTO_FREE char *list = NULL;
    unsigned n = 0;

    for (unsigned i = 0; names && i < s->members->n; i++)
        if (dlr_sup_is_candidate(s, i))
            names[n++] = s->members->list[i].node.name;
    if (names && dlr_hostlist_join(names, n, &list) == -E2BIG)
        dlr_sup_say(s->io, "the names of %u nodes do not fit in one word of srun", n);
    dlr_sup_step_words(s, w, name, mpi, list ? list : "", n);
}

bool dlr_sup_is_candidate(const struct dlr_sup *s, unsigned node)
{
    if (dlr_policy_phase(s->policy) == DLR_PHASE_AGENTS)
        return !dlr_policy_is_lost(s->policy, node); /* who may come */
    return s->members->list[node].here && dlr_policy_is_alive(s->policy, node);
}

/* --- agents -------------------------------------------------------------------------------- */

int dlr_sup_agents_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_unwatch(s->io, s->agents.pidfd);
    dlr_proc_reap(&s->agents);
    if (s->finished)
        return dlr_sup_is_over(s) ? -1 : 0;
    dlr_sup_say(s->io,
                "the agents ended (see agents.log in the job's state directory)");
    s->gather.active = false;
    dlr_sup_agents_refused(s);
    for (unsigned i = 0; i < s->members->n; i++) {
        dlr_sup_node_left(s->nodes, i);
        dlr_sup_peers_went(s->nodes, i);
        dlr_sup_transfers_lost(s, i);
    }
    if (dlr_policy_phase(s->policy) == DLR_PHASE_AGENTS)
        dlr_sup_ask_controller(s, DLR_ASK_AGENTS, 0, "");
    else
        dlr_policy_agents_gone(s->policy, dlr_sup_now());
    return dlr_sup_is_over(s) ? -1 : 0;
}

void dlr_sup_start_agents(void *arg)
{
    struct dlr_sup *s = arg;
    struct dlr_err err = {0};

    if (s->agents.pid)
        return; /* those of a supervisor that died go on */
    if (dlr_sup_hosts_start(s, &err) < 0)
        dlr_sup_say(s->io, "cannot start the agents: %s", err.text);
    else
        dlr_sup_watch(s->io, s->agents.pidfd, dlr_sup_agents_ended, s);
    dlr_sup_save_state(s);
}

/* --- their end ------------------------------------------------------------------------------ */

/* True when every agent that was here has gone: it said so, or has not beaten for a while. */
static bool have_left(const struct dlr_sup *s, int64_t now_ms)
{
    int64_t quiet_ms = GONE_BEATS * (int64_t)s->conf.beat.every_ms;

    for (unsigned i = 0; i < s->members->n; i++)
        if (s->members->list[i].here &&
            now_ms - s->members->list[i].heard_ms < quiet_ms)
            return false;
    return true;
}

/* The step is the job's: it goes on, this run has no more to do with it. */
static void part(struct dlr_sup *s)
{
    if (!s->agents.pid)
        return;
    dlr_sup_unwatch(s->io, s->agents.pidfd);
    close(s->agents.pidfd);
    s->agents = (struct dlr_proc){.pidfd = -1};
}

void dlr_sup_on_left(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    if (!s->finished)
        return; /* its beats end: the node is judged by that */
    dlr_sup_node_left(s->nodes, node);
    if (s->agents_shared && have_left(s, dlr_sup_now()))
        part(s);
}

/* A step of our own ends by itself, unless a node is dead: it would wait for Slurm to notice. */
void dlr_sup_last_wait(struct dlr_sup *s, int64_t now_ms)
{
    bool lost = false;

    for (unsigned i = 0; i < s->members->n; i++)
        lost |= dlr_policy_is_lost(s->policy, i);
    lost |= s->agents_shared || dlr_sup_rejoin_any(s);
    if (now_ms < s->bye_deadline_ms && (!lost || !have_left(s, now_ms)))
        return;
    s->bye_deadline_ms = INT64_MAX;
    dlr_sup_rejoin_end(s);
    if (s->agents_shared) {
        part(s);
        return;
    }
    dlr_sup_cancel_steps(s, s->agents.pid);
    dlr_proc_kill(&s->agents, SIGKILL);
}
