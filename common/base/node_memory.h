/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job's memory is on this node: TOP/dlrover-UID-JOB/RUN. TOP is the job's own
 * tmpfs, DLR_MEMORY_OWN/UID-JOB, where the plugin has mounted one as root
 * (spank/node/job_tmpfs.h), else DLR_MEMORY_ROOT, which is everybody's. There anybody
 * can take that name before the job comes; ours is then TOP/dlrover-UID-JOB.XXXXXXXX,
 * found by its owner. Nothing in here follows a link or trusts a directory of somebody
 * else. A path below DLR_MEMORY_ROOT stands for both: that is what processes on
 * different nodes tell each other.
 */
#ifndef DLR_COMMON_BASE_NODE_MEMORY_H
#define DLR_COMMON_BASE_NODE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"

#define DLR_MEMORY_ROOT "/dev/shm"
#define DLR_MEMORY_OWN "/run/dlrover"
/* in TOP, root's: it may stay when the job is requeued */
#define DLR_MEMORY_KEEP ".keep"
#define DLR_MEMORY_NAME 96 /* of a job's directory, NUL included */
/* looked at where everybody makes them: they may never end */
#define DLR_MEMORY_NAMES (1u << 20)

/* Whether entry of TOP is a name that the job's directory called name may have there.
 * Foreign bytes: fuzz target memory.
 */
bool dlr_memory_is(const char *entry, const char *name);

/* openat() of one part of a path that a user chose, never over a link (-ELOOP; with
 * O_DIRECTORY -ENOTDIR) or a mount (-EXDEV): nothing waits for a file system that he
 * has mounted. flags: O_PATH or O_RDONLY, O_DIRECTORY; the descriptor, or -errno.
 */
int dlr_memory_step(int dirfd, const char *name, int flags);

/* Whether dirfd/name is a directory of owner, no link to one and no mount. */
bool dlr_memory_owned(int dirfd, const char *name, uid_t owner);

/* The tmpfs that root has mounted for the job whose directory is called name. -ENOENT
 * when there is none, -EPERM when something else is there: it and the directory that it
 * is in must be root's and writable by nobody else.
 */
int dlr_memory_own(const char *name, char *buf, size_t size);

/* TOP of path on this node. -ENOENT when no part of it is a job's directory.
 * Foreign bytes: fuzz target memory.
 */
int dlr_memory_top(const char *path, char *buf, size_t size);

/* Whether what is at path may stay there for the same job, requeued: it is in the job's
 * own tmpfs, and the site says so.
 */
bool dlr_memory_is_kept(const char *path);

/* path with TOP and with the name that the job's directory has on this node; path as it
 * is when there is none, or when no part of it begins with "dlrover-". -ENAMETOOLONG.
 * Foreign bytes: fuzz target memory.
 */
int dlr_memory_find(const char *path, char *buf, size_t size);

/* Same, and makes the job's directory (0700) when we have none. *ret_taken: somebody
 * else has its usual name. -errno with text.
 */
int dlr_memory_claim(const char *path, char *buf, size_t size, bool *ret_taken,
                     struct dlr_err *err);

/* Opens the socket of the agent that path names
 * ("<root>/dlrover-<uid>-<job>/RUN/agent.sock") with O_PATH; dlr_local_connect() takes
 * "/proc/self/fd/<*ret_fd>". path comes from the user: any other form is -EINVAL, links
 * and mounts on the way are refused, and so is what is not the socket of the process's
 * own effective user. Never blocks on a file system the user has mounted. -errno with
 * text. Foreign bytes: fuzz target memory.
 */
int dlr_memory_socket(const char *root, const char *path, unsigned job, int *ret_fd,
                      struct dlr_err *err);

#endif
