/* SPDX-License-Identifier: Apache-2.0 */
/* Removes a job's memory from a node when the job has left it. */
#ifndef DLR_SPANK_NODE_CLEANUP_H
#define DLR_SPANK_NODE_CLEANUP_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

#define DLR_NODE_CLEANUP_LIMIT_MS 10000 /* of an epilog's time */
#define DLR_NODE_CLEANUP_KILL_MS 1000   /* for the child to be gone once it is killed */
#define DLR_NODE_CLEANUP_DEPTH 3        /* directories below the job's */

/* Removes <root>/dlrover-<uid>-<job> and what the job called .XXXXXXXX behind that when
 * somebody else had the name, as the job's owner: called by root, everything is done by
 * a child that has become uid and gid, so that no name a user can make is worth more
 * than what the user himself may do. No link is followed, no mount and nothing of
 * another owner is entered. Waits limit_ms at most, then ends the child, and waits
 * DLR_NODE_CLEANUP_KILL_MS for that. The caller holds no lock: the user can stop the
 * child. 0 also when nothing was there; -EPERM when somebody else has the name (ours is
 * removed all the same); -EXDEV when a mount is in it; -ETIMEDOUT, -errno.
 */
int dlr_node_cleanup_job(const char *root, uid_t uid, gid_t gid, uint32_t job,
                         int64_t limit_ms, struct dlr_err *err);

/* What the child does for each of them, in the directory top, in this process and as
 * whoever it is: 0 or -errno.
 */
int dlr_node_cleanup_tree(int top, const char *name, uid_t owner);

#endif
