/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of our own: what all of them say to srun, and the agents'. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/self.h"
#include "mpi_launcher/sup.h"

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
void dlr_sup_internal_words(struct dlr_sup *s, struct dlr_words *w, const char *name,
                            const char *mpi)
{
    DLR_AUTO_FREE char *list = NULL;
    unsigned n = 0;

    for (unsigned i = 0; i < s->members.n; i++) {
        char *longer = NULL;

        if (!dlr_sup_is_candidate(s, i))
            continue;
        if (asprintf(&longer, "%s%s%s", list ? list : "", list ? "," : "",
                     s->members.list[i].node.name) < 0)
            return;
        free(list);
        list = longer;
        n++;
    }
    dlr_words_add(w, "srun");
    dlr_words_add(w, "--jobid=%s", s->info.job);
    dlr_words_add(w, "--job-name=%s", name);
    dlr_words_add(w, "--nodes=%u", n);
    dlr_words_add(w, "--ntasks=%u", n);
    dlr_words_add(w, "--ntasks-per-node=1");
    dlr_words_add(w, "--nodelist=%s", list ? list : "");
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

bool dlr_sup_is_candidate(const struct dlr_sup *s, unsigned node)
{
    if (dlr_policy_phase(s->policy) == DLR_PHASE_AGENTS)
        return !dlr_policy_is_lost(s->policy, node); /* who may come */
    return s->members.list[node].here && dlr_policy_is_alive(s->policy, node);
}

/* --- agents -------------------------------------------------------------------------------- */

int dlr_sup_agents_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_unwatch(s, &s->agents);
    dlr_proc_reap(&s->agents);
    if (s->finished)
        return -1;
    dlr_sup_say(s, "the agents ended (see agents.log beside the journal)");
    s->gather.active = false;
    dlr_sup_agents_refused(s);
    for (unsigned i = 0; i < s->members.n; i++) {
        s->members.list[i].here = false;
        dlr_sup_transfers_lost(s, i);
    }
    if (dlr_policy_phase(s->policy) == DLR_PHASE_AGENTS)
        dlr_sup_ask_controller(s, DLR_ASK_AGENTS, 0, "");
    else
        dlr_policy_agents_gone(s->policy, dlr_sup_now());
    return s->finished && !s->agents.pid ? -1 : 0;
}

static void agent_words(struct dlr_sup *s, struct dlr_words *w)
{
    char path[4096] = "dlrover-agent", value[DLR_OPT_TEXT];
    const char *ports = getenv("SLURM_SRUN_PORT_RANGE");

    dlr_self_sibling("dlrover-agent", path, sizeof(path));
    dlr_words_add(w, "--no-kill");
    dlr_words_add(w, "--kill-on-bad-exit=0");
    dlr_words_add(w, "--wait=0");
    dlr_words_add(w, "%s", path);
    dlr_words_add(w, "--control=%s", s->address);
    dlr_words_add(w, "--job=%s", s->info.job);
    dlr_words_add(w, "--run=%s", s->info.name);
    dlr_words_add(w, "--gen=%u", s->id.gen);
    dlr_words_add(w, "--memory=%s", s->info.memory);
    dlr_words_add(w, "--key=%s", s->info.key);
    dlr_words_add(w, "--run-dir=%s", s->info.dir);
    dlr_words_add(w, "--peer-ports=%s", ports ? ports : "0");
    for (const struct dlr_opt *o = dlr_jobconf_opts; o->name; o++)
        if (dlr_opt_show(o, &s->conf, value, sizeof(value)) == 0)
            dlr_words_add(w, "--%s=%s", o->name, value);
}

void dlr_sup_start_agents(void *arg)
{
    struct dlr_sup *s = arg;
    DLR_AUTO_FREE char *cred = NULL;
    DLR_AUTO_CLOSE int log = -1;
    struct dlr_words words = {0};
    struct dlr_env env = {0};
    char path[DLR_RUN_PATH + 32];
    struct dlr_err err = {0};

    if (s->agents.pid)
        return; /* those of a supervisor that died go on */
    dlr_sup_agents_log(s, path, sizeof(path));
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    s->agents_log_from = log < 0 ? 0 : lseek(log, 0, SEEK_END);
    dlr_sup_internal_words(s, &words, "dlrover-agents", "none");
    agent_words(s, &words);
    if (dlr_identity_credential(s->identity, &s->id, &cred, &err) < 0 ||
        dlr_sup_internal_env(s, &env) < 0 ||
        dlr_env_set(&env, "DLROVER_CRED", "%s", cred) < 0 ||
        dlr_proc_start(words.list, env.list, -1, log, log, &s->agents, &err) < 0)
        dlr_sup_say(s, "cannot start the agents: %s", err.text);
    else
        dlr_sup_watch(s, &s->agents, dlr_sup_agents_ended);
    dlr_words_done(&words);
    dlr_env_done(&env);
    dlr_sup_save_state(s);
}
