/* SPDX-License-Identifier: Apache-2.0 */
/* The user's srun as a plan of its step: read once before anything is begun, made when
 * it is known what an earlier incarnation has fixed.
 */
#include "mpi_launcher/supervisor/planning/step_of_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/run/node_claims.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

#define NODE_FILE_MAX (1u << 20)

extern char **environ;

static void run_plain(char **argv)
{
    char mark[64];
    sigset_t none;

    snprintf(mark, sizeof(mark), "%.32s.0.plain", getenv("SLURM_JOB_ID"));
    setenv("DLROVER_SUPERVISED", mark, 1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp("srun", argv);
    fprintf(stderr, "dlrover: cannot start srun: %s\n", strerror(errno));
    exit(127);
}

const char *dlr_sup_of_allocation(const char *all, const char *shown)
{
    const char *job = getenv("DLROVER_ALL_JOB");

    return job && dlr_streq(job, getenv("SLURM_JOB_ID")) && getenv(all) ? getenv(all)
                                                                        : getenv(shown);
}

/* srun's arguments alone: a mistake in them, and one that starts no step. What this
 * allocation makes of them is known only with the state of an earlier incarnation.
 */
int dlr_sup_read_step(struct dlr_sup_planning *planning, int argc, char **argv,
                      int srun_words, struct dlr_err *err)
{
    struct dlr_step_plan_in in = {.argc = argc,
                                  .argv = argv,
                                  .words = srun_words,
                                  .nnodes = planning->members->n};
    struct dlr_step_plan step;
    bool plain;
    int rc = dlr_step_plan_make(&in, &step, err);

    if (rc < 0)
        return rc;
    planning->argc = argc;
    planning->argv = argv;
    planning->srun_words = srun_words;
    plain = step.plain;
    if (plain && step.note[0])
        dlr_user_line(planning->env.io, "%s", step.note);
    dlr_step_plan_done(&step);
    if (plain)
        run_plain(argv);
    return 0;
}

/* A file of nodes as one list: a line is a list, '#' begins a comment. */
static int load_list(const char *path, char **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    char *to;
    int rc = dlr_file_load(AT_FDCWD, path, NODE_FILE_MAX, &text, NULL, err);

    if (rc < 0)
        return rc;
    to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '#')
            from += strcspn(from, "\n");
        if (!*from)
            break;
        if (!strchr(" \t\r\n", *from))
            *to++ = *from;
        else if (to > text && to[-1] != ',')
            *to++ = ',';
    }
    while (to > text && to[-1] == ',')
        to--;
    *to = '\0';
    *ret = DLR_STEAL(text);
    return 0;
}

static int expand(const char *text, bool is_file, char ***ret_names, unsigned *ret_n,
                  struct dlr_err *err)
{
    DLR_AUTO_FREE char *list = NULL;
    int rc = is_file ? load_list(text, &list, err) : 0;

    return rc < 0 ? rc : dlr_slurm_expand(is_file ? list : text, ret_names, ret_n, err);
}

/* environ with the allocation's number of tasks in place of the one shown to the
 * script.
 */
static int plan_env(struct dlr_env *env)
{
    const char *ntasks = dlr_sup_of_allocation("DLROVER_ALL_NTASKS", "SLURM_NTASKS");

    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        DLR_AUTO_FREE char *name = equals ? strndup(*e, equals - *e) : NULL;

        if (name && dlr_env_set(env, name, "%s", equals + 1) < 0)
            return -ENOMEM;
    }
    return ntasks ? dlr_env_set(env, "SLURM_NTASKS", "%s", ntasks) : 0;
}

/* Nodes that no other run of the job has begun on, when the user names none. */
static unsigned take_free(struct dlr_sup_planning *planning, char *const *names,
                          pid_t holder, unsigned *ret_chosen)
{
    DLR_AUTO_FREE unsigned char *may = calloc(planning->members->n + 1, 1);
    char path[DLR_RUN_PATH + 32];
    struct dlr_err err;
    int n;

    for (unsigned i = 0; may && i < planning->members->n; i++)
        may[i] = !dlr_step_plan_bars(&planning->step, i);
    snprintf(path, sizeof(path), "%s/.nodes-%u", planning->env.info->job_dir,
             planning->env.info->incarnation);
    n = may ? dlr_node_claims_take(path, holder, names, may, planning->members->n,
                                   planning->step.nplaces, ret_chosen, &err)
            : -ENOMEM;
    return n < 0 ? 0 : n; /* they meet, as they would without any file */
}

