/* SPDX-License-Identifier: Apache-2.0 */
/* Within a limit: a function in a child, a program and its output. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "mpi_launcher/doctor/doctor.h"

#define SLOW_MS 1000 /* a terminal is told what is waited for */

extern char **environ;

static void child(void (*fn)(const struct dlr_doctor *d, void *ret),
                  const struct dlr_doctor *d, void *ret, size_t size, int out)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    dup2(null_fd, STDERR_FILENO);
    fn(d, ret);
    _exit(dlr_write_all(out, ret, size) < 0);
}

static void show_wait(const char *label, bool *shown)
{
    if (isatty(STDERR_FILENO) && !*shown) {
        fprintf(stderr, "waiting for %s ...", label);
        *shown = true;
    }
}

/* Reads size bytes until deadline; -ETIMEDOUT, -EIO at an early end. */
static int read_until(int fd, char *buf, size_t size, int64_t deadline,
                      const char *label)
{
    int64_t slow = dlr_now_ms() + SLOW_MS;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    bool shown = false;
    size_t used = 0;
    int rc = 0;

    while (used < size && rc == 0) {
        int64_t now = dlr_now_ms(), until = !shown && slow < deadline ? slow : deadline;
        ssize_t n;

        if (poll(&pfd, 1, until > now ? (int)(until - now) : 0) <= 0) {
            if (dlr_now_ms() >= deadline)
                rc = -ETIMEDOUT;
            else if (dlr_now_ms() >= slow)
                show_wait(label, &shown);
            slow = shown ? slow : deadline;
            continue;
        }
        n = read(fd, buf + used, size - used);
        if (n > 0)
            used += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = -EIO;
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return rc;
}

int dlr_doctor_bounded(void (*fn)(const struct dlr_doctor *d, void *ret),
                       const struct dlr_doctor *d, void *ret, size_t size,
                       int64_t limit_ms, const char *label)
{
    DLR_AUTO_FREE char *copy = calloc(1, size);
    DLR_AUTO_CLOSE int in = -1;
    int pair[2], rc;
    pid_t pid;

    if (!copy || pipe2(pair, O_CLOEXEC) < 0)
        return -ENOMEM;
    in = pair[0];
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        child(fn, d, copy, size, pair[1]);
    close(pair[1]);
    if (pid < 0)
        return -EAGAIN;
    setpgid(pid, pid); /* whoever comes first */
    rc = read_until(in, copy, size, dlr_now_ms() + limit_ms, label);
    kill(-pid, SIGKILL);
    /* one that hangs in the kernel cannot be waited for: it is left behind */
    waitpid(pid, NULL, rc == -ETIMEDOUT ? WNOHANG : 0);
    if (rc == 0)
        memcpy(ret, copy, size);
    return rc;
}

int dlr_doctor_capture(const char *const argv[], char *buf, size_t size)
{
    posix_spawn_file_actions_t actions;
    size_t used = 0;
    int pair[2], status, rc;
    ssize_t n;
    pid_t pid;
    char rest[4096];

    buf[0] = '\0';
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDERR_FILENO);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    while (rc == 0) {
        bool full = used >= size - 1;

        n = read(pair[0], full ? rest : buf + used,
                 full ? sizeof(rest) : size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += full ? 0 : (size_t)n;
    }
    close(pair[0]);
    if (rc != 0)
        return -rc;
    buf[used] = '\0';
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return status;
}
