/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/rounds/warm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

/* Of what a task finds this is what a process without a rank must not have; where the
 * socket is only its node knows.
 */
static const char *const of_ranks[] = {"RANK",
                                       "WORLD_SIZE",
                                       "LOCAL_RANK",
                                       "LOCAL_WORLD_SIZE",
                                       "GROUP_RANK",
                                       "NODE_RANK",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "SLURM_PROCID",
                                       "SLURM_LOCALID",
                                       "SLURM_NODEID",
                                       "SLURM_HOSTFILE",
                                       "SLURM_TASK_PID",
                                       "DLROVER_ROUND_NODES",
                                       "DLROVER_SUPERVISED",
                                       "DLROVER_TASKS",
                                       "DLROVER_AGENT_SOCKET",
                                       NULL};

static const char *command(const struct dlr_sup_rounds *rounds)
{
    return dlr_streq(rounds->env.conf->warm, "off") ? "" : rounds->env.conf->warm;
}

/* The agents' step has no devices, whose process that is. And what Slurm changes in a
 * task's environment or directory nobody has changed there.
 */
static bool is_like_agents(const struct dlr_sup_rounds *rounds)
{
    static const char *const options[] = {"--gpus",   "--gres",  "--tres-per",
                                          "--export", "--chdir", NULL};
    static const char *const variables[] = {
        "SLURM_JOB_GPUS",      "SLURM_GPUS",          "SLURM_GPUS_ON_NODE",
        "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", NULL};

    for (unsigned i = 0; i < rounds->env.step->noptions; i++)
        for (const char *const *option = options; *option; option++)
            if (dlr_after(rounds->env.step->options[i], *option))
                return false;
    for (const char *const *name = variables; *name; name++)
        if (getenv(*name))
            return false;
    return true;
}

bool dlr_sup_warm_wanted(const struct dlr_sup_rounds *rounds)
{
    const char *other = rounds->env.conf->warm;

    if (!rounds->running_reported || rounds->ending)
        return false;
    if (command(rounds)[0])
        return true;
    return !other[0] && dlr_sup_stay_can(rounds) && is_like_agents(rounds) &&
           rounds->warm.nable >= rounds->env.step->world;
}

/* --- what is said to a spare ------------------------------------------------------ */

static bool is_of_ranks(const char *entry)
{
    for (const char *const *name = of_ranks; *name; name++) {
        const char *rest = dlr_after(entry, *name);

        if (rest && *rest == '=')
            return true;
    }
    return false;
}

/* Words that are no UTF-8 are left out. */
static json_t *words_of(char *const *words, bool all)
{
    json_t *list = json_array();

    for (; words && *words; words++)
        if (all || !is_of_ranks(*words))
            json_array_append_new(list, json_string(*words));
    return list;
}

static unsigned most_tasks(const struct dlr_sup_rounds *rounds)
{
    unsigned most = 1;

    for (unsigned p = 0; p < rounds->env.step->nplaces; p++)
        if (rounds->env.step->tasks[p] > most)
            most = rounds->env.step->tasks[p];
    return most;
}

/* NULL: it cannot be said. */
static json_t *make_order(struct dlr_sup_rounds *rounds)
{
    DLR_AUTO_FREE char **program = dlr_sup_names_words(rounds);
    char *own[] = {(char *)command(rounds), NULL};
    bool ahead = !own[0][0];
    struct dlr_env env = {0};
    struct dlr_err err;
    char cwd[4096];
    json_t *msg = NULL;

    if (getcwd(cwd, sizeof(cwd)) &&
        dlr_sup_worker_env(rounds, rounds->running_round, &env, &err) == 0 &&
        dlr_env_set(&env, "DLROVER_WARM", "1") == 0 && (msg = dlr_msg_new("warm_up"))) {
        json_object_set_new(msg, "round", json_integer(rounds->running_round));
        json_object_set_new(msg, "processes",
                            json_integer(ahead ? most_tasks(rounds) : 1));
        json_object_set_new(msg, "command", json_boolean(!ahead));
        json_object_set_new(msg, "words", words_of(ahead ? program : own, true));
        json_object_set_new(msg, "env", words_of(env.list, false));
        json_object_set_new(msg, "cwd", json_string(cwd));
    }
    dlr_env_done(&env);
    return msg;
}

