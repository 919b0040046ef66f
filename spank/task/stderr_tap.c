/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/stderr_tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "spank/base/fds.h"

#define PROGRAM "dlrover-stderr"
#define WORDS 4

int dlr_stderr_tap_open(struct dlr_stderr_tap *tap)
{
    *tap = (struct dlr_stderr_tap)DLR_STDERR_TAP_NONE;
    if (pipe2(tap->done, O_CLOEXEC | O_NONBLOCK) < 0) {
        int rc = -errno;

        *tap = (struct dlr_stderr_tap)DLR_STDERR_TAP_NONE;
        return rc;
    }
    tap->budget_ms = DLR_STDERR_TAP_FLUSH_MS;
    return 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void dlr_stderr_tap_forked(struct dlr_stderr_tap *tap)
{
    close_end(&tap->done[1]);
}

/* Takes rank out of those that were read; false when it was not among them. */
static bool take(struct dlr_stderr_tap *tap, uint32_t rank)
{
    for (unsigned i = 0; i < tap->count; i++) {
        if (tap->ranks[i] == rank) {
            tap->ranks[i] = tap->ranks[--tap->count];
            return true;
        }
    }
    return false;
}

static void keep(struct dlr_stderr_tap *tap, uint32_t rank)
{
    uint32_t *more = NULL;

    if (tap->count < DLR_STDERR_TAP_RANKS_MAX)
        more = realloc(tap->ranks, (tap->count + 1) * sizeof(*more));
    if (more) {
        tap->ranks = more;
        tap->ranks[tap->count++] = rank;
    }
}

/* Reads one rank: 1, 0 when none is there yet, -1 when none will come. */
static int read_one(struct dlr_stderr_tap *tap, uint32_t *ret_rank)
{
    uint32_t rank;
    ssize_t n =
        read(tap->done[0], &rank, sizeof(rank)); /* whole: pipes are, below 4 KiB */

    if (n == sizeof(rank)) {
        *ret_rank = rank;
        return 1;
    }
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ? -1 : 0;
}

/* The user holds the writing end and may never stop: what is read and what is kept is
 * bounded, and the limit counts while there is more to read, too.
 */
static void await_rank(struct dlr_stderr_tap *tap, uint32_t rank, int64_t deadline)
{
    for (unsigned n = 0;; n++) {
        int64_t left = n < DLR_STDERR_TAP_RANKS_MAX ? 1 : deadline - dlr_now_ms();
        uint32_t got;
        int rc = left > 0 ? read_one(tap, &got) : -1;

        if (rc < 0 || (rc > 0 && got == rank))
            return;
        if (rc > 0) {
            keep(tap, got);
        } else {
            struct pollfd pfd = {.fd = tap->done[0], .events = POLLIN};

            left = deadline - dlr_now_ms();
            if (left <= 0)
                return;
            poll(&pfd, 1, (int)left);
        }
    }
}

void dlr_stderr_tap_wait(struct dlr_stderr_tap *tap, uint32_t rank, int64_t limit_ms)
{
    int64_t begun = dlr_now_ms();

    if (limit_ms > tap->budget_ms)
        limit_ms = tap->budget_ms;
    if (tap->done[0] >= 0 && !take(tap, rank))
        await_rank(tap, rank, begun + limit_ms);
    tap->budget_ms -= dlr_now_ms() - begun;
    if (tap->budget_ms < 0)
        tap->budget_ms = 0;
}

/* The process that becomes dlrover-stderr. Every signal is ignored, over the exec too:
 * the last words come through when the step is told to end.
 */
static void become_program(char *const argv[], int from, int to, int done, int status)
{
    int rc;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    /* from, done and status are above 3: see above_standard() */
    if (dup2(from, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0 &&
        (done < 0 || dup2(done, DLR_STDERR_TAP_DONE_FD) >= 0)) {
        dlr_fds_close_on_exec(DLR_STDERR_TAP_DONE_FD + (done >= 0));
        execv(argv[0], argv);
    }
    rc = errno;
    if (write(status, &rc, sizeof(rc)) < 0)
        _exit(126);
    _exit(127);
}

/* Forks twice, so that the task does not find a child it has not started. */
static int start(char *const argv[], int from, int done, int status)
{
    pid_t pid = fork(), got;

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        pid = fork();
        if (pid == 0)
            become_program(argv, from, STDERR_FILENO, done, status);
        if (pid < 0) {
            int rc = errno;

            if (write(status, &rc, sizeof(rc)) < 0)
                _exit(126);
        }
        _exit(0);
    }
    while ((got = waitpid(pid, NULL, 0)) < 0 && errno == EINTR)
        ;
    return got < 0 && errno != ECHILD ? -errno : 0;
}

/* 0 when the program runs: the exec closed the status pipe with nothing in it. */
static int started(int status)
{
    struct pollfd pfd = {.fd = status, .events = POLLIN};
    int64_t deadline = dlr_now_ms() + DLR_STDERR_TAP_START_MS;
    int error, rc;
    ssize_t n;

    do {
        int64_t left = deadline - dlr_now_ms();

        rc = poll(&pfd, 1, left > 0 ? (int)left : 0);
    } while (rc < 0 && errno == EINTR);
    if (rc <= 0)
        return rc < 0 ? -errno : -ETIMEDOUT;
    n = read(status, &error, sizeof(error));
    if (n == sizeof(error))
        return -error;
    return n == 0 ? 0 : -EIO;
}

/* A pipe whose ends are above the descriptors that become_program() overwrites. */
static int make_pipe(int ret[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) < 0)
        return -errno;
    for (int i = 0; i < 2; i++)
        ret[i] = fcntl(low[i], F_DUPFD_CLOEXEC, DLR_STDERR_TAP_DONE_FD + 1);
    close(low[0]);
    close(low[1]);
    return ret[0] < 0 || ret[1] < 0 ? -errno : 0;
}

