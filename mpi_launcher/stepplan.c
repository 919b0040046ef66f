/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/stepplan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "mpi_launcher/srun_options.h"

#define MAX_TASKS 1048576u

struct reader {
    const struct dlr_stepplan_in *in;
    struct dlr_stepplan *plan;
    struct dlr_err *err;
    const char *ntasks, *nodes,
        *per_node; /* the last word of each on the command line */
    int at;
};

static int keep(struct reader *r, const char *word)
{
    char *copy = strdup(word);

    if (!copy)
        return dlr_fail(r->err, -ENOMEM, "no memory for srun's options");
    r->plan->options[r->plan->noptions++] = copy;
    return 0;
}

/* One option with its value (NULL: none) as the words that stood there. */
static int apply(struct reader *r, const struct dlr_srun_option *o, const char *value,
                 const char *word, const char *next_word)
{
    int rc;

    switch (o->action) {
    case DLR_SRUN_DROP:
        return 0;
    case DLR_SRUN_NTASKS:
        r->ntasks = value;
        return 0;
    case DLR_SRUN_NODES:
        r->nodes = value;
        return 0;
    case DLR_SRUN_PER_NODE:
        r->per_node = value;
        return 0;
    case DLR_SRUN_PLAIN:
        r->plan->plain = true;
        return 0;
    case DLR_SRUN_REFUSE:
        return dlr_fail(r->err, -EINVAL, "srun --%s cannot be supervised: %s", o->name,
                        o->why);
    case DLR_SRUN_PASS:
        break;
    }
    rc = keep(r, word);
    return rc < 0 || !next_word ? rc : keep(r, next_word);
}

static int take_long(struct reader *r, const char *word)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct dlr_srun_option *o = dlr_srun_find(name, len);
    const char *value = equals ? equals + 1 : NULL, *next = NULL;

    if (dlr_after(name, "dlrover") &&
        (name[7] == '\0' || name[7] == '=' || name[7] == '-')) {
        if (!value)
            r->at++; /* all of ours have an argument */
        return 0;
    }
    if (!o)
        return keep(r, word); /* another plugin's, or srun will complain */
    if (o->arg == DLR_SRUN_ARG && !value) {
        if (r->at + 1 >= r->in->argc)
            return dlr_fail(r->err, -EINVAL, "srun --%s needs an argument", o->name);
        value = next = r->in->argv[++r->at];
    }
    return apply(r, o, value, word, next);
}

/* "-lN4": letters up to the first with an argument, which takes the rest or the next word. */
static int take_letters(struct reader *r, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        const struct dlr_srun_option *o = dlr_srun_find_letter(*p);
        const char *value = NULL, *next = NULL;
        char single[3] = {'-', *p, '\0'};
        char joined[4096];
        int rc;

        if (!o)
            return dlr_fail(r->err, -EINVAL, "srun has no option -%c (in '%s')", *p,
                            word);
        if (o->arg != DLR_SRUN_NO_ARG && p[1])
            value = p + 1;
        if (o->arg == DLR_SRUN_ARG && !value) {
            if (r->at + 1 >= r->in->argc)
                return dlr_fail(r->err, -EINVAL, "srun -%c needs an argument", *p);
            value = next = r->in->argv[++r->at];
        }
        if (dlr_format(joined, sizeof(joined), "%s%s", single,
                       next || !value ? "" : value))
            return dlr_fail(r->err, -EINVAL, "srun -%c: its argument is too long", *p);
        rc = apply(r, o, value, joined, next);
        if (rc < 0 || value)
            return rc;
    }
    return 0;
}

static int read_words(struct reader *r)
{
    for (r->at = 1; r->at < r->in->argc; r->at++) {
        const char *word = r->in->argv[r->at];
        int rc;

        if (dlr_streq(word, "--")) {
            r->at++;
            break;
        }
        if (word[0] != '-' || !word[1])
            break;
        rc = word[1] == '-' ? take_long(r, word) : take_letters(r, word);
        if (rc < 0)
            return rc;
    }
    r->plan->program = r->in->argv + r->at;
    if (!r->plan->plain && r->at >= r->in->argc)
        return dlr_fail(r->err, -EINVAL, "srun: no program to run was named");
    return 0;
}

static int number(struct reader *r, const char *what, const char *text, unsigned *ret)
{
    if (dlr_parse_uint(text, MAX_TASKS, ret) < 0 || !*ret)
        return dlr_fail(r->err, -EINVAL, "%s '%s' is not a number from 1 to %u", what,
                        text, MAX_TASKS);
    return 0;
}

