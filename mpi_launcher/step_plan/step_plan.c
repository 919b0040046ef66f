/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/step_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/env.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/read.h"

typedef struct dlr_step_plan_read reader;

/* --- how many --------------------------------------------------------------------- */

/* "4", "4-6", "2,4" or "1-9:2": the most that is not above most counts, as srun itself
 * takes as many nodes as there are. *ret 0: even the least is more.
 */
static int nodes_wanted(reader *r, unsigned most, unsigned *ret)
{
    const char *text = r->value[DLR_SRUN_NODES];
    char copy[256], *rest = NULL;

    *ret = 0;
    if (dlr_format(copy, sizeof(copy), "%s", text) < 0 || !copy[0])
        return dlr_fail(r->err, -EINVAL, "srun --nodes '%s' is not a number", text);
    for (char *part = strtok_r(copy, ",", &rest); part;
         part = strtok_r(NULL, ",", &rest)) {
        char *step_text = strchr(part, ':'), *dash = strchr(part, '-');
        unsigned low = 0, high, step = 1;
        int rc = 0;

        if (step_text)
            *step_text++ = '\0';
        if (dash)
            *dash++ = '\0';
        if (step_text)
            rc = dlr_step_plan_number(r, "srun --nodes: step", step_text, &step);
        if (rc == 0)
            rc = dlr_step_plan_number(r, "srun --nodes", part, &low);
        high = low;
        if (rc == 0 && dash)
            rc = dlr_step_plan_number(r, "srun --nodes", dash, &high);
        if (rc < 0)
            return rc;
        if (dash && !r->least)
            r->least = low;
        if (high > most)
            high = most;
        if (high >= low && low + (high - low) / step * step > *ret)
            *ret = low + (high - low) / step * step;
    }
    return 0;
}

static int choose_places(reader *r)
{
    unsigned most, here = r->in->nnodes - dlr_step_plan_barred(r);
    struct dlr_step_plan *p = r->plan;
    int rc;

    if (r->in->nplaces) {
        p->nplaces = r->in->nplaces;
        return 0;
    }
    if (r->in->spares >= here)
        return dlr_fail(
            r->err, -EINVAL,
            "--dlrover-spares=%u leaves no node to train on in an allocation of "
            "%u: ask for more nodes or fewer spares",
            r->in->spares, here);
    most = dlr_step_plan_most(r);
    p->nplaces = most;
    if (r->value[DLR_SRUN_NODES]) {
        rc = nodes_wanted(r, most, &p->nplaces);
        if (rc < 0)
            return rc;
        if (!p->nplaces)
            return dlr_step_plan_too_many(r, "srun --nodes", r->value[DLR_SRUN_NODES],
                                          most);
    }
    return 0;
}

/* A number in the environment was meant for the whole allocation: it keeps its share of
 * each node. A number on srun's command line is meant as it stands.
 */
static int scale(reader *r, const char *what, unsigned n, unsigned *ret)
{
    if (r->plan->nplaces == r->in->nnodes) { /* all there is, however it lies */
        *ret = n;
        return 0;
    }
    if (n % r->in->nnodes)
        return dlr_fail(
            r->err, -EINVAL,
            "%s=%u does not divide over %u nodes, so it is not clear what %u nodes "
            "should have: say it on srun's command line",
            what, n, r->in->nnodes, r->plan->nplaces);
    *ret = n / r->in->nnodes * r->plan->nplaces;
    return 0;
}

static int world_by_node(reader *r)
{
    unsigned n;
    int rc =
        dlr_step_plan_number(r, "--ntasks-per-node", r->value[DLR_SRUN_PER_NODE], &n);

    if (rc == 0 && n > DLR_STEP_PLAN_TASKS / r->plan->nplaces)
        return dlr_fail(r->err, -EINVAL, "%u tasks on each of %u nodes are too many", n,
                        r->plan->nplaces);
    r->plan->world = rc == 0 ? n * r->plan->nplaces : 0;
    return rc;
}

/* srun(1): --cpus-per-task alone means as many tasks as the CPUs of the nodes have room
 * for.
 */
static int world_by_cpus(reader *r)
{
    const char *text = dlr_env_get(r->in->env, "SLURM_JOB_CPUS_PER_NODE");
    unsigned each, here;
    char count[16];
    int rc = dlr_step_plan_number(r, "srun --cpus-per-task", r->cpus, &each);

    r->plan->world = r->plan->nplaces;
    r->counted = r->in->release >= 2405;
    if (rc < 0 || !text)
        return rc;
    if (strchr(text, ',') ||
        dlr_format(count, sizeof(count), "%.*s", (int)strcspn(text, "("), text) < 0)
        return dlr_fail(r->err, -EINVAL,
                        "srun --cpus-per-task=%s: the job's nodes have different "
                        "numbers of CPUs: say --ntasks",
                        r->cpus);
    rc = dlr_step_plan_number(r, "SLURM_JOB_CPUS_PER_NODE", count, &here);
    if (rc == 0 && here / each > 1)
        r->plan->world *= here / each;
    return rc;
}

