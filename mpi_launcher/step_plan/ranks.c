/* SPDX-License-Identifier: Apache-2.0 */
/* Of the step plan: which rank at which place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/read.h"

typedef struct dlr_step_plan_read reader;

static int no_memory(reader *r)
{
    return dlr_fail(r->err, -ENOMEM, "no memory for the step");
}

/* --- places of ranks -------------------------------------------------------------- */

/* Sizes and ranks of the places, from the place of each rank. */
static int seat(reader *r, const unsigned *place_of)
{
    struct dlr_step_plan *p = r->plan;
    DLR_AUTO_FREE unsigned *at = calloc(p->nplaces + 1, sizeof(*at));
    DLR_AUTO_FREE unsigned *ranks = calloc(p->world, sizeof(*ranks));
    DLR_AUTO_FREE unsigned *tasks = calloc(p->nplaces, sizeof(*tasks));
    bool in_order = true;

    if (!at || !ranks || !tasks)
        return no_memory(r);
    for (unsigned rank = 0; rank < p->world; rank++)
        tasks[place_of[rank]]++;
    for (unsigned i = 0; i < p->nplaces; i++)
        at[i + 1] = at[i] + tasks[i];
    for (unsigned rank = 0; rank < p->world; rank++) {
        unsigned i = at[place_of[rank]]++;

        in_order &= i == rank;
        ranks[i] = rank;
    }
    free(p->tasks);
    p->tasks = DLR_STEAL(tasks);
    p->ranks = in_order ? NULL : DLR_STEAL(ranks);
    return 0;
}

/* Tasks that a node of the job has CPUs for; the world when that is unknown, or not the
 * same on each.
 */
static unsigned room_of(const reader *r)
{
    const char *text = dlr_env_get(r->in->env, "SLURM_JOB_CPUS_PER_NODE");
    unsigned cpus, each = 1;
    char count[16];

    if (!text || strchr(text, ',') ||
        dlr_format(count, sizeof(count), "%.*s", (int)strcspn(text, "("), text) < 0 ||
        dlr_parse_uint(count, DLR_STEP_PLAN_TASKS, &cpus) < 0 ||
        (r->cpus && dlr_parse_uint(r->cpus, DLR_STEP_PLAN_TASKS, &each) < 0) || !each ||
        cpus < each)
        return r->plan->world;
    return cpus / each;
}

/* As Slurm deals them out (22.05.8, tried): size to each place in turn; a place that is
 * full is left out, until all are. First how many each has, then in the same turns
 * which.
 */
static int deal(reader *r, unsigned size)
{
    struct dlr_step_plan *p = r->plan;
    DLR_AUTO_FREE unsigned *place_of = calloc(p->world, sizeof(*place_of));
    DLR_AUTO_FREE unsigned *left = calloc(p->nplaces, sizeof(*left));
    unsigned room = room_of(r), rank = 0;

    if (!place_of || !left)
        return no_memory(r);
    if (room < p->world / p->nplaces + (p->world % p->nplaces > 0))
        room = p->world;
    for (unsigned i = 0; rank < p->world; i = (i + 1) % p->nplaces)
        for (unsigned k = 0; k < size && rank < p->world && left[i] < room; k++, rank++)
            left[i]++;
    rank = 0;
    for (unsigned i = 0; rank < p->world; i = (i + 1) % p->nplaces)
        for (unsigned k = 0; k < size && left[i]; k++, left[i]--)
            place_of[rank++] = i;
    return seat(r, place_of);
}

/* --- as listed -------------------------------------------------------------------- */

/* The list is of ranks; nodes takes each once, in the order in which they come. */
static unsigned nodes_listed(const struct dlr_step_plan *p, unsigned nnodes,
                             unsigned *nodes, unsigned *place_of)
{
    DLR_AUTO_FREE unsigned *place = calloc(nnodes, sizeof(*place)); /* from 1 on */
    unsigned n = 0;

    for (unsigned i = 0; place && i < p->nprefer; i++) {
        unsigned node = p->prefer[i];

        if (!place[node]) {
            nodes[n] = node;
            place[node] = ++n;
        }
        place_of[i] = place[node] - 1;
    }
    return n;
}

