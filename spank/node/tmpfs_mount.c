/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/node/tmpfs_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "spank/node/cleanup.h"

#define LOCK ".lock"

const char *dlr_jobmem_names(const struct dlr_jobmem *job, char name[DLR_MEMORY_NAME])
{
    dlr_format(name, DLR_MEMORY_NAME, "dlrover-%u-%u", (unsigned)job->uid, job->job);
    return strchr(name, '-') + 1;
}

int dlr_jobmem_lock(int *ret_lock, int *ret_root, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int root = -1;
    DLR_AUTO_CLOSE int lock = -1;
    struct stat st;

    if (mkdir(DLR_MEMORY_OWN, 0755) < 0 && errno != EEXIST)
        return dlr_fail(err, -errno, "cannot make '" DLR_MEMORY_OWN "': %m");
    root = open(DLR_MEMORY_OWN, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0 || fstat(root, &st) < 0)
        return dlr_fail(err, -errno, "cannot open '" DLR_MEMORY_OWN "': %m");
    if (st.st_uid != 0 || (st.st_mode & 022))
        return dlr_fail(err, -EPERM,
                        "'" DLR_MEMORY_OWN "' is writable by others than root");
    lock = openat(root, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return dlr_fail(err, -errno, "cannot lock '" DLR_MEMORY_OWN "/" LOCK "': %m");
    *ret_root = dlr_steal_fd(&root);
    *ret_lock = dlr_steal_fd(&lock);
    return 0;
}

int dlr_jobmem_detach(const struct dlr_jobmem *job, int *ret_tree, struct dlr_err *err)
{
    char name[DLR_MEMORY_NAME], path[128];
    DLR_AUTO_CLOSE int tree = -1;

    dlr_jobmem_names(job, name);
    *ret_tree = -1;
    if (dlr_memory_own(name, path, sizeof(path)) < 0)
        return 0;
    tree = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", path);
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
        return dlr_fail(err, -errno, "cannot unmount '%s': %m", path);
    if (rmdir(path) < 0)
        return dlr_fail(err, -errno, "cannot remove '%s': %m", path);
    *ret_tree = dlr_steal_fd(&tree);
    return 0;
}

void dlr_jobmem_empty(const struct dlr_jobmem *job, int tree, int64_t limit_ms)
{
    struct statfs fs;
    char path[64];
    int rc;

    dlr_format(path, sizeof(path), "/proc/self/fd/%d", tree);
    /* His directory itself is in one of root's: that he cannot remove. */
    rc = dlr_node_cleanup_job(path, job->uid, job->gid, job->job, limit_ms, NULL);
    if (rc < 0 && rc != -EACCES)
        dlr_warn("memory of job %u is not emptied: %s", job->job, strerror(-rc));
    if (fstatfs(tree, &fs) == 0 && fs.f_bfree < fs.f_blocks)
        dlr_warn("memory of job %u is in use: it goes with the last one who uses it",
                 job->job);
}

int dlr_jobmem_umount(const struct dlr_jobmem *job, int64_t limit_ms,
                      struct dlr_err *err)
{
    DLR_AUTO_CLOSE int tree = -1;
    int rc = dlr_jobmem_detach(job, &tree, err);

    if (tree >= 0)
        dlr_jobmem_empty(job, tree, limit_ms);
    return rc;
}
