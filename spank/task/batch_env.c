/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/batch_env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "spank/base/fds.h"
#include "spank/base/script_env.h"

#define PROGRAM "dlrover-slurm"
#define OUTPUT_MAX (1u << 20)
/* slurm.h has these, and changes their type; spank.h shows steps as numbers. */
#define STEP_BATCH 0xfffffffbu
#define STEP_INTERACTIVE 0xfffffffau

/* What may be set, whatever the program prints. */
static const char *const names[] = {
    "DLROVER_ALL_JOB",    "DLROVER_ALL_NODES",
    "DLROVER_ALL_NTASKS", "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",       "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",     "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_NTASKS",       "SLURM_TASKS_PER_NODE",
    "SLURM_NPROCS",       "DLROVER_KILL_WAIT",
};
#define NNAMES (sizeof(names) / sizeof(*names))
_Static_assert(NNAMES + 2 <= DLR_TASK_VARS, "every name has a row");
#define KEPT_MODE "SLURM_SPANK_" DLR_BATCH_OPEN_MODE

bool dlr_batch_is(uint32_t step_id)
{
    return step_id == STEP_BATCH || step_id == STEP_INTERACTIVE;
}

static void become_program(char *const argv[], char *const env[], int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(null, STDERR_FILENO) >= 0) {
        dlr_fds_close_on_exec(STDERR_FILENO + 1);
        execve(argv[0], argv, env);
    }
    _exit(127);
}

/* Reads all of fd into *text (OUTPUT_MAX + 1 bytes). 0, -ETIMEDOUT, -EFBIG or -errno.
 */
static int read_all(int fd, char *text, int64_t deadline_ms)
{
    size_t size = 0;

    for (;;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int64_t left = deadline_ms - dlr_now_ms();
        int rc = poll(&pfd, 1, left > 0 ? (int)left : 0);
        ssize_t n;

        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0)
            return rc < 0 ? -errno : -ETIMEDOUT;
        n = read(fd, text + size, OUTPUT_MAX - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            text[size] = '\0';
            return n < 0 ? -errno : 0;
        }
        size += (size_t)n;
        if (size == OUTPUT_MAX)
            return -EFBIG;
    }
}

/* Runs argv, its output in text. The program and what it started are gone on return. */
static int run(char *const argv[], char *const env[], char *text)
{
    DLR_AUTO_CLOSE int from = -1;
    int ends[2], status = 0, rc;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    from = ends[0];
    pid = fork();
    if (pid == 0)
        become_program(argv, env, ends[1]);
    rc = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (rc < 0)
        return rc;
    rc = read_all(from, text, dlr_now_ms() + DLR_BATCH_LIMIT_MS);
    if (rc < 0 && kill(-pid, SIGKILL) < 0)
        kill(pid, SIGKILL); /* it has not left our group yet */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc < 0 ? rc : status ? -ENOEXEC : 0;
}

/* "NAME=value" when NAME is one of ours. */
static void take_line(char *line, struct dlr_task_env *env)
{
    for (size_t i = 0; i < NNAMES; i++) {
        const char *value = dlr_env_value(line, names[i]);
        struct dlr_task_var *var = &env->vars[env->count];

        if (!value || env->count == NNAMES + 2)
            continue;
        var->name = names[i];
        var->value = strdup(value);
        env->count += var->value != NULL;
    }
}

/* slurmctld has made SLURM_OPEN_MODE of what we asked of sbatch for the script's own
 * output.
 */
static void restore_open_mode(char *const env[], struct dlr_task_env *ret)
{
    const char *mode = dlr_env_get(env, KEPT_MODE);
    struct dlr_task_var *var = &ret->vars[ret->count];

    if (!mode)
        return;
    var[0] = (struct dlr_task_var){"SLURM_OPEN_MODE",
                                   dlr_streq(mode, "-") ? NULL : strdup(mode)};
    var[1] = (struct dlr_task_var){KEPT_MODE, NULL};
    ret->count += 2;
}

int dlr_batch_env(const struct dlr_spank_conf *conf, char *const env[],
                  struct dlr_task_env *ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_OPT_TEXT + 32], spares[16], most[16], group[16],
        state_dir[DLR_OPT_TEXT], topology[DLR_OPT_TEXT], verb[] = "show";
    char *argv[] = {path, verb, spares, state_dir, most, group, topology, NULL};
    char *line, *rest;
    int rc;

    ret->count = 0;
    if (!conf->job.enable)
        return 0;
    restore_open_mode(env, ret);
    text = malloc(OUTPUT_MAX + 1);
    if (!text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_format(path, sizeof(path), "%s/" PROGRAM, conf->libexec);
    dlr_format(spares, sizeof(spares), "%u", conf->job.spares);
    dlr_format(most, sizeof(most), "%u", conf->job.nodes.max);
    dlr_format(group, sizeof(group), "%u", conf->job.group);
    dlr_format(state_dir, sizeof(state_dir), "%s", conf->job.state_dir);
    dlr_format(topology, sizeof(topology), "%s", conf->job.topology_file);
    rc = run(argv, env, text);
    if (rc < 0)
        return dlr_fail(err, rc,
                        "the batch script sees the whole allocation, spares included: "
                        "%s did not answer (%s)",
                        path, rc == -ENOEXEC ? "it failed" : strerror(-rc));
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        take_line(line, ret);
    return 0;
}
