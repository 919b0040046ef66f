/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/step.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "spank/task/batch_env.h"
#include "spank/task/bind.h"
#include "spank/task/notify.h"
#include "spank/task/preload.h"

/* Connects to the agent at path, which the user has written. */
static int connect_agent(struct dlr_step *step, const char *path,
                         const struct dlr_step_job *job, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int at = -1;
    char name[64];
    int rc;

    if (geteuid() != job->uid)
        return dlr_fail(err, -EPERM, "uid %u is not the job's, %u", geteuid(),
                        job->uid);
    rc = dlr_memory_socket(job->root, path, job->id, &at, err);
    if (rc < 0)
        return rc;
    dlr_format(name, sizeof(name), "/proc/self/fd/%d", at);
    rc = dlr_notify_step(name, step->round, &step->agent, err);
    if (rc == 0)
        step->name = dlr_steal_fd(&at);
    return rc;
}

/* The agent's socket as a descriptor that the program inherits: in a container its path
 * names nothing, or something else, but "/proc/self/fd/N" leads to it still.
 */
static unsigned leave_name(const struct dlr_step *step)
{
    int fd = step->name < 0 ? -1 : fcntl(step->name, F_DUPFD, DLR_STEP_FD);

    return fd < 0 ? 0 : (unsigned)fd;
}

static void begin(struct dlr_step *step, char *const env[],
                  const struct dlr_step_job *job)
{
    struct dlr_task_round round;
    struct dlr_err err = {0};

    if (step->agent >= 0 || !dlr_task_round_find(env, &round))
        return;
    step->in_round = true;
    step->round = round.round;
    dlr_preload_own_loader(&step->loader);
    if (connect_agent(step, round.socket, job, &err) < 0)
        dlr_debug("no word to the agent: %s", err.text);
    else if (dlr_memory_find(round.socket, step->socket, sizeof(step->socket)) < 0)
        step->socket[0] = '\0';
    if (!step->tapped && dlr_stderr_tap_open(&step->tap) < 0)
        dlr_debug("no pipe: last lines of stderr may be late");
    step->tapped = true;
}

void dlr_step_begin(struct dlr_step *step, char *const env[],
                    const struct dlr_step_job *job)
{
    bool root = geteuid() == 0 && job->uid != 0;

    if (root && seteuid(job->uid) < 0)
        return;
    begin(step, env, job);
    if (root && seteuid(0) < 0)
        _exit(1); /* a half of root must not go on; none has ever failed to come back */
}

void dlr_step_forked(struct dlr_step *step, uint32_t rank, pid_t pid)
{
    if (!step->in_round)
        return;
    dlr_stderr_tap_forked(
        &step->tap); /* every task is forked before the first of these */
    dlr_notify_task(step->agent, step->round, rank, pid);
}

void dlr_step_ended(struct dlr_step *step, uint32_t rank, int status)
{
    if (!step->in_round)
        return;
    dlr_stderr_tap_wait(&step->tap, rank, DLR_STDERR_TAP_SOON_MS);
    dlr_notify_exit(step->agent, step->round, rank, status);
    dlr_stderr_tap_wait(&step->tap, rank, DLR_STDERR_TAP_FLUSH_MS);
}

/* A user who has asked for it learns once why not. */
static void bind_task(const char *socket, char *const env[], uint32_t rank,
                      struct dlr_task_env *vars)
{
    struct dlr_err err = {0};

    if (dlr_task_bind(socket, vars->local, vars->local_world, env, vars, &err) == 0)
        return;
    if (rank == 0)
        dlr_error("bind=%s: rank %u stays as Slurm has it: %s",
                  dlr_env_get(env, "DLROVER_BIND"), rank, err.text);
    else
        dlr_debug("rank %u is not bound: %s", rank, err.text);
}

/* Nobody has asked for this: where it cannot be, not a word. */
static void watch_task(const struct dlr_step *step, const char *libexec,
                       const char *program, char *const env[],
                       struct dlr_task_env *vars)
{
    struct dlr_err err = {0};

    if (dlr_task_preload(&step->loader, libexec, program, env, vars, &err) < 0)
        dlr_debug("its calls of MPI are not watched: %s", err.text);
}

int dlr_step_task(const struct dlr_step *step, const struct dlr_spank_conf *conf,
                  char *const env[], const struct dlr_step_place *at,
                  struct dlr_task_env *ret, struct dlr_err *err)
{
    struct dlr_task_self self = {at->rank, at->world,
                                 dlr_env_get(env, "SLURMD_NODENAME"),
                                 dlr_env_get(env, "SLURM_LOCALID")};
    struct dlr_task_round round;
    struct dlr_err why = {0};
    int rc;

    ret->count = 0;
    if (dlr_batch_is(at->step))
        return dlr_batch_env(conf, env, ret, err);
    if (!step->in_round || !dlr_task_round_find(env, &round))
        return 0;
    if (step->socket[0])
        round.socket = step->socket;
    if (dlr_stderr_tap_insert(&step->tap, conf->libexec, round.socket, round.round,
                              at->rank, &why) < 0)
        dlr_debug("%s: the last lines of rank %u will not be known", why.text,
                  at->rank);
    round.fd = leave_name(step);
    rc = dlr_task_env_make(&round, &self, ret, err);
    if (rc < 0)
        return rc;
    bind_task(round.socket, env, at->rank, ret);
    watch_task(step, conf->libexec, at->program, env, ret);
    return 0;
}
