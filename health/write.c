/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are really written: a local disk, and the shared directory. Each by a
 * process of its own: a thread that hangs in the kernel keeps its process from ending,
 * and with it the step.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/checks.h"

#define ANSWER_MS 5000 /* a file server that fails over takes longer than a busy one */
#define SLOW_MS 1000
#define LOCAL_BYTES (4u << 20)
#define SHARED_BYTES 4096u

static unsigned char block[SHARED_BYTES];

/* In the child, which calls nothing but the kernel. 0, or errno. */
static int write_file(const char *path, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;

    if (fd < 0)
        return errno;
    for (size_t done = 0; rc == 0 && done < bytes; done += sizeof(block))
        rc = write(fd, block, sizeof(block)) == (ssize_t)sizeof(block) ? 0
             : errno                                                   ? errno
                                                                       : EIO;
    if (rc == 0 && fsync(fd) < 0)
        rc = errno;
    if (close(fd) < 0 && rc == 0)
        rc = errno;
    return unlink(path) < 0 && rc == 0 ? errno : rc;
}

/* Waits for the child, which is left behind when it does not come back. Its exit code,
 * or -ETIMEDOUT.
 */
static int await(pid_t child, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int64_t until_ms = dlr_now_ms() + ANSWER_MS, left_ms = ANSWER_MS;
    int status = 0, rc;

    do {
        rc = poll(&p, 1, (int)left_ms);
        left_ms = until_ms - dlr_now_ms();
    } while (rc < 0 && errno == EINTR && left_ms > 0);
    if (rc <= 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, WNOHANG);
        return -ETIMEDOUT;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static int write_apart(const char *path, size_t bytes)
{
    DLR_AUTO_CLOSE int pidfd = -1;
    pid_t child = fork();

    if (child == 0) {
        /* srun waits for the end of what a task's child holds */
        close_range(0, ~0U, 0);
        _exit(write_file(path, bytes) & 0x7f);
    }
    if (child < 0)
        return -errno;
    pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (pidfd < 0) {
        kill(child, SIGKILL);
        return -ENOSYS;
    }
    return await(child, pidfd);
}

static void check(const char *dir, size_t bytes, struct dlr_health_result *ret)
{
    char path[PATH_MAX];
    int64_t from_ns = dlr_now_ns();
    double ms;
    int rc = dlr_format(path, sizeof(path), "%s/.dlrover-check-%d-%lld", dir, getpid(),
                        (long long)from_ns);

    if (rc == 0)
        rc = write_apart(path, bytes);
    ms = (double)(dlr_now_ns() - from_ns) / 1e6;
    if (rc == -ETIMEDOUT)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "'%.160s': a file of %zu KiB is not written within %d ms", dir,
                       bytes >> 10, ANSWER_MS);
    else if (rc < 0)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "cannot check: %s", strerror(-rc));
    else if (rc == ENOENT || rc == EACCES || rc == ENOTDIR)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "'%.160s': %s", dir, strerror(rc));
    else if (rc > 0)
        dlr_health_say(ret,
                       rc == ENOSPC || rc == EDQUOT ? DLR_HEALTH_WARN : DLR_HEALTH_FAIL,
                       "'%.160s': a file cannot be written: %s", dir, strerror(rc));
    else
        dlr_health_say(ret, ms > SLOW_MS ? DLR_HEALTH_WARN : DLR_HEALTH_OK,
                       "'%.160s': %zu KiB written in %.0f ms", dir, bytes >> 10, ms);
}

void dlr_health_write(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    const char *dir = getenv("TMPDIR");

    check(dir && dir[0] ? dir : "/tmp", LOCAL_BYTES, ret);
}

void dlr_health_shared(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    if (env->disk_path && env->disk_path[0])
        check(env->disk_path, SHARED_BYTES, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no directory to look at");
}