static int prefer(struct dlr_sup_planning *planning, char *const *names, pid_t holder,
                  struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned *chosen = calloc(planning->members->n + 1, sizeof(*chosen));
    unsigned *list = planning->step.prefer, n = planning->step.nprefer, taken = 0;

    planning->prefer = calloc(planning->members->n + 1, sizeof(*planning->prefer));
    if (!planning->prefer || !chosen)
        return dlr_fail(err, -ENOMEM, "no memory for the step");
    if (planning->step.first && !dlr_sup_file_hangs(planning->env.io))
        taken = take_free(planning, names, holder, chosen);
    if (taken) {
        list = chosen;
        planning->step.nprefer = n = taken;
    }
    for (unsigned i = 0; i < n; i++)
        planning->prefer[i] = names[list[i]];
    return 0;
}

static int make_plan(struct dlr_sup_planning *planning, struct dlr_step_plan_in *in,
                     pid_t holder, struct dlr_err *err)
{
    DLR_AUTO_FREE char **names = calloc(planning->members->n + 1, sizeof(*names));
    struct dlr_env env = {0};
    int rc = names ? plan_env(&env) : -ENOMEM;

    for (unsigned i = 0; names && i < planning->members->n; i++)
        names[i] = planning->members->list[i].node.name;
    in->env = env.list;
    in->release = dlr_slurm_release();
    in->names = names;
    if (rc < 0)
        rc = dlr_fail(err, rc, "no memory for the step");
    else
        rc = dlr_step_plan_make(in, &planning->step, err);
    if (rc == 0 && !in->resized)
        rc = prefer(planning, names, holder, err);
    dlr_env_done(&env);
    return rc;
}

/* The user's words, and what is asked of them in any case. */
static struct dlr_step_plan_in all_words(const struct dlr_sup_planning *planning)
{
    return (struct dlr_step_plan_in){
        .argc = planning->argc,
        .argv = planning->argv,
        .words = planning->srun_words,
        .nnodes = planning->members->n,
        .spares = planning->env.conf->spares,
        .most = planning->env.conf->nodes.max,
        .expand = expand,
    };
}

int dlr_sup_plan_step(struct dlr_sup_planning *planning, pid_t holder, bool took_over,
                      struct dlr_err *err)
{
    struct dlr_step_plan_in in = all_words(planning);
    unsigned world = planning->step.world;
    int rc;

    if (planning->env.info->incarnation) { /* else it was planned for this allocation */
        in.nplaces = planning->step.nplaces; /* both by dlr_sup_step_resume() */
        in.world = world;
    }
    rc = make_plan(planning, &in, holder, err);
    if (rc == 0 && world && planning->step.world != world)
        return dlr_fail(err, -EINVAL,
                        "the run began with %u tasks and would go on with %u", world,
                        planning->step.world);
    planning->full_places = planning->step.nplaces;
    planning->full_world = planning->step.world;
    if (rc == 0 && planning->step.note[0] && !took_over)
        dlr_user_line(planning->env.io, "%s", planning->step.note);
    return rc;
}

/* Which nodes are wanted first, or not at all, was said once and stays. */
int dlr_sup_replan_step(struct dlr_sup_planning *planning, unsigned nplaces,
                        struct dlr_err *err)
{
    struct dlr_step_plan_in in = all_words(planning);
    struct dlr_step_plan *step = &planning->step, was = *step;
    int rc;

    in.nplaces = nplaces;
    in.world =
        (unsigned)((uint64_t)planning->full_world * nplaces / planning->full_places);
    in.resized = true;
    rc = make_plan(planning, &in, 0, err);
    if (rc < 0) {
        *step = was;
        return rc;
    }
    free(step->prefer);
    step->prefer = DLR_STEAL(was.prefer);
    step->nprefer = was.nprefer;
    step->first = was.first;
    dlr_step_plan_done(&was);
    return 0;
}

