/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/stacks/ask_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

#define END_MS 1000 /* for srun to end after each SIGTERM */
#define LABEL_MAX 8 /* digits of a task's number */
#define STEP_WORDS 24

extern char **environ;

int dlr_stacks_answer_read(struct dlr_stacks_answer *answer, char *line)
{
    char *c = line;
    size_t task = 0;

    while (*c == ' ')
        c++;
    for (unsigned i = 0; *c >= '0' && *c <= '9' && i < LABEL_MAX; i++)
        task = task * 10 + (size_t)(*c++ - '0');
    if (c > line && dlr_after(c, ": ") && task < answer->n)
        return dlr_stack_reader_take(&answer->readers[task], c + 2, strlen(c + 2));
    if (!answer->said[0]) {
        snprintf(answer->said, sizeof(answer->said), "%s", line);
        dlr_plain(answer->said);
    }
    return 0;
}

/* --- srun ------------------------------------------------------------------------- */

/* Its output comes through *ret_fd. It is the first of a group of its own. */
static int start(const struct dlr_stacks_question *q, const char *list, int *ret_fd,
                 pid_t *ret_pid)
{
    char job[64], nodes[32], tasks[32];
    DLR_AUTO_FREE char *nodelist = dlr_format_new("--nodelist=%s", list);
    // clang-format off
    const char *argv[STEP_WORDS] = {
        q->srun ?: "srun", job, nodes, tasks, nodelist, "--ntasks-per-node=1", "--overlap",
        "--mem=0", "--mpi=none", "--cpu-bind=none", "--quiet", "--input=none", "--label",
        "--no-kill", "--wait=0", "--kill-on-bad-exit=0", "--job-name=dlrover-stacks",
        q->tool, "--job", q->job, q->ranks ? "--ranks" : NULL, q->ranks, NULL,
    };
    // clang-format on
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int pair[2], rc;

    dlr_format(job, sizeof(job), "--jobid=%.50s", q->job);
    dlr_format(nodes, sizeof(nodes), "--nodes=%zu", q->n);
    dlr_format(tasks, sizeof(tasks), "--ntasks=%zu", q->n);
    if (!nodelist || pipe2(pair, O_CLOEXEC) < 0)
        return -ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDERR_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    rc = posix_spawnp(ret_pid, argv[0], &actions, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    if (rc)
        close(pair[0]);
    else
        *ret_fd = pair[0];
    return -rc;
}

/* Cuts whole lines off the n bytes of buf; what is left of them stays. */
static int take_lines(struct dlr_stacks_answer *answer, char *buf, size_t *n)
{
    char *at = buf, *end;
    int rc = 0;

    while (rc == 0 && (end = memchr(at, '\n', *n - (size_t)(at - buf)))) {
        *end = '\0';
        rc = dlr_stacks_answer_read(answer, at);
        at = end + 1;
    }
    *n -= (size_t)(at - buf);
    memmove(buf, at, *n);
    return rc;
}

/* True when the output ended before the deadline. */
static bool listen_to(int fd, int64_t deadline_ms, struct dlr_stacks_answer *answer)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    char buf[8192];
    size_t used = 0;
    int64_t left;

    while ((left = deadline_ms - dlr_now_ms()) > 0) {
        ssize_t n;

        if (poll(&pfd, 1, (int)left) <= 0)
            continue;
        n = read(fd, buf + used, sizeof(buf) - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        used += (size_t)n;
        if (take_lines(answer, buf, &used) < 0)
            return false;
        if (used == sizeof(buf) - 1)
            used = 0; /* no line of ours is so long */
    }
    return false;
}

static bool ends_within(int pidfd, int64_t limit_ms)
{
    const int64_t deadline_ms = dlr_now_ms() + limit_ms;
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    int64_t left;

    while ((left = deadline_ms - dlr_now_ms()) > 0)
        if (poll(&pfd, 1, (int)left) > 0)
            return true;
    return false;
}

/* It cancels its step at the second SIGTERM. One that is killed leaves that to its child,
 * which is in its group and therefore is not killed.
 */
static void end_srun(pid_t pid)
{
    DLR_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    for (unsigned i = 0; i < 2; i++) {
        kill(-pid, SIGTERM);
        if (ends_within(pidfd, END_MS))
            return;
    }
    kill(pid, SIGKILL);
}

int dlr_stacks_ask(const struct dlr_stacks_question *q, struct dlr_stacks_answer *ret,
                   struct dlr_err *err)
{
    DLR_AUTO_FREE char *list = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    int status = -1, rc;
    bool ended;
    pid_t pid;

    *ret = (struct dlr_stacks_answer){.tree = dlr_stack_tree_new(DLR_STACK_BYTES),
                                      .readers = calloc(q->n, sizeof(*ret->readers)),
                                      .n = q->n};
    if (!ret->tree || !ret->readers)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < q->n; i++)
        dlr_stack_reader_init(&ret->readers[i], ret->tree);
    rc = dlr_hostlist_join(q->nodes, (unsigned)q->n, &list);
    if (rc == 0)
        rc = start(q, list, &fd, &pid);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot start srun: %s", strerror(-rc));
    ended = listen_to(fd, dlr_now_ms() + q->limit_ms, ret);
    if (!ended)
        end_srun(pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ret->status = ended ? status : -1;
    return 0;
}

void dlr_stacks_answer_done(struct dlr_stacks_answer *answer)
{
    for (size_t i = 0; answer->readers && i < answer->n; i++)
        dlr_stack_reader_done(&answer->readers[i]);
    free(answer->readers);
    dlr_stack_tree_free(answer->tree);
    *answer = (struct dlr_stacks_answer){0};
}
