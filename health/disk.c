/* SPDX-License-Identifier: Apache-2.0 */
/* Space for the job's state and for snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/base/str.h"
#include "health/checks.h"

#define DISK_TIMEOUT_MS 1000
#define LOW_BYTES (64ull << 20) /* journal and state of a long job take a few MiB */
#define LOW_FILES 1000ull

struct query {
    char path[4096];
    struct statvfs st;
    int rc; /* 0 or -errno */
};

static void ask(void *arg)
{
    struct query *q = arg;

    q->rc = statvfs(q->path, &q->st) < 0 ? -errno : 0;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1u << 20);
}

static void judge(const struct dlr_health_env *env, const struct query *q,
                  uint64_t need, struct dlr_health_result *ret)
{
    uint64_t free_bytes = (uint64_t)q->st.f_bavail * q->st.f_frsize;
    uint64_t inodes = q->st.f_files ? q->st.f_favail : UINT64_MAX; /* else no limit */

    dlr_health_injected_count(env, "disk.free", &free_bytes);
    dlr_health_injected_count(env, "disk.inodes", &inodes);
    if (q->rc == -ENOENT || q->rc == -EACCES)
        dlr_health_say(ret, DLR_HEALTH_WARN, "'%.160s': %s", q->path, strerror(-q->rc));
    else if (q->rc < 0)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "'%.160s': %s", q->path, strerror(-q->rc));
    else if (q->st.f_flag & ST_RDONLY)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "'%.160s' is read-only", q->path);
    else if (!inodes)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "'%.160s' has no inode free", q->path);
    else if (!free_bytes || free_bytes < need)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "'%.120s' has %.0f MiB free, %.0f are needed", q->path,
                       mib(free_bytes), mib(need));
    else if (free_bytes < LOW_BYTES || inodes < LOW_FILES)
        dlr_health_say(
            ret, DLR_HEALTH_WARN, "'%.120s' has %.0f MiB and %llu inodes free", q->path,
            mib(free_bytes), (unsigned long long)(inodes == UINT64_MAX ? 0 : inodes));
    else
        dlr_health_say(ret, DLR_HEALTH_OK, "'%.160s' has %.0f MiB free", q->path,
                       mib(free_bytes));
}

/* A file system whose server is gone does not answer at all: the question is asked in a
 * thread that may be left behind.
 */
static void check_path(const struct dlr_health_env *env, const char *path,
                       uint64_t need, struct dlr_health_result *ret)
{
    struct query *q = calloc(1, sizeof(*q));
    int rc = q ? dlr_format(q->path, sizeof(q->path), "%s", path) : -ENOMEM;

    if (rc == 0)
        rc = dlr_health_bounded(ask, q, DISK_TIMEOUT_MS);
    if (rc == 0)
        judge(env, q, need, ret);
    else if (rc == -ETIMEDOUT)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "'%.160s' does not answer within %d ms",
                       path, DISK_TIMEOUT_MS);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "cannot check: %s", strerror(-rc));
    if (rc != -ETIMEDOUT) /* else the thread's */
        free(q);
}

void dlr_health_disk(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    struct dlr_health_result shm = *ret;
    bool both =
        env->disk_path && env->disk_path[0] && env->shm_path && env->shm_path[0];

    dlr_health_say(ret, DLR_HEALTH_SKIP, "no directory to look at");
    if (env->disk_path && env->disk_path[0])
        check_path(env, env->disk_path, 0, ret);
    if (env->shm_path && env->shm_path[0])
        check_path(env, env->shm_path, env->shm_need_bytes, both ? &shm : ret);
    if (!both)
        return;
    if (shm.verdict > ret->verdict) {
        *ret = shm;
    } else if (shm.verdict == ret->verdict) {
        char first[sizeof(ret->reason)];

        memcpy(first, ret->reason, sizeof(first));
        dlr_health_say(ret, shm.verdict, "%.120s; %.120s", first, shm.reason);
    }
}
