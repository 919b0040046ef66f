/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/srun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/srun_options.h"

extern char **environ;

/* Marks a supervised srun; each says it anew. What places a step is in the table of
 * srun's variables: an inherited SLURM_NTASKS breaks hostfiles, and a total such as
 * SLURM_GPUS makes a step on fewer nodes wait for ever.
 */
static const char *const marks[] = {"DLROVER_SUPERVISED", NULL};

/* Slurm's variables that an internal step keeps: how to find the cluster and the job.
 */
static const char *const kept[] = {"SLURM_CONF",         "SLURM_JOB_ID",  "SLURM_JOBID",
                                   "SLURM_CLUSTER_NAME", "SLURM_JOB_UID", NULL};

static bool named(const char *entry, const char *const *names)
{
    for (; *names; names++)
        if (dlr_env_value(entry, *names))
            return true;
    return false;
}

static bool wanted(const char *entry, bool scrubbed)
{
    if (named(entry, marks) || dlr_srun_find_var(entry))
        return false;
    if (!scrubbed || named(entry, kept))
        return true;
    return !dlr_after(entry, "SLURM_") && !dlr_after(entry, "SPANK_") &&
           !dlr_after(entry, "_SLURM_") && !dlr_after(entry, "SRUN_") &&
           !dlr_after(entry, "SBATCH_") && !dlr_after(entry, "PMIX_") &&
           !dlr_after(entry, "PMI_") && !dlr_after(entry, "OMPI_");
}

static int append(char ***list, unsigned *n, unsigned *room, char *word)
{
    if (!word)
        return -ENOMEM;
    if (*n + 2 > *room) {
        unsigned more = *room ? 2 * *room : 64;
        char **bigger = realloc(*list, more * sizeof(*bigger));

        if (!bigger) {
            free(word);
            return -ENOMEM;
        }
        *list = bigger;
        *room = more;
    }
    (*list)[(*n)++] = word;
    (*list)[*n] = NULL;
    return 0;
}

static void free_list(char **list, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

int dlr_env_copy(struct dlr_env *env, bool scrubbed)
{
    for (char **e = environ; *e; e++)
        if (wanted(*e, scrubbed) &&
            append(&env->list, &env->n, &env->room, strdup(*e)) < 0)
            return -ENOMEM;
    return 0;
}

static void unset(struct dlr_env *env, const char *name)
{
    for (unsigned i = 0; i < env->n; i++) {
        if (!dlr_env_value(env->list[i], name))
            continue;
        free(env->list[i]);
        env->list[i] = env->list[--env->n];
        env->list[env->n] = NULL;
        i--;
    }
}

int dlr_env_set(struct dlr_env *env, const char *name, const char *fmt, ...)
{
    DLR_AUTO_FREE char *value = NULL;
    va_list ap;

    va_start(ap, fmt);
    value = dlr_vformat_new(fmt, ap);
    va_end(ap);
    if (!value)
        return -ENOMEM;
    unset(env, name);
    return append(&env->list, &env->n, &env->room,
                  dlr_format_new("%s=%s", name, value));
}

int dlr_srun_pmix_env(struct dlr_env *env)
{
    const char *own = getenv("SLURM_PMIX_FENCE"); /* a scrubbed copy lacks it */

    return dlr_env_set(env, "SLURM_PMIX_FENCE", "%s", own && *own ? own : "ring");
}

void dlr_env_done(struct dlr_env *env)
{
    free_list(env->list, env->n);
    memset(env, 0, sizeof(*env));
}

int dlr_words_add(struct dlr_words *words, const char *fmt, ...)
{
    char *word;
    va_list ap;

    va_start(ap, fmt);
    word = dlr_vformat_new(fmt, ap);
    va_end(ap);
    return append(&words->list, &words->n, &words->room, word);
}

void dlr_words_done(struct dlr_words *words)
{
    free_list(words->list, words->n);
    memset(words, 0, sizeof(*words));
}

static void child(char *const *argv, char *const *envp, int in, int out, int err_fd,
                  int pass)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    setsid();
    if (dup2(in < 0 ? null : in, 0) < 0 || dup2(out < 0 ? null : out, 1) < 0 ||
        dup2(err_fd < 0 ? null : err_fd, 2) < 0)
        _exit(127);
    if (pass == DLR_SRUN_PASS_FD)
        fcntl(pass, F_SETFD, 0);
    else if (pass >= 0 && dup2(pass, DLR_SRUN_PASS_FD) < 0)
        _exit(127);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    closefrom(pass < 0 ? DLR_SRUN_PASS_FD : DLR_SRUN_PASS_FD + 1);
    dlr_open_files_restore(); /* srun gives the program its own */
    execvpe(argv[0], argv, envp);
    _exit(127);
}

int dlr_proc_start_with(char *const *argv, char *const *envp, int in, int out,
                        int err_fd, int pass, struct dlr_proc *ret, struct dlr_err *err)
{
    pid_t pid = fork();

    if (pid == 0)
        child(argv, envp, in, out, err_fd, pass);
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot start %s: %s", argv[0], strerror(errno));
    ret->pid = pid;
    ret->pidfd = pidfd_open(pid, 0);
    if (ret->pidfd < 0) {
        int rc = -errno;

        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        ret->pid = 0;
        return dlr_fail(err, rc, "cannot watch %s: %s", argv[0], strerror(-rc));
    }
    return 0;
}

int dlr_proc_start(char *const *argv, char *const *envp, int in, int out, int err_fd,
                   struct dlr_proc *ret, struct dlr_err *err)
{
    return dlr_proc_start_with(argv, envp, in, out, err_fd, -1, ret, err);
}

int dlr_proc_adopt(pid_t pid, struct dlr_proc *ret)
{
    int fd = pidfd_open(pid, 0);

    if (fd < 0)
        return -errno;
    ret->pid = pid;
    ret->pidfd = fd;
    return 0;
}

int dlr_proc_reap(struct dlr_proc *proc)
{
    int status = 0;

    if (waitpid(proc->pid, &status, 0) < 0)
        status = 0;
    close(proc->pidfd);
    proc->pid = 0;
    proc->pidfd = -1;
    return status;
}

void dlr_proc_kill(const struct dlr_proc *proc, int sig)
{
    if (proc->pid)
        pidfd_send_signal(proc->pidfd, sig, NULL, 0);
}
