/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/env.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/srun_time.h"

int dlr_step_plan_keep(struct dlr_step_plan_read *r, const char *fmt, ...)
{
    char *word;
    va_list ap;

    va_start(ap, fmt);
    word = dlr_vformat_new(fmt, ap);
    va_end(ap);
    if (!word)
        return dlr_fail(r->err, -ENOMEM, "no memory for srun's options");
    r->plan->options[r->plan->noptions++] = word;
    return 0;
}

int dlr_step_plan_number(struct dlr_step_plan_read *r, const char *what,
                         const char *text, unsigned *ret)
{
    if (dlr_parse_uint(text, DLR_STEP_PLAN_TASKS, ret) < 0 || !*ret)
        return dlr_fail(r->err, -EINVAL, "%s '%s' is not a number from 1 to %u", what,
                        text, DLR_STEP_PLAN_TASKS);
    return 0;
}

unsigned dlr_step_plan_barred(const struct dlr_step_plan_read *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->in->nnodes; i++)
        n += r->plan->barred[i];
    return n;
}

unsigned dlr_step_plan_most(const struct dlr_step_plan_read *r)
{
    unsigned held = dlr_step_plan_barred(r) + r->in->spares;
    unsigned n = held < r->in->nnodes ? r->in->nnodes - held : 0;

    return r->in->most && r->in->most < n ? r->in->most : n;
}

int dlr_step_plan_too_many(struct dlr_step_plan_read *r, const char *what,
                           const char *text, unsigned most)
{
    unsigned nbarred = dlr_step_plan_barred(r);
    unsigned spares = r->in->nnodes - nbarred - most;
    char barred[64] = "";

    if (nbarred)
        snprintf(barred, sizeof(barred), " and %u left out (--exclude)", nbarred);
    return dlr_fail(r->err, -EINVAL,
                    "%s=%s needs more nodes than there are: the allocation of %u has "
                    "%u beside its %u spare(s) (--dlrover-%s)%s",
                    what, text, r->in->nnodes, most, spares,
                    spares > r->in->spares ? "nodes" : "spares", barred);
}

static void be_plain(struct dlr_step_plan_read *r, const struct dlr_srun_option *o)
{
    r->plan->plain = true;
    if (o->why)
        dlr_format(r->plan->note, sizeof(r->plan->note),
                   "srun %s%s is run without supervision: %s",
                   o->name[0] == ':' ? "" : "--", o->name, o->why);
}

/* One option with its value (NULL: none) as the words that stood there. */
static int apply(struct dlr_step_plan_read *r, const struct dlr_srun_option *o,
                 const char *value, const char *word, const char *next_word)
{
    int rc;

    switch (o->action) {
    case DLR_SRUN_PASS:
        break;
    case DLR_SRUN_DROP:
        r->plan->overlap |= dlr_streq(o->name, "overlap");
        return 0;
    case DLR_SRUN_PLAIN:
        be_plain(r, o);
        return 0;
    case DLR_SRUN_REFUSE:
        return dlr_fail(r->err, -EINVAL, "srun --%s cannot be supervised: %s", o->name,
                        o->why);
    case DLR_SRUN_EXCLUSIVE:
        return value ? 0 : dlr_step_plan_keep(r, "--exact");
    default:
        r->value[o->action] = value;
        r->by_env[o->action] = false;
        return 0;
    }
    if (o->letter == 'c')
        r->cpus = value;
    if (o->letter == 'K') {
        r->bad_exit = true;
        r->plan->tolerant = value && dlr_streq(value, "0");
    }
    if (o->letter == 't')
        r->plan->limit_ms = dlr_srun_time_ms(value);
    r->mem_said |= dlr_streq(o->name, "mem") || dlr_streq(o->name, "mem-per-gpu");
    r->gpus_said |= dlr_after(o->name, "gpus-per-") || dlr_streq(o->name, "gres");
    rc = dlr_step_plan_keep(r, "%s", word);
    return rc < 0 || !next_word ? rc : dlr_step_plan_keep(r, "%s", next_word);
}

static int take_long(struct dlr_step_plan_read *r, const char *word)
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
        return dlr_step_plan_keep(r, "%s",
                                  word); /* another plugin's, or srun will complain */
    if (o->arg == DLR_SRUN_ARG && !value) {
        if (r->at + 1 >= r->in->argc)
            return dlr_fail(r->err, -EINVAL, "srun --%s needs an argument", o->name);
        value = next = r->in->argv[++r->at];
    }
    return apply(r, o, value, word, next);
}

/* "-lN4": letters up to the first with an argument, which takes the rest or the next
 * word.
 */
