/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/node/job_tmpfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "common/config/opt.h"
#include "spank/node/cleanup.h"
#include "spank/node/kept_tmpfs.h"

#define INODES 65536 /* a rank has a page, three slots and two for each copy it keeps */

bool dlr_jobmem_wanted(char *const env[], uint32_t job)
{
    const char *mark = dlr_env_get(env, "DLROVER_SUPERVISED");
    char lead[16];

    dlr_format(lead, sizeof(lead), "%u.", job);
    return mark && dlr_after(mark, lead) && dlr_env_get(env, "DLROVER_CRED");
}

uint64_t dlr_jobmem_bytes(const char *size, uint64_t job_mb)
{
    uint64_t whole = job_mb << 20, bytes;
    struct sysinfo node;

    if (sysinfo(&node) == 0) {
        uint64_t total = (uint64_t)node.totalram * node.mem_unit;

        if (whole == 0)
            whole = total / 2;
        if (whole > total)
            whole = total;
    }
    bytes = dlr_opt_share(size, whole);
    return bytes < whole || whole == 0 ? bytes : whole;
}

/* Huge pages save a page table and most of the time it takes to touch the memory;
 * kernels without them do not know the option.
 */
static int mount_tmpfs(const char *path, uint64_t bytes)
{
    static const char *const huge[] = {",huge=within_size", ""};
    char options[128];
    int rc = 0;

    for (size_t i = 0; i < sizeof(huge) / sizeof(*huge); i++) {
        dlr_format(options, sizeof(options), "mode=0755,nr_inodes=%d,size=%llu%s",
                   INODES, (unsigned long long)bytes, huge[i]);
        rc = mount("dlrover", path, "tmpfs", MS_NODEV | MS_NOSUID | MS_NOEXEC, options);
        if (rc == 0 || errno != EINVAL)
            break;
    }
    return rc < 0 ? -errno : 0;
}

/* The user's directory in it. Nobody but root can change anything beside. */
static int make_users(int root, const char *own, const char *name,
                      const struct dlr_jobmem *job)
{
    DLR_AUTO_CLOSE int top =
        openat(root, own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (top < 0)
        return -errno;
    if (mkdirat(top, name, 0700) == 0)
        return fchownat(top, name, job->uid, job->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
                                                                                : 0;
    return errno == EEXIST && dlr_memory_owned(top, name, job->uid) ? 0 : -EEXIST;
}

int dlr_jobmem_mount(const struct dlr_jobmem *job, uint64_t bytes, bool keep,
                     struct dlr_err *err)
{
    char name[DLR_MEMORY_NAME], path[128], there[128];
    const char *own = dlr_jobmem_names(job, name);
    DLR_AUTO_CLOSE int root = -1;
    DLR_AUTO_CLOSE int lock = -1;
    bool mounted = false;
    int rc = dlr_jobmem_lock(&lock, &root, err);

    if (rc < 0)
        return rc;
    dlr_format(path, sizeof(path), "%s/%s", DLR_MEMORY_OWN, own);
    if (mkdirat(root, own, 0755) < 0 && errno != EEXIST)
        return dlr_fail(err, -errno, "cannot make '%s': %m", path);
    if (dlr_memory_own(name, there, sizeof(there)) < 0) {
        rc = mount_tmpfs(path, bytes);
        mounted = rc == 0;
    }
    if (rc == 0)
        rc = make_users(root, own, name, job);
    if (rc == 0)
        rc = dlr_jobkeep_begin(root, own, keep);
    if (rc == 0)
        return 0;
    if (mounted)
        umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    unlinkat(root, own, AT_REMOVEDIR);
    return dlr_fail(err, rc, "cannot mount a tmpfs on '%s': %s", path, strerror(-rc));
}

void dlr_jobmem_begin(const struct dlr_spank_conf *conf, char *const env[],
                      const struct dlr_jobmem *job)
{
    struct dlr_err err = {0};

    if (conf->job_tmpfs_keep_ms > 0)
        dlr_jobkeep_clear(job->job);
    if (!conf->job_tmpfs || !dlr_jobmem_wanted(env, job->job))
        return;
    if (dlr_jobmem_mount(job, dlr_jobmem_bytes(conf->job_tmpfs_size, job->mb),
                         conf->job_tmpfs_keep_ms > 0, &err) < 0)
        dlr_warn("%s: the job's memory is in " DLR_MEMORY_ROOT, err.text);
}

void dlr_jobmem_end(const struct dlr_spank_conf *conf, const struct dlr_jobmem *job)
{
    struct dlr_err err = {0};

    if ((conf->job_tmpfs_keep_ms <= 0 ||
         !dlr_jobkeep_end(job, conf->job_tmpfs_keep_ms)) &&
        dlr_jobmem_umount(job, DLR_NODE_CLEANUP_LIMIT_MS, &err) < 0)
        dlr_error("%s", err.text);
    if (dlr_node_cleanup_job(DLR_MEMORY_ROOT, job->uid, job->gid, job->job,
                             DLR_NODE_CLEANUP_LIMIT_MS, &err) < 0)
        dlr_error("%s", err.text);
}