static void free_argv(char ***argv)
{
    for (unsigned i = 0; *argv && (*argv)[i]; i++)
        free((*argv)[i]);
    free(*argv);
}

static char **make_argv(const char *libexec, const char *socket, uint32_t round,
                        uint32_t rank)
{
    DLR_CLEANUP(free_argv) char **argv = calloc(WORDS + 1, sizeof(*argv));

    if (!argv)
        return NULL;
    argv[0] = dlr_format_new("%s/" PROGRAM, libexec);
    argv[1] = argv[0] ? dlr_format_new("--socket=%s", socket) : NULL;
    argv[2] = argv[1] ? dlr_format_new("--round=%u", round) : NULL;
    argv[3] = argv[2] ? dlr_format_new("--rank=%u", rank) : NULL;
    return argv[3] ? DLR_STEAL(argv) : NULL;
}

int dlr_stderr_tap_insert(const struct dlr_stderr_tap *tap, const char *libexec,
                          const char *socket, uint32_t round, uint32_t rank,
                          struct dlr_err *err)
{
    DLR_CLEANUP(free_argv) char **argv = NULL;
    DLR_AUTO_CLOSE int from = -1, to = -1, status = -1, status_to = -1, done = -1;
    int pair[2] = {-1, -1};
    int rc;

    if (isatty(STDERR_FILENO) || fcntl(STDERR_FILENO, F_GETFD) < 0)
        return 0;
    argv = make_argv(libexec, socket, round, rank);
    if (!argv)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = make_pipe(pair);
    from = pair[0];
    to = pair[1];
    if (rc == 0) {
        pair[0] = pair[1] = -1;
        rc = make_pipe(pair);
        status = pair[0];
        status_to = pair[1];
    }
    if (tap->done[1] >= 0)
        done = fcntl(tap->done[1], F_DUPFD_CLOEXEC, DLR_STDERR_TAP_DONE_FD + 1);
    if (rc == 0)
        rc = start(argv, from, done, status_to);
    if (rc == 0) {
        close_end(&status_to);
        rc = started(status);
    }
    if (rc == 0 && dup2(to, STDERR_FILENO) < 0)
        rc = -errno;
    return rc < 0 ? dlr_fail(err, rc, "cannot start '%s': %s", argv[0], strerror(-rc))
                  : 0;
}