static int take_letters(struct dlr_step_plan_read *r, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        const struct dlr_srun_option *o = dlr_srun_find_letter(*p);
        const char *value = NULL, *next = NULL;
        char single[3] = {'-', *p, '\0'};
        char joined[4096];
        int rc;

        if (!o && r->in->words) /* a newer srun's */
            return dlr_step_plan_keep(r, "-%s", p);
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

/* The daemons of an mpirun in the script: they are the launcher's, which ends with the
 * first that is lost.
 */
static bool is_of_launcher(const char *program)
{
    static const char *const daemons[] = {"orted", "prted", "hydra_pmi_proxy",
                                          "hydra_bstrap_proxy", "pmi_proxy"};
    const char *slash = strrchr(program, '/');

    for (unsigned i = 0; i < sizeof(daemons) / sizeof(*daemons); i++)
        if (dlr_streq(slash ? slash + 1 : program, daemons[i]))
            return true;
    return false;
}

static void look_for_launcher(struct dlr_step_plan_read *r)
{
    static const struct dlr_srun_option launcher = {
        .name = ": mpirun",
        .why = "it starts the program's processes itself; start them by srun"};

    if (r->at < r->in->argc && is_of_launcher(r->in->argv[r->at]))
        be_plain(r, &launcher);
}

/* srun takes any such word for the end of one command and the start of another. */
static void look_for_second(struct dlr_step_plan_read *r)
{
    static const struct dlr_srun_option second = {
        .name = ": COMMAND",
        .why = "a step of several commands cannot do without a node"};

    for (int i = r->at; i < r->in->argc; i++)
        if (dlr_streq(r->in->argv[i], ":"))
            be_plain(r, &second);
}

static int read_words(struct dlr_step_plan_read *r)
{
    int end = r->in->words && r->in->words <= r->in->argc ? r->in->words : r->in->argc;
    const char *bad_exit, *limit = dlr_env_get(r->in->env, "SLURM_TIMELIMIT");

    r->plan->limit_ms = limit ? dlr_srun_time_ms(limit) : 0;
    for (r->at = 1; r->at < end; r->at++) {
        const char *word = r->in->argv[r->at];
        int rc;

        if (dlr_streq(word, "--")) {
            r->at++;
            break;
        }
        if (word[0] == '-' && word[1])
            rc = word[1] == '-' ? take_long(r, word) : take_letters(r, word);
        else if (r->in->words)
            rc = dlr_step_plan_keep(r, "%s", word); /* of an option before it */
        else
            break;
        if (rc < 0)
            return rc;
    }
    if (r->at > r->in->argc || r->in->words)
        r->at = end;
    look_for_second(r);
    look_for_launcher(r);
    bad_exit = dlr_env_get(r->in->env, "SLURM_KILL_BAD_EXIT");
    if (!r->bad_exit && bad_exit)
        r->plan->tolerant = dlr_streq(bad_exit, "0");
    if (!r->cpus)
        r->cpus =
            dlr_env_get(r->in->env, r->in->release >= 2311 ? "SLURM_CPUS_PER_TASK"
                                                           : "SRUN_CPUS_PER_TASK");
    r->plan->overlap |= dlr_env_get(r->in->env, "SLURM_OVERLAP") != NULL;
    r->plan->mem_per_cpu = r->value[DLR_SRUN_MEM_PER_CPU];
    r->plan->mem_said = r->mem_said || r->plan->mem_per_cpu;
    r->plan->by_cpu =
        r->plan->mem_per_cpu ||
        (!r->mem_said && dlr_env_get(r->in->env, "SLURM_MEM_PER_CPU") != NULL);
    r->plan->program = r->in->argv + r->at;
    if (!r->plan->plain && r->at >= r->in->argc)
        return dlr_fail(r->err, -EINVAL, "srun: no program to run was named");
    return 0;
}

/* What the command line has not said; of two variables for one thing the later row
 * wins.
 */
static int read_env(struct dlr_step_plan_read *r)
{
    for (const struct dlr_srun_option *o = dlr_srun_vars; o->name; o++) {
        const char *value = o->action == DLR_SRUN_DROP || o->action == DLR_SRUN_PASS
                                ? NULL
                                : dlr_env_get(r->in->env, o->name);

        if (!value)
            continue;
        if (o->action == DLR_SRUN_REFUSE)
            return dlr_fail(r->err, -EINVAL, "%s is set: %s", o->name, o->why);
        if (r->value[o->action] && !r->by_env[o->action])
            continue;
        r->value[o->action] = value;
        r->by_env[o->action] = true;
    }
    return 0;
}

int dlr_step_plan_read(struct dlr_step_plan_read *r)
{
    size_t most = 16; /* room for words of our own */
    int rc;

    for (int i = 0; i < r->in->argc; i++) /* "-lvv" becomes a word for each letter */
        most += strlen(r->in->argv[i]) + 1;
    r->plan->options = calloc(most, sizeof(*r->plan->options));
    if (!r->plan->options)
        return dlr_fail(r->err, -ENOMEM, "no memory for srun's options");
    rc = read_words(r);
    return rc < 0 || r->plan->plain ? rc : read_env(r);
}
