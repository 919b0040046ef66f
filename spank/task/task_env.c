/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/task_env.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"

#define MAX_TASKS (1u << 24)

/* "1": torchrun's workers meet in a store of their own, as those of a bare srun do. In
 * that of torchrun itself workers of a node whose torchrun counts no restart find the
 * addresses of those before them, when it restarts them on several nodes (seen with
 * PyTorch 2.15).
 */
#define OWN_STORE "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"

/* A place in the rank map. */
struct place {
    unsigned nodes;       /* of the round */
    unsigned world;       /* tasks of the round */
    unsigned group;       /* index of this task's node */
    unsigned local;       /* index of this task on it */
    unsigned local_world; /* tasks of it */
    unsigned most;        /* tasks of the fullest node */
    char node[256];       /* its name */
    char first[256];      /* name of the node of rank 0 */
};

bool dlr_task_round_find(char *const env[], struct dlr_task_round *ret)
{
    const char *port = dlr_env_get(env, "DLROVER_MASTER_PORT");
    const char *number = dlr_env_get(env, "DLROVER_ROUND");
    struct dlr_task_round r = {
        .socket = dlr_env_get(env, "DLROVER_AGENT_SOCKET"),
        .nodes = dlr_env_get(env, "DLROVER_ROUND_NODES"),
        .tasks = dlr_env_get(env, "DLROVER_TASKS"),
        .shape = dlr_env_get(env, "DLROVER_SHAPE"),
        .per_node = dlr_env_get(env, "DLROVER_PER_NODE") != NULL,
        .dealt = dlr_env_get(env, "DLROVER_DEALT") != NULL,
        .own_store = !dlr_env_get(env, OWN_STORE),
    };

    if (!number || dlr_parse_uint(number, UINT32_MAX, &r.round) < 0 || !r.socket ||
        !r.nodes || !r.tasks)
        return false;
    if (port && dlr_parse_uint(port, 65535, &r.port) < 0)
        return false;
    *ret = r;
    return true;
}

/* Cuts the next word off a comma list; false at its end or when it does not fit. */
static bool next_word(const char **list, char *buf, size_t size)
{
    size_t len = strcspn(*list, ",");

    if (!**list || len == 0 || dlr_format(buf, size, "%.*s", (int)len, *list) < 0)
        return false;
    *list += len + ((*list)[len] == ',');
    return true;
}

/* Whether the task is one of the next here tasks, of node. Where ranks are dealt out
 * Slurm says which of the node's own tasks it is.
 */
static bool is_here(const struct dlr_task_round *round,
                    const struct dlr_task_self *self, const struct place *p,
                    const char *node, unsigned here, unsigned *ret_local)
{
    if (round->dealt)
        return self->node && self->local && dlr_streq(node, self->node) &&
               dlr_parse_uint(self->local, MAX_TASKS, ret_local) == 0 &&
               *ret_local < here;
    *ret_local = self->rank - p->world;
    return self->rank >= p->world && *ret_local < here;
}

static int find_place(const struct dlr_task_round *round,
                      const struct dlr_task_self *self, struct place *ret,
                      struct dlr_err *err)
{
    struct dlr_hostlist nodes = {.rest = round->nodes};
    const char *tasks = round->tasks;
    struct place p = {0};
    bool found = false, bad = false;
    char node[256], text[16];
    unsigned local;

    while (dlr_hostlist_next(&nodes, node, sizeof(node))) {
        unsigned here;

        bad = !next_word(&tasks, text, sizeof(text)) ||
              dlr_parse_uint(text, MAX_TASKS, &here) < 0 || here > MAX_TASKS - p.world;
        if (bad)
            break;
        if (p.nodes == 0)
            memcpy(p.first, node, sizeof(node));
        if (!found && is_here(round, self, &p, node, here, &local)) {
            found = true;
            p.group = p.nodes;
            p.local = local;
            p.local_world = here;
            memcpy(p.node, node, sizeof(node));
        }
        p.most = here > p.most ? here : p.most;
        p.world += here;
        p.nodes++;
    }
    if (bad || !dlr_hostlist_is_over(&nodes) || *tasks)
        return dlr_fail(err, -EINVAL, "bad rank map: nodes '%s', tasks '%s'",
                        round->nodes, round->tasks);
    if (!found)
        return dlr_fail(err, -EINVAL, "rank %u is not in the rank map of %u",
                        self->rank, p.world);
    *ret = p;
    return 0;
}

static int check_place(const struct place *p, const struct dlr_task_self *self,
                       struct dlr_err *err)
{
    if (p->world != self->world)
        return dlr_fail(err, -EINVAL, "the step has %u tasks, the rank map %u",
                        self->world, p->world);
    if (self->node && !dlr_streq(self->node, p->node))
        return dlr_fail(err, -EINVAL, "rank %u runs on %s, the rank map says %s",
                        self->rank, self->node, p->node);
    return 0;
}

/* The counts as Slurm writes them: "2(x3),1". NULL when out of memory. */
static char *tasks_per_node(const char *tasks)
{
    DLR_AUTO_FREE char *out = NULL;
    size_t size = 0;
    DLR_AUTO_FCLOSE FILE *f = open_memstream(&out, &size);
    char word[16], last[16] = "";
    unsigned times = 0;
    bool more = true, any = false;

    if (!f)
        return NULL;
    while (more) {
        more = next_word(&tasks, word, sizeof(word));
        if (times && (!more || !dlr_streq(word, last))) {
            fprintf(f, times > 1 ? "%s%s(x%u)" : "%s%s", any ? "," : "", last, times);
            any = true;
            times = 0;
        }
        memcpy(last, word, sizeof(last));
        times++;
    }
    if (fflush(f) != 0)
        return NULL;
    return strdup(out);
}

