/* SPDX-License-Identifier: Apache-2.0 */
/* The SPANK plugin: reads what Slurm says, calls the module that knows, translates the
 * result.
 *
 * Install it as "optional": Slurm then ignores every return value but those of options.
 * Where it is "required" (spank(8), Slurm 22.05 to 25.11), and when we return non-zero:
 *
 *   hook            runs in                        non-zero would
 *   we do
 *   init            every command, slurmd, stepd   stop sbatch and srun; drain a node
 *   never
 *   option          sbatch, salloc, srun           stop the command with the message
 *   -1: bad value
 *   init_post_opt   sbatch, salloc, srun, stepd    stop the command; drain a node
 *   never
 *   user_init       slurmstepd                     fail the step
 *   never
 *   task_init_priv. the task, still root           fail the task
 *   never
 *   task_init       the task, before its exec      fail the task
 *   never
 *   task_post_fork  slurmstepd                     fail the step
 *   never
 *   task_exit       slurmstepd                     be logged
 *   never
 *   job_epilog      slurmd's helper                drain the node
 *   never
 *
 * Only 0 and -1 are returned: before 25.05 a positive value is no failure, from then on
 * it is.
 */
#include <getopt.h>
#include <slurm/slurm_version.h>
#include <slurm/spank.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "spank/base/options.h"
#include "spank/base/script_env.h"
#include "spank/command/allocator.h"
#include "spank/command/handover.h"
#include "spank/items.h"
#include "spank/node/container_tmpfs.h"
#include "spank/node/job_tmpfs.h"
#include "spank/task/batch_env.h"
#include "spank/task/step.h"

SPANK_PLUGIN(dlrover, 1);

static struct {
    struct dlr_spank_conf conf;
    struct dlr_allocator alloc; /* sbatch, salloc */
    struct dlr_step step;       /* slurmstepd */
    int tree;                   /* the job's tmpfs, for its container; -1: none */
    bool warned;                /* that there is no spare, once for all components */
} plugin = {.step = DLR_STEP_NONE, .tree = -1};

static void log_to_slurm(void *arg, enum dlr_log_level level, const char *text)
{
    if (level == DLR_LOG_ERROR)
        slurm_error("dlrover: %s", text);
    else if (level == DLR_LOG_DEBUG)
        slurm_debug("dlrover: %s", text);
    else
        slurm_info("dlrover: %s", text);
}

static void complain(const struct dlr_err *err)
{
    dlr_error("%s", err->text);
}

static int take_option(int option, const char *value, int remote)
{
    struct dlr_err err = {0};

    if (dlr_options_set(&plugin.conf, option, value, &err) < 0 && !remote) {
        complain(&err); /* remote: it was judged where the user gave it */
        return -1;
    }
    if (spank_context() == S_CTX_ALLOCATOR)
        dlr_allocator_option(&plugin.alloc, plugin.conf.job.enable);
    return 0;
}

/* Slurm keeps copies. */
static void register_options(spank_t sp)
{
    for (size_t i = 0; i < DLR_OPTIONS_COUNT; i++) {
        DLR_AUTO_FREE char *usage = dlr_options_usage(i);
        char name[DLR_OPTIONS_NAME];
        struct spank_option option = {.name = name,
                                      .arginfo = (char *)dlr_options_arg(i),
                                      .usage = usage ? usage : name,
                                      .has_arg = 1,
                                      .val = i,
                                      .cb = take_option};

        dlr_options_name(i, name);
        if (spank_option_register(sp, &option) != ESPANK_SUCCESS)
            dlr_error("Slurm does not take option --%s", name);
    }
}

int slurm_spank_init(spank_t sp, int ac, char *av[])
{
    spank_context_t where = spank_context();
    char **env = where == S_CTX_REMOTE ? dlr_items_env(sp) : NULL;

    dlr_log_to(log_to_slurm, NULL, DLR_LOG_DEBUG);
    dlr_options_init(&plugin.conf);
    dlr_options_site(&plugin.conf, ac, av, where == S_CTX_REMOTE ? NULL : complain);
    register_options(sp);
    plugin.step = (struct dlr_step)DLR_STEP_NONE;
    plugin.warned = false;
    if (env)
        dlr_options_env(&plugin.conf, env, NULL);
    if (where == S_CTX_ALLOCATOR || where == S_CTX_LOCAL)
        dlr_options_env(&plugin.conf, environ, complain);
    if (where == S_CTX_ALLOCATOR) {
        dlr_options_disown();
        dlr_allocator_start(&plugin.alloc, dlr_allocator_cli(), plugin.conf.job.enable);
    }
    return 0;
}