/* A node for each rank, as the user listed them. After a loss others take their places.
 */
int dlr_step_plan_node_is_listed(struct dlr_step_plan_read *r)
{
    struct dlr_step_plan *p = r->plan;
    DLR_AUTO_FREE unsigned *place_of = calloc(p->nprefer, sizeof(*place_of));
    DLR_AUTO_FREE unsigned *nodes = calloc(p->nprefer, sizeof(*nodes));
    unsigned world = p->nprefer;
    unsigned n =
        place_of && nodes ? nodes_listed(p, r->in->nnodes, nodes, place_of) : 0;

    if (!n)
        return no_memory(r);
    if (r->value[DLR_SRUN_NTASKS] && !r->by_env[DLR_SRUN_NTASKS] && p->world != world)
        return dlr_fail(r->err, -EINVAL,
                        "srun --ntasks=%u and %u nodes in rank order: say one for each "
                        "task",
                        p->world, world);
    if (n > p->nplaces)
        return dlr_step_plan_too_many(r, "srun --distribution", "arbitrary",
                                      p->nplaces);
    free(p->prefer);
    p->prefer = DLR_STEAL(nodes);
    p->nprefer = p->nplaces = n;
    p->world = world;
    p->ordered = true;
    dlr_format(r->distribution, sizeof(r->distribution), "arbitrary");
    return seat(r, place_of);
}

/* --- by rule ---------------------------------------------------------------------- */

/* Entry i of "40,24(x3)"; 0 past its end or when it is malformed. */
static unsigned listed(const char *text, unsigned i)
{
    while (*text) {
        unsigned n = 0, times = 1;
        int len = 0;

        if (sscanf(text, "%u%n", &n, &len) != 1)
            return 0;
        text += len;
        if (sscanf(text, "(x%u)%n", &times, &len) == 1)
            text += len;
        if (i < times)
            return n;
        i -= times;
        text += *text == ',';
    }
    return 0;
}

static bool is_said(const reader *r, enum dlr_srun_action what)
{
    return r->value[what] && !r->by_env[what];
}

/* Where the user leaves it to Slurm, how many tasks each node of the job has is Slurm's
 * word: nodes may differ. True when the round has all of them; they are taken in the
 * allocation's order then.
 */
static bool spread_as_allocated(reader *r)
{
    const char *text = dlr_env_get(r->in->env, "SLURM_TASKS_PER_NODE");
    struct dlr_step_plan *p = r->plan;
    bool even = true;
    uint64_t sum = 0;

    if (!text || p->nplaces != r->in->nnodes || p->prefer || r->in->resized ||
        is_said(r, DLR_SRUN_NTASKS) || is_said(r, DLR_SRUN_PER_NODE))
        return false;
    for (unsigned i = 0; i < p->nplaces; i++) {
        unsigned n = listed(text, i);

        even &= n == p->world / p->nplaces + (i < p->world % p->nplaces);
        sum += n;
        if (!n)
            return false;
    }
    p->prefer =
        sum == p->world && !even ? calloc(p->nplaces, sizeof(*p->prefer)) : NULL;
    for (unsigned i = 0; p->prefer && i < p->nplaces; i++) {
        p->tasks[i] = listed(text, i);
        p->prefer[p->nprefer++] = i;
    }
    return p->ordered = p->prefer;
}

