/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's commands and sruns that nobody waits for. */
#include "mpi_launcher/supervisor/steps/slurm_command.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/install_path.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

int dlr_sup_start_slurm(struct dlr_words *words, int out, struct dlr_proc *ret,
                        struct dlr_err *err)
{
    struct dlr_env env = {0};
    int rc = dlr_env_copy(&env, true);

    if (rc == 0)
        rc = dlr_proc_start(words->list, env.list, -1, out, -1, ret, err);
    dlr_env_done(&env);
    return rc;
}

void dlr_sup_slurm_words(const struct dlr_sup_steps *steps, struct dlr_words *words,
                         const char *verb, bool job)
{
    char path[4096] = "dlrover-slurm";

    dlr_install_path_sibling("dlrover-slurm", path, sizeof(path));
    dlr_words_add(words, "%s", path);
    dlr_words_add(words, "%s", verb);
    if (job)
        dlr_words_add(words, "%s", steps->env.info->job);
}

/* A process that nobody waits for has ended. */
static int reap(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;
    int fd = item->fd;

    dlr_sup_unwatch(steps->env.io, fd);
    waitid(P_PIDFD, fd, NULL, WEXITED);
    close(fd);
    return 0;
}

void dlr_sup_cancel_steps(struct dlr_sup_steps *steps, pid_t srun_pid)
{
    struct dlr_words words = {0};
    struct dlr_proc proc = {0};
    struct dlr_err err;

    if (!srun_pid)
        return;
    dlr_sup_slurm_words(steps, &words, "cancel-steps", true);
    dlr_words_add(&words, "%d", (int)srun_pid);
    if (dlr_sup_start_slurm(&words, -1, &proc, &err) == 0)
        dlr_sup_watch(steps->env.io, proc.pidfd, reap, steps);
    dlr_words_done(&words);
}

/* srun alone, never its process group: its shepherd then cancels the step. */
void dlr_srun_abandon(struct dlr_sup_steps *steps, struct dlr_proc *proc)
{
    if (!proc->pid)
        return;
    dlr_sup_unwatch(steps->env.io, proc->pidfd);
    dlr_sup_cancel_steps(steps, proc->pid);
    dlr_proc_kill(proc, SIGKILL);
    dlr_sup_watch(steps->env.io, proc->pidfd, reap, steps);
    *proc = (struct dlr_proc){.pidfd = -1};
}

void dlr_sup_adopt_child(pid_t pid, struct dlr_proc *ret)
{
    struct dlr_proc proc = {0};

    if (pid <= 1 || dlr_proc_adopt(pid, &proc) < 0)
        return;
    if (dlr_procid_parent(pid) == getppid())
        *ret = proc;
    else
        close(proc.pidfd);
}
