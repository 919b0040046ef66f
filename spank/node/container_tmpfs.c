/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/node/container_tmpfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"

/* Where it is mounted in the namespace of whoever asks. */
static int find(const struct dlr_jobmem *job, char *path, size_t size)
{
    char name[DLR_MEMORY_NAME];

    dlr_format(name, sizeof(name), "dlrover-%u-%u", (unsigned)job->uid, job->job);
    return dlr_memory_own(name, path, size);
}

/* A copy of the mount that is in no namespace yet, since the kernel binds none of
 * another namespace. Not by glibc's function, which came with 2.36.
 */
int dlr_jobview_open(char *const env[], const struct dlr_jobmem *job)
{
    char path[128];
    int tree;

    if (!dlr_jobmem_wanted(env, job->job) || find(job, path, sizeof(path)) < 0)
        return -1;
    tree = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        dlr_debug("'%s' will not be seen in a container: %s", path, strerror(errno));
    return tree;
}

int dlr_jobview_show(const struct dlr_jobmem *job, int tree, struct dlr_err *err)
{
    char path[128];
    DLR_AUTO_CLOSE int dir = -1;
    int rc = tree < 0 ? 0 : find(job, path, sizeof(path));

    if (rc == 0)
        return 0;
    if (rc != -ENOENT) /* a container's /run/dlrover that is not root's */
        return dlr_fail(err, rc, "'" DLR_MEMORY_OWN "' in the job's container: %s",
                        strerror(-rc));
    dlr_format(path, sizeof(path), DLR_MEMORY_OWN "/%u-%u", (unsigned)job->uid,
               job->job);
    dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || syscall(SYS_move_mount, tree, "", dir, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return dlr_fail(err, -errno, "cannot show '%s' in the job's container: %s",
                        path, strerror(errno));
    return 0;
}
