/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/command/handover.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "spank/base/fds.h"
#include "spank/command/cmdline.h"
#include "spank/command/task_count.h"

#define KEEPER "dlrover-keeper"
#define SEPARATOR "--"

/* Whether mark ("<job>.<restarts>.<run>") belongs to job. */
static bool marks_job(const char *mark, const char *job)
{
    const char *rest = dlr_after(mark, job);

    return job[0] && rest && rest[0] == '.';
}

enum dlr_handover dlr_handover_decide(const struct dlr_spank_conf *conf,
                                      const char *job, const char *supervised)
{
    if (!conf->job.enable)
        return DLR_HANDOVER_NO;
    if (!job || !job[0])
        return conf->by[0] != DLR_BY_SITE ? DLR_HANDOVER_NOWHERE : DLR_HANDOVER_NO;
    if (supervised && marks_job(supervised, job))
        return DLR_HANDOVER_NO;
    return DLR_HANDOVER_YES;
}

static char *setting(const struct dlr_spank_conf *conf, size_t row)
{
    const struct dlr_opt *opt = &dlr_job_config_opts[row];
    char value[DLR_OPT_TEXT + 1];

    return dlr_opt_show(opt, &conf->job, value, sizeof(value)) < 0
               ? NULL
               : dlr_format_new("--%s=%s", opt->name, value);
}

void dlr_handover_free(char **argv)
{
    if (!argv)
        return;
    for (size_t i = 0; argv[i] && !dlr_streq(argv[i], SEPARATOR); i++)
        free(argv[i]);
    free(argv);
}

int dlr_handover_argv(const struct dlr_spank_conf *conf, char *const srun[],
                      char ***ret_argv, struct dlr_err *err)
{
    size_t rows = 0, words = 0, at = 0;
    static char separator[] = SEPARATOR;
    char **argv;

    while (dlr_job_config_opts[rows].name)
        rows++;
    while (srun[words])
        words++;
    argv = calloc(rows + words + 4, sizeof(*argv));
    if (!argv)
        return dlr_fail(err, -ENOMEM, "out of memory");
    argv[at] = dlr_format_new("%s/" KEEPER, conf->libexec);
    for (size_t row = 0; row < rows && argv[at]; row++)
        argv[++at] = setting(conf, row);
    if (!argv[at]) {
        dlr_handover_free(argv);
        return dlr_fail(err, -ENOMEM, "out of memory");
    }
    if (conf->srun_words > 0 && (size_t)conf->srun_words <= words &&
        (argv[at + 1] =
             dlr_format_new("--" DLR_SRUN_WORDS_OPTION "%d", conf->srun_words)))
        at++;
    argv[++at] = separator;
    memcpy(argv + at + 1, srun, words * sizeof(*argv));
    *ret_argv = argv;
    return 0;
}

/* exec puts handlers back to the default by itself; what the user had ignored (nohup)
 * stays ignored, as it would in srun. But not SIGTTIN: srun ignores it itself, newer
 * ones before they ask their plugins.
 */
static int become(const char *path, char *const argv[], char *const env[])
{
    sigset_t none, before;
    void (*ttin)(int);
    int rc;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, &before);
    ttin = signal(SIGTTIN, SIG_DFL);
    execve(path, argv, env);
    rc = -errno;
    signal(SIGTTIN, ttin);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int dlr_handover_exec(char *const argv[], char *const env[], struct dlr_err *err)
{
    int rc;

    if (access(argv[0], X_OK) < 0) {
        rc = -errno;
        return dlr_fail(err, rc, "cannot run '%s': %s", argv[0], strerror(-rc));
    }
    rc = dlr_fds_close_on_exec(STDERR_FILENO + 1);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot read /proc/self/fd: %s", strerror(-rc));
    rc = become(argv[0], argv, env);
    return dlr_fail(err, rc, "cannot run '%s': %s", argv[0], strerror(-rc));
}

/* The shell of an salloc (LaunchParameters=use_interactive_step): no step of the
 * user's, and what is typed in it is supervised.
 */
static bool is_shell(char *const srun[])
{
    for (size_t i = 1; srun[0] && srun[i] && srun[i][0] == '-'; i++)
        if (dlr_streq(srun[i], "--interactive"))
            return true;
    return false;
}

/* Becomes the keeper, with the words and the environment this srun was started with:
 * what it has made of its options since (SLURM_MPI_TYPE and more) would steer every
 * srun of the supervisor. Returns -errno only when it failed.
 */
static int run(const struct dlr_spank_conf *conf, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_FREE char **srun = NULL;
    DLR_AUTO_FREE char *env_text = NULL;
    DLR_AUTO_FREE char **env = NULL;
    char **argv = NULL;
    int rc = dlr_cmdline_argv(&text, &srun, err);

    if (rc == 0 && is_shell(srun))
        return 0;
    if (rc == 0)
        rc = dlr_cmdline_environ(&env_text, &env, err);
    if (rc == 0)
        rc = dlr_handover_argv(conf, srun, &argv, err);
    if (rc == 0)
        rc = dlr_handover_exec(argv, env, err);
    dlr_handover_free(argv);
    return rc;
}

/* --- beside the agents ------------------------------------------------------------ */

/* Whether --dlrover was said here or for the job, or another srun of the job has
 * brought agents.
 */
static bool may_have_agents(const struct dlr_spank_conf *conf, const char *job)
{
    char path[DLR_MEMORY_NAME + 32], here[PATH_MAX];

    if (conf->by[0] != DLR_BY_SITE)
        return true;
    return dlr_format(path, sizeof(path), DLR_MEMORY_ROOT "/dlrover-%u-%s",
                      (unsigned)getuid(), job) == 0 &&
           dlr_memory_find(path, here, sizeof(here)) == 0 && access(here, F_OK) == 0;
}

/* The same srun once more, which does not wait for our agents. Returns only when it is
 * as well as it is.
 */
static void become_relative(char *const srun[], char *const env[])
{
    DLR_AUTO_FREE char **argv = dlr_taskcount_words(srun);
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (!argv || len < 0)
        return;
    path[len] = '\0';
    become(path, argv, env);
}

static void run_beside(const struct dlr_spank_conf *conf)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_FREE char **srun = NULL;
    DLR_AUTO_FREE char *env_text = NULL;
    DLR_AUTO_FREE char **env = NULL;
    enum dlr_taskcount count;

    if (dlr_cmdline_argv(&text, &srun, NULL) < 0 ||
        dlr_cmdline_environ(&env_text, &env, NULL) < 0)
        return;
    count = dlr_taskcount_read(srun, conf->srun_words, env);
    if (count == DLR_TASKCOUNT_LEFT)
        become_relative(srun, env);
    if (count == DLR_TASKCOUNT_PLACED)
        dlr_warn(
            "srun --cpus-per-task leaves the number of tasks to Slurm, which waits "
            "for nodes without any other step: beside dlrover's agents say "
            "--ntasks, too");
}

void dlr_handover_srun(const struct dlr_spank_conf *conf)
{
    const char *job = getenv("SLURM_JOB_ID"), *mark = getenv("DLROVER_SUPERVISED");
    enum dlr_handover what = dlr_handover_decide(conf, job, mark);
    struct dlr_err err = {0};

    if (what == DLR_HANDOVER_NOWHERE)
        dlr_warn("supervision needs an allocation (sbatch or salloc); running without");
    else if (what == DLR_HANDOVER_YES && run(conf, &err) < 0)
        dlr_error("%s: running without supervision", err.text);
    else if (what == DLR_HANDOVER_NO && conf->counts_idle && job &&
             may_have_agents(conf, job))
        run_beside(conf);
}