static int choose_world(reader *r)
{
    const char *ntasks = r->value[DLR_SRUN_NTASKS];
    bool said = ntasks && !r->by_env[DLR_SRUN_NTASKS];
    bool node_said = r->value[DLR_SRUN_PER_NODE] && !r->by_env[DLR_SRUN_PER_NODE];
    struct dlr_step_plan *p = r->plan;
    unsigned n;
    int rc;

    if (r->in->resized) {
        p->world = r->in->world;
        return 0;
    }
    if (said) {
        rc = dlr_step_plan_number(r, "srun --ntasks", ntasks, &p->world);
        if (rc == 0 && p->world < p->nplaces && !r->in->nplaces &&
            !r->value[DLR_SRUN_NODES])
            p->nplaces = p->world; /* as srun does: no more nodes than tasks */
        return rc;
    }
    if (r->in->world && !node_said) { /* the environment is of another allocation now */
        p->world = r->in->world;
        return 0;
    }
    if (r->value[DLR_SRUN_PER_NODE])
        return world_by_node(r);
    if (!ntasks && r->cpus)
        return world_by_cpus(r);
    if (!ntasks) {
        p->world = p->nplaces;
        return 0;
    }
    rc = dlr_step_plan_number(r, "SLURM_NTASKS", ntasks, &n);
    return rc < 0 ? rc : scale(r, "SLURM_NTASKS", n, &p->world);
}

/* --- what is said in other words -------------------------------------------------- */

/* As the batch host's number shows. */
static bool lie_unevenly(const reader *r, const char *number)
{
    const char *text = dlr_env_get(r->in->env, "SLURM_GPUS_ON_NODE");
    unsigned total, here;

    return text && dlr_parse_uint(number, DLR_STEP_PLAN_TASKS, &total) == 0 &&
           dlr_parse_uint(text, DLR_STEP_PLAN_TASKS, &here) == 0 &&
           (uint64_t)here * r->in->nnodes != total;
}

/* A total does not follow the number of nodes: a step that asks for more than its nodes
 * have waits for ever. So it becomes a number for each node. Without any word Slurm
 * would take the job's own total.
 */
static int rewrite_gpus(reader *r)
{
    const char *text = r->value[DLR_SRUN_GPUS], *colon;
    bool by_env = r->by_env[DLR_SRUN_GPUS];
    const char *what = by_env ? "SLURM_GPUS" : "srun --gpus";
    unsigned total, over = by_env ? r->in->nnodes : r->plan->nplaces;
    int rc;

    if (!text || (by_env && r->gpus_said))
        return 0;
    colon = strrchr(text, ':');
    if (by_env &&
        r->plan->nplaces == r->in->nnodes) { /* all there is, however it lies */
        r->plan->uneven = lie_unevenly(r, colon ? colon + 1 : text);
        return dlr_step_plan_keep(r, "--gpus=%s", text);
    }
    rc = dlr_step_plan_number(r, what, colon ? colon + 1 : text, &total);
    if (rc < 0)
        return rc;
    if (total % over || strchr(text, ','))
        return dlr_fail(r->err, -EINVAL,
                        "%s=%s does not divide over %u nodes: say --gpus-per-node or "
                        "--gpus-per-task",
                        what, text, over);
    return dlr_step_plan_keep(r, "--gpus-per-node=%.*s%u",
                              colon ? (int)(colon + 1 - text) : 0, text, total / over);
}

/* What the plugin needs in a task to know that it is of a round. */
#define OURS                                                                           \
    "DLROVER_SUPERVISED,DLROVER_ROUND,DLROVER_RUN,DLROVER_KEY,DLROVER_ROUND_NODES,"    \
    "DLROVER_TASKS,DLROVER_MASTER_PORT,DLROVER_AGENT_SOCKET,DLROVER_SHAPE,DLROVER_"    \
    "PER_NODE,DLROVER_DEALT,DLROVER_BIND,DLROVER_WATCH"

static int rewrite_export(reader *r)
{
    const char *text = r->value[DLR_SRUN_EXPORT];

    if (!text)
        return 0;
    if (strcasecmp(text, "ALL") == 0 || strncasecmp(text, "ALL,", 4) == 0)
        return dlr_step_plan_keep(r, "--export=%s", text);
    if (strcasecmp(text, "NONE") == 0 || strcasecmp(text, "NIL") == 0 || !*text)
        return dlr_step_plan_keep(r, "--export=" OURS);
    return dlr_step_plan_keep(r, "--export=" OURS ",%s", text);
}