/* Slurm has kept the last --dlrover-set: the job's sruns need them all. */
static void keep_settings(spank_t sp)
{
    DLR_AUTO_FREE char *all = dlr_options_settings(&plugin.conf);
    char name[DLR_OPTIONS_NAME];

    dlr_options_kept(DLR_OPTIONS_SET, name);
    if (all && (setenv(name, all, 1) < 0 ||
                spank_job_control_setenv(sp, name, all, 1) != ESPANK_SUCCESS))
        dlr_warn("the job's sruns know the last --dlrover-set only");
}

static void end_allocator(spank_t sp)
{
    const char *mode = dlr_allocator_end(&plugin.alloc);

    if (mode && spank_job_control_setenv(sp, DLR_BATCH_OPEN_MODE, *mode ? mode : "-",
                                         1) != ESPANK_SUCCESS)
        dlr_warn("sruns of the script append to their files (--open-mode)");
    keep_settings(sp);
    if (plugin.warned || !dlr_options_lack_spare(&plugin.conf))
        return;
    plugin.warned = true;
    dlr_warn(
        "no spare node: a node that is lost sends the job back to the queue. Ask for "
        "one node more and --dlrover-spares=1, or allow fewer (--dlrover-nodes=MIN); "
        "--dlrover-spares=0 ends this line");
}

static void begin_step(char **env, const struct dlr_jobmem *job)
{
    dlr_step_begin(&plugin.step, env,
                   &(struct dlr_step_job){job->job, job->uid, DLR_MEMORY_ROOT});
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char *av[])
{
    struct dlr_jobmem job;
    char **env = dlr_items_env(sp);

    if (spank_context() == S_CTX_ALLOCATOR)
        end_allocator(sp);
    else if (spank_context() == S_CTX_LOCAL) {
        plugin.conf.srun_words = optind;
        plugin.conf.counts_idle = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0);
        dlr_handover_srun(&plugin.conf);
    } else if (spank_context() == S_CTX_REMOTE && env && dlr_items_job(sp, &job)) {
        dlr_jobmem_begin(&plugin.conf, env, &job);
        begin_step(env, &job);
        if (plugin.tree < 0)
            plugin.tree = dlr_jobview_open(env, &job);
    }
    return 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char *av[])
{
    struct dlr_jobmem job;
    char **env = dlr_items_env(sp);

    if (env && dlr_items_job(sp, &job))
        begin_step(env, &job);
    return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char *av[])
{
    struct dlr_jobmem job;
    struct dlr_err err = {0};

    if (dlr_items_job(sp, &job) && dlr_jobview_show(&job, plugin.tree, &err) < 0)
        dlr_warn("%s: the job's memory there is in " DLR_MEMORY_ROOT, err.text);
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char *av[])
{
    struct dlr_task_env vars;
    struct dlr_err err = {0};
    struct dlr_step_place at;
    char **env = dlr_items_env(sp);

    if (!env || !dlr_items_place(sp, &at))
        return 0;
    if (dlr_step_task(&plugin.step, &plugin.conf, env, &at, &vars, &err) < 0)
        dlr_error("%s: the environment is Slurm's", err.text);
    dlr_items_put(sp, &vars);
    dlr_task_env_free(&vars);
    return 0;
}

int slurm_spank_task_post_fork(spank_t sp, int ac, char *av[])
{
    uint32_t rank;
    pid_t pid;

    if (spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) == ESPANK_SUCCESS &&
        spank_get_item(sp, S_TASK_PID, &pid) == ESPANK_SUCCESS)
        dlr_step_forked(&plugin.step, rank, pid);
    return 0;
}

int slurm_spank_task_exit(spank_t sp, int ac, char *av[])
{
    uint32_t rank;
    int status;

    if (spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) == ESPANK_SUCCESS &&
        spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS)
        dlr_step_ended(&plugin.step, rank, status);
    return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char *av[])
{
    struct dlr_jobmem job;

    dlr_log_to(log_to_slurm, NULL, DLR_LOG_DEBUG); /* init is not called here */
    dlr_options_init(&plugin.conf);
    dlr_options_site(&plugin.conf, ac, av, NULL);
    if (dlr_items_job(sp, &job))
        dlr_jobmem_end(&plugin.conf, &job);
    return 0;
}
