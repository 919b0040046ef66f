/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are really written: a local disk, and the shared directory. Each by a
 * process of its own: a thread that hangs in the kernel keeps its process from ending,
 * and with it the step.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
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

struct file {
    char path[PATH_MAX];
    size_t bytes;
};

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

static int write_one(void *arg)
{
    const struct file *file = arg;

    return write_file(file->path, file->bytes) & 0x7f;
}

static void check(const struct dlr_health_env *env, const char *key, const char *dir,
                  size_t bytes, struct dlr_health_result *ret)
{
    struct file file = {.bytes = bytes};
    int64_t from_ns = dlr_now_ns();
    double ms;
    int rc = dlr_format(file.path, sizeof(file.path), "%s/.dlrover-check-%d-%lld", dir,
                        getpid(), (long long)from_ns);

    if (rc == 0)
        rc = dlr_health_apart(write_one, &file, ANSWER_MS);
    ms = (double)(dlr_now_ns() - from_ns) / 1e6;
    if (rc == 0 && dlr_health_injected(env, key, &ms) && ms >= ANSWER_MS)
        rc = -ETIMEDOUT;
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

    check(env, "write.time", dir && dir[0] ? dir : "/tmp", LOCAL_BYTES, ret);
}

void dlr_health_shared(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    if (env->disk_path && env->disk_path[0])
        check(env, "shared.time", env->disk_path, SHARED_BYTES, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no directory to look at");
}
