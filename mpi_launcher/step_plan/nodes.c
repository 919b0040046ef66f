/* SPDX-License-Identifier: Apache-2.0 */
/* Of the step plan: which nodes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/read.h"

typedef struct dlr_step_plan_read reader;

/* --- which nodes ------------------------------------------------------------------ */

static long find_node(const reader *r, const char *name)
{
    for (unsigned i = 0; r->in->names && i < r->in->nnodes; i++)
        if (dlr_streq(r->in->names[i], name))
            return i;
    return -1;
}

static void free_names(char **names, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* The nodes of a list or a file as indices, in its order, names repeated. One that the
 * job has not is refused, or left out when lenient.
 */
static int nodes_of(reader *r, const char *what, const char *text, bool is_file,
                    bool lenient, unsigned **ret, unsigned *ret_n)
{
    DLR_AUTO_FREE unsigned *list = NULL;
    char **names = NULL;
    unsigned n = 0, kept = 0;
    int rc = r->in->expand(text, is_file, &names, &n, r->err);

    if (rc < 0)
        return rc;
    list = calloc(n + 1, sizeof(*list));
    for (unsigned i = 0; list && rc == 0 && i < n; i++) {
        long at = find_node(r, names[i]);

        if (at >= 0)
            list[kept++] = at;
        else if (!lenient)
            rc = dlr_fail(r->err, -EINVAL, "%s: node %s is not in this job", what,
                          names[i]);
    }
    free_names(names, n);
    if (rc < 0)
        return rc;
    if (!list)
        return dlr_fail(r->err, -ENOMEM, "no memory for the nodes");
    *ret = kept ? DLR_STEAL(list) : NULL; /* of no node: as if none were named */
    *ret_n = kept;
    return 0;
}

int dlr_step_plan_read_exclude(struct dlr_step_plan_read *r)
{
    DLR_AUTO_FREE unsigned *list = NULL;
    const char *text = r->value[DLR_SRUN_EXCLUDE];
    unsigned n = 0;
    int rc;

    r->plan->barred = calloc(r->in->nnodes + 1, 1);
    if (!r->plan->barred)
        return dlr_fail(r->err, -ENOMEM, "no memory for the nodes");
    if (!text || !r->in->names)
        return 0;
    rc = nodes_of(r, "srun --exclude", text, strchr(text, '/'), true, &list, &n);
    for (unsigned i = 0; rc == 0 && i < n; i++)
        r->plan->barred[list[i]] = 1;
    return rc;
}

static bool is_arbitrary(const reader *r)
{
    const char *text = r->value[DLR_SRUN_DISTRIBUTION];

    return (text && dlr_after(text, "arbitrary")) ||
           (r->value[DLR_SRUN_HOSTFILE] && !r->value[DLR_SRUN_NODELIST]);
}

/* --nodelist, --nodefile or SLURM_HOSTFILE into plan->prefer, names repeated. */
int dlr_step_plan_read_prefer(struct dlr_step_plan_read *r)
{
    const char *list = r->value[DLR_SRUN_NODELIST], *file = r->value[DLR_SRUN_NODEFILE];
    const char *what = list ? "srun --nodelist" : "srun --nodefile";

    if (!r->in->names)
        return 0;
    if (!list && !file && is_arbitrary(r)) {
        file = r->value[DLR_SRUN_HOSTFILE];
        what = "SLURM_HOSTFILE";
        if (!file)
            return dlr_fail(r->err, -EINVAL,
                            "srun --distribution=arbitrary needs the nodes in "
                            "rank order: add --nodelist or set SLURM_HOSTFILE");
    }
    if (!list && !file)
        return 0;
    /* after a requeue a node that is not there may have been lost */
    return nodes_of(r, what, list ? list : file, !list || strchr(list, '/'),
                    r->in->nplaces, &r->plan->prefer, &r->plan->nprefer);
}

int dlr_step_plan_check_prefer(struct dlr_step_plan_read *r)
{
    for (unsigned i = 0; i < r->plan->nprefer; i++)
        if (r->plan->barred[r->plan->prefer[i]])
            return dlr_fail(r->err, -EINVAL,
                            "node %s is both in srun --nodelist and in --exclude",
                            r->in->names[r->plan->prefer[i]]);
    return 0;
}

/* Each node once; order of the list. */
static void drop_repeated(struct dlr_step_plan *p)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < p->nprefer; i++) {
        unsigned k = 0;

        while (k < kept && p->prefer[k] != p->prefer[i])
            k++;
        if (k == kept)
            p->prefer[kept++] = p->prefer[i];
    }
    p->nprefer = kept;
}

/* As many nodes as there are places, from the first on, or as there are. */
static int take_from(reader *r, unsigned first)
{
    struct dlr_step_plan *p = r->plan;

    p->prefer = calloc(p->nplaces, sizeof(*p->prefer));
    if (!p->prefer)
        return dlr_fail(r->err, -ENOMEM, "no memory for the nodes");
    for (unsigned i = first; i < r->in->nnodes && p->nprefer < p->nplaces; i++)
        if (!p->barred[i])
            p->prefer[p->nprefer++] = i;
    return 0;
}

/* --relative; after a requeue the allocation is another, and smaller perhaps. */
static int take_relative(reader *r)
{
    const char *text = r->value[DLR_SRUN_RELATIVE];
    struct dlr_step_plan *p = r->plan;
    unsigned first;
    int rc;

    if (!text || !r->in->names)
        return 0;
    if (dlr_parse_uint(text, DLR_STEP_PLAN_TASKS, &first) < 0)
        return dlr_fail(r->err, -EINVAL, "srun --relative '%s' is not a number", text);
    if (p->nprefer)
        return dlr_fail(r->err, -EINVAL,
                        "srun --relative and --nodelist both name nodes: say one");
    rc = take_from(r, first);
    if (rc == 0 && p->nprefer < p->nplaces && !r->in->nplaces)
        return dlr_fail(r->err, -EINVAL,
                        "srun --relative=%u: %u nodes are needed from there on, the "
                        "allocation of %u has %u: say --nodes",
                        first, p->nplaces, r->in->nnodes, p->nprefer);
    return rc;
}

/* A step smaller than the allocation begins at its first nodes, as srun's own does. */
static int take_first(reader *r)
{
    struct dlr_step_plan *p = r->plan;

    if (p->prefer || r->in->nplaces || p->nplaces >= dlr_step_plan_most(r))
        return 0;
    p->first = true;
    return take_from(r, 0);
}

int dlr_step_plan_choose_nodes(struct dlr_step_plan_read *r)
{
    struct dlr_step_plan *p = r->plan;
    int rc;

    if (is_arbitrary(r) && p->prefer && !r->in->nplaces)
        return dlr_step_plan_node_is_listed(r);
    drop_repeated(p);
    if (!r->in->nplaces && p->nprefer > p->nplaces)
        return dlr_fail(r->err, -EINVAL,
                        "srun --nodelist names %u nodes, but %u are to run tasks%s",
                        p->nprefer, p->nplaces,
                        r->in->spares ? " beside the spares (--dlrover-spares)"
                                      : ": say --nodes");
    rc = dlr_step_plan_spread(r);
    if (rc == 0)
        rc = take_relative(r);
    if (rc == 0)
        rc = take_first(r);
    if (rc == 0 && !is_arbitrary(r))
        rc = dlr_step_plan_distribute(r);
    if (rc == 0 && !r->distribution[0])
        dlr_format(r->distribution, sizeof(r->distribution), "arbitrary");
    return rc;
}