/* Adds one variable; value NULL takes it out. Returns false when out of memory. */
static bool add(struct dlr_task_env *env, const char *name, const char *value)
{
    struct dlr_task_var *var = &env->vars[env->count];

    var->name = name;
    var->value = value ? strdup(value) : NULL;
    if (value && !var->value)
        return false;
    env->count++;
    return true;
}

static bool add_number(struct dlr_task_env *env, const char *name, unsigned value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    return add(env, name, text);
}

static bool add_numbers(struct dlr_task_env *env, const struct place *p,
                        const struct dlr_task_round *round, unsigned rank)
{
    const struct {
        const char *name;
        unsigned value;
    } numbers[] = {
        {"SLURM_JOB_NUM_NODES", p->nodes},
        {"SLURM_NNODES", p->nodes},
        {"SLURM_STEP_NUM_NODES", p->nodes},
        {"SLURM_NTASKS", p->world},
        {"SLURM_NPROCS", p->world},
        {"SLURM_STEP_NUM_TASKS", p->world},
        {"SLURM_NODEID", p->group},
        {"RANK", rank},
        {"WORLD_SIZE", p->world},
        {"LOCAL_RANK", p->local},
        {"LOCAL_WORLD_SIZE", p->local_world},
        {"GROUP_RANK", p->group},
        {"GROUP_WORLD_SIZE", p->nodes},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!add_number(env, numbers[i].name, numbers[i].value))
            return false;
    if (round->per_node && !add_number(env, "SLURM_NTASKS_PER_NODE", p->most))
        return false;
    if (round->fd && !add_number(env, "DLROVER_AGENT_FD", round->fd))
        return false;
    if (round->own_store && p->nodes > 1 && !add_number(env, OWN_STORE, 1))
        return false;
    return !round->port || add_number(env, "MASTER_PORT", round->port);
}

static bool add_lists(struct dlr_task_env *env, const struct dlr_task_round *round)
{
    static const char *const node_lists[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST",
                                             "SLURM_STEP_NODELIST"};
    static const char *const task_lists[] = {"SLURM_TASKS_PER_NODE",
                                             "SLURM_STEP_TASKS_PER_NODE"};
    DLR_AUTO_FREE char *counts = tasks_per_node(round->tasks);

    for (size_t i = 0; i < sizeof(node_lists) / sizeof(*node_lists); i++)
        if (!add(env, node_lists[i], round->nodes))
            return false;
    for (size_t i = 0; i < sizeof(task_lists) / sizeof(*task_lists); i++)
        if (!counts || !add(env, task_lists[i], counts))
            return false;
    return true;
}

/* How the user's own srun would describe the layout; ours is always "arbitrary".
 * "NAME=": not at all.
 */
static bool add_shape(struct dlr_task_env *env, const char *shape)
{
    static const char *const names[] = {"SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE",
                                        "SLURM_GPUS", "SLURM_GPUS_PER_NODE"};

    for (size_t i = 0; shape && i < sizeof(names) / sizeof(*names); i++) {
        const char *at = strstr(shape, names[i]);
        const char *value = at ? dlr_after(at + strlen(names[i]), "=") : NULL;
        char text[80];

        if (!value)
            continue;
        dlr_format(text, sizeof(text), "%.*s", (int)strcspn(value, " "), value);
        if (!add(env, names[i], *text ? text : NULL))
            return false;
    }
    return true;
}

/* What only a supervisor's own srun may see: with it, an srun inside a task would lay
 * its tasks out like ours, or they would take themselves for ours. The mark
 * DLROVER_SUPERVISED stays: an srun inside a task is the task's own affair and runs as
 * it is.
 */
static bool take_out(struct dlr_task_env *env)
{
    static const char *const names[] = {
        "SLURM_HOSTFILE", "SLURM_OVERLAP", "DLROVER_CRED",     "DLROVER_ROUND_NODES",
        "DLROVER_TASKS",  "DLROVER_SHAPE", "DLROVER_PER_NODE", "DLROVER_DEALT",
        "DLROVER_BIND",   "DLROVER_WATCH"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!add(env, names[i], NULL))
            return false;
    return true;
}

int dlr_task_env_make(const struct dlr_task_round *round,
                      const struct dlr_task_self *self, struct dlr_task_env *ret,
                      struct dlr_err *err)
{
    struct dlr_task_env env = {0};
    struct place place;
    int rc = find_place(round, self, &place, err);

    if (rc == 0)
        rc = check_place(&place, self, err);
    if (rc < 0)
        return rc;
    if (!add_lists(&env, round) || !add_numbers(&env, &place, round, self->rank) ||
        !add(&env, "MASTER_ADDR", place.first) ||
        !add(&env, "DLROVER_AGENT_SOCKET", round->socket) ||
        !add_shape(&env, round->shape) || !take_out(&env)) {
        dlr_task_env_free(&env);
        return dlr_fail(err, -ENOMEM, "out of memory");
    }
    env.local = place.local;
    env.local_world = place.local_world;
    *ret = env;
    return 0;
}

void dlr_task_env_free(struct dlr_task_env *env)
{
    for (unsigned i = 0; i < env->count; i++)
        free(env->vars[i].value);
    env->count = 0;
}
