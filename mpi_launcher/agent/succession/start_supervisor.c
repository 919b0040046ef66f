/* SPDX-License-Identifier: Apache-2.0 */
/* A supervisor as the keeper on the batch host had started it: the same words,
 * environment and directory. What it prints is added to the file that the srun wrote
 * to; where that was a pipe, or a file of the lost host, to one of the run's directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/succession/succession_state.h"

#define STATE_FD 9   /* where a supervisor finds its memory file */
#define ABOVE_FDS 16 /* what is passed on is first moved out of its way */

struct command {
    char program[PATH_MAX], here[DLR_AGENT_NODE + 32], rest[DLR_OPT_TEXT + 16];
    const char **argv, **env;
    const char *cwd, *in, *out, *err;
    int state_fd;
};

static void command_done(struct command *c)
{
    free(c->argv);
    free(c->env);
}

/* Its strings; NULL: out of memory, or there is another thing in it. */
static const char **strings(const json_t *list)
{
    DLR_AUTO_FREE const char **ret =
        calloc(json_array_size(list) + 2, sizeof(*ret)); /* one may be added */

    for (size_t i = 0; ret && i < json_array_size(list); i++) {
        ret[i] = json_string_value(json_array_get(list, i));
        if (!ret[i])
            return NULL;
    }
    return DLR_STEAL(ret);
}

/* The node's own name in the place of the lost one's. */
static void set_node(struct command *c)
{
    size_t i = 0;

    while (c->env[i] && !dlr_after(c->env[i], "SLURMD_NODENAME="))
        i++;
    c->env[i] = c->here;
}

static int prepare(struct command *c, const struct dlr_agent_succession *su,
                   const json_t *start)
{
    int rc =
        dlr_install_path_sibling("dlrover-supervisor", c->program, sizeof(c->program));

    c->argv = strings(json_object_get(start, "argv"));
    c->env = strings(json_object_get(start, "env"));
    if (rc < 0 || !c->argv || !c->env || dlr_msg_str(start, "cwd", &c->cwd) < 0 ||
        dlr_msg_str(start, "in", &c->in) < 0 ||
        dlr_msg_str(start, "out", &c->out) < 0 ||
        dlr_msg_str(start, "err", &c->err) < 0)
        return rc < 0 ? rc : -EBADMSG;
    c->argv[0] = c->program;
    dlr_format(c->here, sizeof(c->here), "SLURMD_NODENAME=%s", su->self->node);
    dlr_format(c->rest, sizeof(c->rest), "%s/output", su->self->conf.run_dir);
    set_node(c);
    return 0;
}

/* Between fork and exec in a process with threads: async-signal-safe calls only. */
static void open_at(int fd, const char *path, const char *other, int flags)
{
    int opened = path[0] ? open(path, flags) : -1;

    if (opened < 0 && other)
        opened = open(other, flags | O_CREAT, 0600);
    if (opened < 0)
        opened = open("/dev/null", O_RDWR);
    if (opened != fd) {
        dup2(opened, fd);
        close(opened);
    }
}

static void child(const struct command *c)
{
    int state = fcntl(c->state_fd, F_DUPFD_CLOEXEC, ABOVE_FDS);
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dlr_open_files_restore();
    if (state < 0 || chdir(c->cwd) < 0)
        _exit(127);
    open_at(STDIN_FILENO, c->in, NULL, O_RDONLY);
    open_at(STDOUT_FILENO, c->out, c->rest, O_WRONLY | O_APPEND);
    open_at(STDERR_FILENO, c->err, c->rest, O_WRONLY | O_APPEND);
    dup2(state, STATE_FD);
    close_range(STDERR_FILENO + 1, STATE_FD - 1, 0);
    close_range(STATE_FD + 1, ~0U, 0);
    execve(c->program, (char *const *)c->argv, (char *const *)c->env);
    _exit(127);
}

int dlr_agent_start_supervisor(const struct dlr_agent_succession *su,
                               const json_t *start, int state_fd, pid_t *ret_pid,
                               int *ret_pidfd, struct dlr_err *err)
{
    DLR_CLEANUP(command_done) struct command c = {.state_fd = state_fd};
    int rc = prepare(&c, su, start), pidfd;
    pid_t pid;

    if (rc < 0)
        return dlr_fail(err, rc, "the will cannot be carried out");
    pid = fork();
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        child(&c);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        rc = -errno;
        kill(pid, SIGKILL);
        return dlr_fail(err, rc, "pidfd_open: %s", strerror(-rc));
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}