static void tell(struct dlr_sup_rounds *rounds, const char *node, json_t *order)
{
    int i = dlr_members_find(rounds->members, node);

    if (i < 0 || !rounds->members->list[i].here || rounds->warm.told[i])
        return;
    rounds->warm.told[i] = 1;
    dlr_sup_send(rounds->env.nodes, (unsigned)i, json_incref(order));
}

/* A spare that is none any more ends what it has. */
static void tell_all(struct dlr_sup_rounds *rounds, json_t *order)
{
    DLR_AUTO_JSON json_t *none = dlr_msg_new("warm_up");

    json_object_set_new(none, "round", json_integer(rounds->running_round));
    json_object_set_new(none, "processes", json_integer(0));
    for (unsigned i = 0; i < rounds->env.plan->nspares; i++)
        tell(rounds, rounds->env.plan->spares[i].name, order);
    for (unsigned i = 0; i < rounds->env.plan->nout; i++)
        tell(rounds, rounds->env.plan->out[i].node, none);
}

void dlr_sup_warm_tick(struct dlr_sup_rounds *rounds)
{
    DLR_AUTO_JSON json_t *order = NULL;

    if (!rounds->warm.due || !dlr_sup_warm_wanted(rounds))
        return;
    rounds->warm.due = false;
    if (!rounds->warm.told)
        rounds->warm.told = calloc(rounds->members->n, 1);
    if (!rounds->warm.told || rounds->env.plan->nspares + rounds->env.plan->nout == 0)
        return;
    order = make_order(rounds);
    if (!order)
        return;
    rounds->warm.used = true;
    tell_all(rounds, order);
}

/* --- when ------------------------------------------------------------------------- */

void dlr_sup_warm_reset(struct dlr_sup_rounds *rounds)
{
    free(rounds->warm.told);
    free(rounds->warm.able);
    rounds->warm.told = rounds->warm.able = NULL;
    rounds->warm.nable = 0;
    rounds->warm.due = true;
}

void dlr_sup_warm_greeted(struct dlr_sup_rounds *rounds, unsigned node)
{
    if (rounds->warm.told)
        rounds->warm.told[node] = 0;
    rounds->warm.due = true;
}

void dlr_sup_on_can_stay(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg)
{
    unsigned rank;

    if (!dlr_sup_of_round(rounds, msg, rounds->env.step->world, &rank))
        return;
    if (!rounds->warm.able)
        rounds->warm.able = calloc(rounds->env.step->world, 1);
    if (!rounds->warm.able || rounds->warm.able[rank])
        return;
    rounds->warm.able[rank] = 1;
    rounds->warm.nable++;
    rounds->warm.due = true;
}

void dlr_sup_on_warm(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    uint64_t n, kb, took_ms;
    const char *why;
    json_t *row;

    if (dlr_msg_uint(msg, "processes", INT32_MAX, &n) < 0 ||
        dlr_msg_uint(msg, "kb", INT64_MAX, &kb) < 0 ||
        dlr_msg_uint(msg, "took_ms", INT64_MAX, &took_ms) < 0 ||
        dlr_msg_str(msg, "why", &why) < 0)
        return;
    rounds->warm.used |= n > 0;
    row = json_pack("{s:s,s:I}", "node", rounds->members->list[node].node.name,
                    "processes", (json_int_t)n);
    if (row && why[0])
        json_object_set_new(row, "why", json_string(why));
    else if (row)
        json_object_set_new(row, n > 0 ? "took_ms" : "ran_ms",
                            json_integer((json_int_t)took_ms));
    if (row && n > 0)
        json_object_set_new(row, "mb", json_integer((json_int_t)(kb + 1023) / 1024));
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "warm", row);
}
