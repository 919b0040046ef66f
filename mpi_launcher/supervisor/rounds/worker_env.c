/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a round's srun, of which the plugin makes that of its tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"
#include "mpi_launcher/run/master_port.h"
#include "mpi_launcher/step_plan/binding.h"
#include "mpi_launcher/step_plan/container.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

/* "n3,n1" and "1,1" in rank order; the caller frees both. */
static int lists(const struct dlr_sup_rounds *rounds, char **ret_nodes,
                 char **ret_tasks, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names =
        calloc(rounds->env.plan->nplaces + 1, sizeof(*names));
    size_t size = (size_t)rounds->env.plan->nplaces * 12 + 1, t = 0;
    int rc;

    *ret_tasks = malloc(size);
    if (!names || !*ret_tasks)
        return -ENOMEM;
    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++) {
        names[p] = rounds->env.plan->places[p].node.name;
        t += snprintf(*ret_tasks + t, size - t, "%s%u", p ? "," : "",
                      rounds->env.step->tasks[p]);
    }
    rc = dlr_hostlist_join(names, rounds->env.plan->nplaces, ret_nodes);
    return rc == 0
               ? 0
               : dlr_fail(err, rc, "cannot list %u nodes in %u bytes: %s",
                          rounds->env.plan->nplaces, DLR_HOSTLIST_MAX, strerror(-rc));
}

/* Whether the user asked for tasks per node: some programs refuse to run without the
 * variable.
 */
static bool asked_per_node(const struct dlr_sup_rounds *rounds)
{
    if (getenv("SLURM_NTASKS_PER_NODE"))
        return true;
    for (char *const *word = dlr_sup_srun_words(rounds->env.planning);
         *word && word < rounds->env.step->program; word++)
        if (dlr_after(*word, "--ntasks-per-n"))
            return true;
    return false;
}

static bool in_order(const struct dlr_step_plan *step)
{
    for (unsigned i = 0; step->ranks && i < step->world; i++)
        if (step->ranks[i] != i)
            return false;
    return true;
}

/* Who has asked Slurm for a binding has it. */
static int bind_env(const struct dlr_sup_rounds *rounds, struct dlr_env *env)
{
    enum dlr_bind bind = rounds->env.conf->bind;
    const char *asked =
        bind ? dlr_srun_binding(rounds->env.step->options, env->list) : NULL;

    if (asked && !rounds->launched)
        dlr_user_line(rounds->env.io,
                      "--dlrover-set=bind changes nothing: %s says where tasks run",
                      asked);
    if (asked || !bind)
        return 0;
    return dlr_env_set(env, "DLROVER_BIND", "%s",
                       bind == DLR_BIND_CORES ? "cores" : "numa");
}

/* In a container the plugin's library is another file, or none. */
static int watch_env(const struct dlr_sup_rounds *rounds, struct dlr_env *env)
{
    enum dlr_watch_calls watch = rounds->env.conf->watch;

    if (watch == DLR_WATCH_CALLS_OFF ||
        dlr_srun_container(rounds->env.step->options, env->list))
        return 0;
    return dlr_env_set(env, "DLROVER_WATCH", "%s",
                       watch == DLR_WATCH_CALLS_ALL ? "all" : "auto");
}

int dlr_sup_worker_env(struct dlr_sup_rounds *rounds, uint32_t round,
                       struct dlr_env *env, struct dlr_err *err)
{
    DLR_AUTO_FREE char *nodes = NULL, *tasks = NULL;
    /* As its node has chosen it; 0 of a plan that nobody was asked for. */
    unsigned told = rounds->env.plan->places[0].port;
    unsigned port = told ? told
                         : dlr_port_choose(dlr_sup_job_number(rounds->env.planning),
                                           rounds->env.info->name, round);
    int rc = lists(rounds, &nodes, &tasks, err);

    if (rc < 0 || (rc = dlr_env_copy(env, false)) < 0 ||
        (rc = dlr_sup_names_env(rounds, env)) < 0)
        return rc;
    rc |= dlr_env_set(env, "DLROVER_SUPERVISED", "%s.%u.%s", rounds->env.info->job,
                      rounds->env.info->incarnation, rounds->env.info->name);
    rc |= dlr_env_set(env, "SLURM_HOSTFILE", "%s", DLR_SRUN_PASS_PATH);
    rc |= dlr_env_set(env, "SLURM_JOB_NODELIST", "%s", nodes);
    rc |= dlr_env_set(env, "SLURM_JOB_NUM_NODES", "%u", rounds->env.plan->nplaces);
    rc |= dlr_env_set(env, "SLURM_NNODES", "%u", rounds->env.plan->nplaces);
    rc |= dlr_env_set(env, "DLROVER_ROUND", "%u", round);
    rc |= dlr_env_set(env, "DLROVER_RUN", "%s", rounds->env.info->name);
    rc |= dlr_env_set(env, "DLROVER_KEY", "%s", rounds->env.info->key);
    rc |= dlr_env_set(env, "DLROVER_ROUND_NODES", "%s", nodes);
    rc |= dlr_env_set(env, "DLROVER_TASKS", "%s", tasks);
    if (!in_order(rounds->env.step))
        rc |= dlr_env_set(env, "DLROVER_DEALT", "1");
    if (asked_per_node(rounds))
        rc |= dlr_env_set(env, "DLROVER_PER_NODE", "1");
    rc |= dlr_env_set(env, "DLROVER_MASTER_PORT", "%u", port);
    rc |= dlr_env_set(env, "DLROVER_AGENT_SOCKET", "%s/agent.sock",
                      rounds->env.info->memory);
    if (dlr_sup_stay_can(rounds))
        rc |= dlr_env_set(env, "DLROVER_IN_PROCESS", "1");
    rc |= dlr_sup_shape_env(rounds->env.planning, env);
    rc |= bind_env(rounds, env);
    rc |= watch_env(rounds, env);
    rc |= dlr_srun_pmix_env(env);
    return rc ? -ENOMEM : 0;
}