/* Entry i of "2(x3),4"; false past its end or when it is malformed. */
static bool cpus_of(const char *text, unsigned i, unsigned *ret)
{
    while (*text) {
        char *end;
        unsigned long cpus = strtoul(text, &end, 10), times = 1;
        const char *x = dlr_after(end, "(x");

        if (end == text)
            return false;
        if (x) {
            times = strtoul(x, &end, 10);
            end += *end == ')';
        }
        if (i < times) {
            *ret = cpus;
            return true;
        }
        i -= times;
        text = end + (*end == ',');
    }
    return false;
}

/* The script's list, for the nodes of the round in rank order. One that the script was
 * not shown is taken for like the one whose place it has.
 */
static bool cpus_at(const struct dlr_sup_planning *planning, char **shown,
                    unsigned nshown, unsigned p, const char *text, unsigned *ret)
{
    unsigned i = 0;

    while (i < nshown && !dlr_streq(shown[i], planning->plan.places[p].node.name))
        i++;
    return cpus_of(text, i < nshown ? i : p, ret);
}

static int set_cpus(const struct dlr_sup_planning *planning, char **shown,
                    unsigned nshown, const char *text, struct dlr_env *env)
{
    DLR_AUTO_FREE char *list = NULL;
    size_t size = 0;
    unsigned last = 0, times = 0, cpus = 0, nplaces = planning->plan.nplaces;
    DLR_AUTO_FCLOSE FILE *f = open_memstream(&list, &size);

    for (unsigned p = 0; f && p <= nplaces; p++) {
        if (p < nplaces && !cpus_at(planning, shown, nshown, p, text, &cpus))
            return 0; /* better none than a wrong one */
        if (times && (p == nplaces || cpus != last)) {
            fprintf(f, times > 1 ? "%s%u(x%u)" : "%s%u", ftell(f) ? "," : "", last,
                    times);
            times = 0;
        }
        last = cpus;
        times++;
    }
    if (!f || fflush(f) != 0)
        return -ENOMEM;
    return dlr_env_set(env, "SLURM_JOB_CPUS_PER_NODE", "%s", list);
}

int dlr_sup_shape_env(const struct dlr_sup_planning *planning, struct dlr_env *env)
{
    const char *text = getenv("SLURM_JOB_CPUS_PER_NODE");
    const char *list = getenv("SLURM_JOB_NODELIST");
    char **shown = NULL;
    unsigned n = 0;
    int rc = 0;

    if (text && list && dlr_slurm_expand(list, &shown, &n, NULL) == 0)
        rc = set_cpus(planning, shown, n, text, env);
    dlr_slurm_free_names(shown, n);
    if (rc == 0)
        rc = dlr_env_set(env, "DLROVER_SHAPE", "%s", planning->step.shape);
    return rc;
}

/* --- what others read ------------------------------------------------------------- */

const struct dlr_step_plan *dlr_sup_step(const struct dlr_sup_planning *planning)
{
    return &planning->step;
}

unsigned dlr_sup_full_places(const struct dlr_sup_planning *planning)
{
    return planning->full_places;
}

unsigned dlr_sup_full_world(const struct dlr_sup_planning *planning)
{
    return planning->full_world;
}

char *const *dlr_sup_srun_words(const struct dlr_sup_planning *planning)
{
    return planning->argv;
}

uint32_t dlr_sup_job_number(const struct dlr_sup_planning *planning)
{
    uint32_t number = 0;

    dlr_parse_uint(planning->env.info->job, UINT32_MAX, &number);
    return number;
}

const int *dlr_sup_shown(struct dlr_sup_planning *planning, unsigned *ret_n)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    char **names = NULL;
    struct dlr_err err;
    unsigned n = 0;

    if (!planning->shown && list && dlr_slurm_expand(list, &names, &n, &err) == 0) {
        planning->shown = calloc(n, sizeof(*planning->shown));
        planning->nshown = planning->shown ? n : 0;
        for (unsigned i = 0; i < planning->nshown; i++)
            planning->shown[i] = dlr_members_find(planning->members, names[i]);
        dlr_slurm_free_names(names, n);
    }
    *ret_n = planning->nshown;
    return planning->shown;
}

void dlr_sup_step_resume(struct dlr_sup_planning *planning, unsigned nplaces,
                         unsigned world)
{
    planning->step.nplaces = nplaces;
    planning->step.world = world;
}

void dlr_sup_step_done(struct dlr_sup_planning *planning)
{
    dlr_step_plan_done(&planning->step);
    free(planning->prefer);
    free(planning->shown);
}