static int check_jobid(reader *r)
{
    const char *text = r->value[DLR_SRUN_JOBID];
    const char *job = dlr_env_get(r->in->env, "SLURM_JOB_ID");

    if (!text || !r->in->env || (job && dlr_streq(text, job)))
        return 0;
    return dlr_fail(
        r->err, -EINVAL,
        "srun --jobid=%s cannot be supervised from job %s: submit it there, "
        "or add --dlrover=off to this srun",
        text, job ? job : "nowhere");
}

/* Fit for the description, which blanks divide. */
static bool is_word(const char *text)
{
    return strlen(text) < 64 && !strpbrk(text, " ,");
}

/* The job's total, for the nodes of the round; "" when it does not divide. */
static void describe_gpus(reader *r, char *buf, size_t size)
{
    const char *text = dlr_env_get(r->in->env, "SLURM_GPUS");
    const char *colon = text ? strrchr(text, ':') : NULL;
    const char *number = colon ? colon + 1 : text;
    unsigned total;

    if (text && is_word(text) &&
        dlr_parse_uint(number, DLR_STEP_PLAN_TASKS, &total) == 0 &&
        total % r->in->nnodes == 0)
        dlr_format(buf, size, " SLURM_GPUS=%.*s%u", (int)(number - text), text,
                   total / r->in->nnodes * r->plan->nplaces);
}

/* srun's own total, where srun tells it, and not the number for each node that the
 * round says in its place.
 */
static void describe_said_gpus(reader *r, char *buf, size_t size)
{
    const char *said = r->value[DLR_SRUN_GPUS];
    const char *each = dlr_env_get(r->in->env, "SLURM_GPUS_PER_NODE");

    if (!said || !is_word(said))
        return;
    if (!r->by_env[DLR_SRUN_GPUS])
        dlr_format(buf, size, " SLURM_GPUS=%s", said);
    if (!r->gpus_said && (!each || is_word(each)))
        dlr_format(buf + strlen(buf), size - strlen(buf), " SLURM_GPUS_PER_NODE=%s",
                   each ? each : "");
}

static int describe(reader *r)
{
    char plane[40] = "", gpus[200] = "";

    if (r->plane)
        snprintf(plane, sizeof(plane), " SLURM_DIST_PLANESIZE=%u", r->plane);
    describe_gpus(r, gpus, sizeof(gpus));
    if (r->in->release >= 2302)
        describe_said_gpus(r, gpus, sizeof(gpus));
    return dlr_format(r->plan->shape, sizeof(r->plan->shape),
                      "SLURM_DISTRIBUTION=%s%s%s", r->distribution, plane, gpus);
}

int dlr_step_plan_make(const struct dlr_step_plan_in *in, struct dlr_step_plan *ret,
                       struct dlr_err *err)
{
    static int (*const parts[])(reader *) = {check_jobid,
                                             dlr_step_plan_read_exclude,
                                             dlr_step_plan_read_prefer,
                                             dlr_step_plan_check_prefer,
                                             choose_places,
                                             choose_world,
                                             dlr_step_plan_choose_nodes,
                                             rewrite_gpus,
                                             rewrite_export,
                                             describe};
    reader r = {.in = in, .plan = ret, .err = err};
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = dlr_step_plan_read(&r);
    for (size_t i = 0; rc == 0 && !ret->plain && i < sizeof(parts) / sizeof(*parts);
         i++)
        rc = parts[i](&r);
    if (rc < 0)
        dlr_step_plan_done(ret);
    return rc;
}

void dlr_step_plan_share(const struct dlr_step_plan *plan, bool queues,
                         const char *ret[DLR_STEP_PLAN_SHARE + 1])
{
    unsigned n = 0;

    if (!queues)
        ret[n++] = "--overlap";
    if (!queues && !plan->overlap && plan->by_cpu) {
        ret[n++] = "--mem=0";
    } else if (plan->mem_per_cpu) {
        ret[n++] = "--mem-per-cpu";
        ret[n++] = plan->mem_per_cpu;
    }
    ret[n] = NULL;
}

void dlr_step_plan_done(struct dlr_step_plan *plan)
{
    for (unsigned i = 0; i < plan->noptions; i++)
        free(plan->options[i]);
    free(plan->options);
    free(plan->tasks);
    free(plan->ranks);
    free(plan->prefer);
    free(plan->barred);
    memset(plan, 0, sizeof(*plan));
}
