/* SPDX-License-Identifier: Apache-2.0 */
/* Large processes of users that belong to no job. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

#define LARGE_BYTES (1ull << 30) /* memory that a job would miss */
#define USERS_FROM 1000u         /* login.defs: UID_MIN */
#define NOBODY 65534u
#define ANCESTORS_MAX 64 /* a process whose parents end in a ring does not exist */

struct process {
    char name[32];
    uint64_t parent, uid, bytes;
};

/* proc_pid_status(5); false: it has ended, or is a thread of the kernel. */
static bool read_process(const struct dlr_health_env *env, uint64_t pid,
                         struct process *ret)
{
    char path[64];
    DLR_AUTO_FREE char *text = NULL;
    const char *name, *parent, *uid;

    dlr_format(path, sizeof(path), "/proc/%" PRIu64 "/status", pid);
    text = dlr_health_load(env, path);
    name = text ? dlr_after(text, "Name:\t") : NULL;
    parent = text ? strstr(text, "\nPPid:") : NULL;
    uid = text ? strstr(text, "\nUid:") : NULL;
    if (!name || !parent || !uid ||
        !dlr_health_number(parent + strlen("\nPPid:"), &ret->parent) ||
        !dlr_health_number(uid + strlen("\nUid:"), &ret->uid) ||
        !dlr_health_meminfo(text, "VmRSS:", &ret->bytes))
        return false;
    return dlr_format(ret->name, sizeof(ret->name), "%.*s", (int)strcspn(name, "\n"),
                      name) == 0;
}

/* Slurm's processes, and their control groups, are called so in all releases; of a
 * process nobody can tell about, it is taken for a job's.
 */
static bool of_a_job(const struct dlr_health_env *env, uint64_t pid)
{
    char path[64];
    DLR_AUTO_FREE char *groups = NULL;
    struct process p;

    dlr_format(path, sizeof(path), "/proc/%" PRIu64 "/cgroup", pid);
    groups = dlr_health_load(env, path);
    if (!groups || strstr(groups, "slurm"))
        return true;
    for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (!read_process(env, pid, &p) || dlr_streq(p.name, "slurmstepd"))
            return true;
        pid = p.parent;
    }
    return false;
}

void dlr_health_leftovers(const struct dlr_health_env *env,
                          struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t paths = {0};
    unsigned users = 0;
    uint64_t played;
    size_t n;

    if (dlr_health_injected_count(env, "leftovers.memory", &played) &&
        played >= LARGE_BYTES)
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "a process of no job holds %.1f GiB, limit 1",
                       (double)played / (double)LARGE_BYTES);
    if (ret->reason[0])
        return;
    if (!env->root[0] && geteuid() != 0) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "only root sees the processes of others");
        return;
    }
    n = dlr_health_glob(env, "/proc/[0-9]*", &paths);
    for (size_t i = 0; i < n; i++) {
        struct process p;
        uint64_t pid = 0;

        if (!dlr_health_number(dlr_health_name(dlr_health_path(env, &paths, i)),
                               &pid) ||
            !read_process(env, pid, &p) || p.uid < USERS_FROM || p.uid == NOBODY)
            continue;
        users++;
        if (p.bytes >= LARGE_BYTES && !of_a_job(env, pid))
            dlr_health_add(ret, DLR_HEALTH_WARN,
                           "%s (pid %" PRIu64 ", uid %" PRIu64
                           ") of no job holds %.1f GiB, limit 1",
                           p.name, pid, p.uid, (double)p.bytes / (double)LARGE_BYTES);
    }
    if (!ret->reason[0])
        dlr_health_say(ret, n ? DLR_HEALTH_OK : DLR_HEALTH_SKIP,
                       n ? "%u processes of users, none large without a job"
                         : "/proc cannot be read",
                       users);
}
