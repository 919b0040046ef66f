/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job's own tmpfs is mounted, and how it is taken away: what mounting it
 * (job_tmpfs.h) and keeping it (kept_tmpfs.h) share.
 */
#ifndef DLR_SPANK_NODE_TMPFS_MOUNT_H
#define DLR_SPANK_NODE_TMPFS_MOUNT_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/node_memory.h"

struct dlr_jobmem {
    uint32_t job;
    uid_t uid;
    gid_t gid;
    /* of memory that Slurm has given it on this node; 0: it keeps no account */
    uint64_t mb;
};

/* Writes the name of a job's directory in its tmpfs; behind the first '-' of it, which
 * is returned, stands the name of the mount in DLR_MEMORY_OWN.
 */
const char *dlr_jobmem_names(const struct dlr_jobmem *job, char name[DLR_MEMORY_NAME]);

/* Opens DLR_MEMORY_OWN, making it where it is not there, and takes its lock: several
 * steps of a job may begin at once. Only root can have that lock, and waits for no user
 * while he has it. Both are the caller's. -errno with text.
 */
int dlr_jobmem_lock(int *ret_lock, int *ret_root, struct dlr_err *err);

/* As root: takes it away, which waits for nobody. *ret_tree: what was there, for
 * dlr_jobmem_empty(), and to be closed by the caller; -1 when there is none. -errno
 * with text.
 */
int dlr_jobmem_detach(const struct dlr_jobmem *job, int *ret_tree, struct dlr_err *err);

/* As root, and with no lock held: empties it as the user, as in dlr_node_cleanup_job(),
 * because processes or a mount namespace of another job may hold it for longer;
 * slurmd's log says when something is left.
 */
void dlr_jobmem_empty(const struct dlr_jobmem *job, int tree, int64_t limit_ms);

/* Both. 0 also when there is none. */
int dlr_jobmem_umount(const struct dlr_jobmem *job, int64_t limit_ms,
                      struct dlr_err *err);

#endif