int dlr_step_plan_spread(struct dlr_step_plan_read *r)
{
    struct dlr_step_plan *p = r->plan;

    if (p->world < p->nplaces)
        return dlr_fail(r->err, -EINVAL,
                        "%u task(s) cannot fill %u nodes: say --nodes=%u", p->world,
                        p->nplaces, p->world);
    p->tasks = calloc(p->nplaces, sizeof(*p->tasks));
    if (!p->tasks)
        return no_memory(r);
    if (spread_as_allocated(r))
        return 0;
    for (unsigned i = 0; i < p->nplaces; i++)
        p->tasks[i] = p->world / p->nplaces + (i < p->world % p->nplaces);
    return 0;
}

static const char *said_by(const reader *r)
{
    return r->by_env[DLR_SRUN_DISTRIBUTION] ? "SLURM_DISTRIBUTION"
                                            : "srun --distribution";
}

static int deal_planes(reader *r, const char *text, const char *rest)
{
    const char *size =
        *rest == '=' ? rest + 1 : dlr_env_get(r->in->env, "SLURM_DIST_PLANESIZE");
    struct dlr_step_plan *p = r->plan;
    unsigned plane = 0;
    int rc;

    if (!size || dlr_step_plan_number(r, "plane size", size, &plane) < 0)
        return dlr_fail(r->err, -EINVAL, "%s=%s needs a size from 1 on: say plane=SIZE",
                        said_by(r), text);
    r->plane = plane;
    dlr_format(r->distribution, sizeof(r->distribution), "plane");
    rc = deal(r, plane);
    if (rc == 0 && r->in->env && !p->tasks[p->nplaces - 1]) /* it tells the room */
        return dlr_fail(r->err, -EINVAL,
                        "%s=plane: %u tasks in planes of %u do not reach %u nodes: say "
                        "--nodes=%u or a smaller plane",
                        said_by(r), p->world, plane, p->nplaces,
                        (p->world - 1) / plane + 1);
    return rc;
}

static int check_rest(reader *r, const char *text, const char *rest)
{
    if (strcasestr(text, ",pack"))
        return dlr_fail(r->err, -EINVAL,
                        "%s=%s cannot be supervised: a round spreads its tasks evenly "
                        "over its nodes; leave Pack out, or list the nodes in rank "
                        "order (arbitrary)",
                        said_by(r), text);
    if (*rest == ':' && !dlr_after(rest, ":cyclic") && rest[1] != '*')
        dlr_format(r->plan->note, sizeof(r->plan->note),
                   "srun --distribution=%.32s: nodes are filled so, but within a node "
                   "Slurm's default holds; --cpu-bind chooses cores",
                   text);
    return 0;
}

/* As srun itself puts it into the environment of tasks: "block:cyclic". */
static void call_it(reader *r, const char *kind, const char *rest)
{
    size_t more = *rest == ':' ? strspn(rest, ":abcdefghijklmnopqrstuvwxyz") : 0;

    if (dlr_format(r->distribution, sizeof(r->distribution), "%s%.*s", kind, (int)more,
                   rest) < 0)
        dlr_format(r->distribution, sizeof(r->distribution), "%s", kind);
}

/* Nodes are filled as said; what is said of cores and sockets is lost in the arbitrary
 * distribution that a round's step has.
 */
int dlr_step_plan_distribute(struct dlr_step_plan_read *r)
{
    const char *text = r->value[DLR_SRUN_DISTRIBUTION], *rest;
    struct dlr_step_plan *p = r->plan;
    bool one_each = p->world <= (r->least ? r->least : p->nplaces);
    int rc = 0;

    call_it(r, one_each && !r->counted ? "cyclic" : "block", "");
    if (!text)
        return 0;
    if ((rest = dlr_after(text, "cyclic"))) {
        call_it(r, "cyclic", rest);
        rc = deal(r, 1);
    } else if ((rest = dlr_after(text, "plane"))) {
        rc = deal_planes(r, text, rest);
        rest = "";
    } else if ((rest = dlr_after(text, "block"))) {
        call_it(r, "block", rest);
    }
    return rc < 0 || !rest ? rc : check_rest(r, text, rest);
}