/* "4" or "4-6": the range's upper end counts, as srun itself takes as many as there are. */
static int nodes_wanted(struct reader *r, unsigned most, unsigned *ret)
{
    const char *dash = strrchr(r->nodes, '-');
    unsigned low, high;
    char text[32];
    int rc;

    if (dlr_format(text, sizeof(text), "%.*s",
                   dash ? (int)(dash - r->nodes) : (int)strlen(r->nodes), r->nodes) < 0)
        text[0] = '\0';
    rc = number(r, "srun --nodes", text, &low);
    if (rc < 0)
        return rc;
    high = low;
    if (dash && (rc = number(r, "srun --nodes", dash + 1, &high)) < 0)
        return rc;
    if (low > most)
        return dlr_fail(
            r->err, -EINVAL,
            "srun --nodes=%s needs %u nodes, but the allocation of %u has %u "
            "beside its %u spare(s) (--dlrover-spares)",
            r->nodes, low, r->in->nnodes, most, r->in->spares);
    *ret = high < most ? high : most;
    return 0;
}

static int choose_places(struct reader *r)
{
    unsigned most;

    if (r->in->nplaces) {
        r->plan->nplaces = r->in->nplaces;
        return 0;
    }
    if (r->in->spares >= r->in->nnodes)
        return dlr_fail(
            r->err, -EINVAL,
            "--dlrover-spares=%u leaves no node to train on in an allocation of "
            "%u: ask for more nodes or fewer spares",
            r->in->spares, r->in->nnodes);
    most = r->in->nnodes - r->in->spares;
    r->plan->nplaces = most;
    return r->nodes ? nodes_wanted(r, most, &r->plan->nplaces) : 0;
}

/* A number in the environment was meant for the whole allocation: it keeps its share of each
 * node. A number on srun's command line is meant as it stands.
 */
static int choose_world(struct reader *r)
{
    struct dlr_stepplan *p = r->plan;
    unsigned n;
    int rc;

    if (r->ntasks) {
        rc = number(r, "srun --ntasks", r->ntasks, &p->world);
        if (rc == 0 && p->world < p->nplaces && !r->in->nplaces && !r->nodes)
            p->nplaces = p->world; /* as srun does: no more nodes than tasks */
        return rc;
    }
    if (r->in->world &&
        !r->per_node) { /* the environment is of another allocation now */
        p->world = r->in->world;
        return 0;
    }
    if (r->per_node || r->in->per_node) {
        rc = number(r, "--ntasks-per-node", r->per_node ? r->per_node : r->in->per_node,
                    &n);
        if (rc == 0 && n > MAX_TASKS / p->nplaces)
            return dlr_fail(r->err, -EINVAL,
                            "%u tasks on each of %u nodes are too many", n, p->nplaces);
        p->world = rc == 0 ? n * p->nplaces : 0;
        return rc;
    }
    if (!r->in->ntasks) {
        p->world = p->nplaces;
        return 0;
    }
    rc = number(r, "SLURM_NTASKS", r->in->ntasks, &n);
    if (rc < 0)
        return rc;
    if (n % r->in->nnodes)
        return dlr_fail(
            r->err, -EINVAL,
            "%u tasks do not divide over %u nodes, so it is not clear how many "
            "%u nodes should run: say srun --ntasks=N",
            n, r->in->nnodes, p->nplaces);
    p->world = n / r->in->nnodes * p->nplaces;
    return 0;
}

static int spread(struct reader *r)
{
    struct dlr_stepplan *p = r->plan;

    if (p->world < p->nplaces)
        return dlr_fail(r->err, -EINVAL,
                        "%u task(s) cannot fill %u nodes: say --nodes=%u", p->world,
                        p->nplaces, p->world);
    p->tasks = calloc(p->nplaces, sizeof(*p->tasks));
    if (!p->tasks)
        return dlr_fail(r->err, -ENOMEM, "no memory for the step");
    for (unsigned i = 0; i < p->nplaces; i++)
        p->tasks[i] = p->world / p->nplaces + (i < p->world % p->nplaces);
    return 0;
}

int dlr_stepplan_make(const struct dlr_stepplan_in *in, struct dlr_stepplan *ret,
                      struct dlr_err *err)
{
    struct reader r = {.in = in, .plan = ret, .err = err};
    size_t most = 1;
    int rc;

    memset(ret, 0, sizeof(*ret));
    for (int i = 0; i < in->argc; i++) /* "-lvv" becomes a word for each letter */
        most += strlen(in->argv[i]) + 1;
    ret->options = calloc(most, sizeof(*ret->options));
    if (!ret->options)
        return dlr_fail(err, -ENOMEM, "no memory for srun's options");
    rc = read_words(&r);
    if (rc == 0 && !ret->plain) {
        rc = choose_places(&r);
        if (rc == 0)
            rc = choose_world(&r);
        if (rc == 0)
            rc = spread(&r);
    }
    if (rc < 0)
        dlr_stepplan_done(ret);
    return rc;
}

void dlr_stepplan_done(struct dlr_stepplan *plan)
{
    for (unsigned i = 0; i < plan->noptions; i++)
        free(plan->options[i]);
    free(plan->options);
    free(plan->tasks);
    memset(plan, 0, sizeof(*plan));
}
