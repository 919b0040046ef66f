/* SPDX-License-Identifier: Apache-2.0 */
/* A job's own tmpfs on a node: DLR_MEMORY_OWN/UID-JOB, in which nobody but the job's user can
 * make anything. slurmstepd mounts it as root before the job's agent starts, the epilog takes
 * it away.
 */
#ifndef DLR_SPANK_NODE_JOB_TMPFS_H
#define DLR_SPANK_NODE_JOB_TMPFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "spank/base/options.h"

struct dlr_jobmem {
    uint32_t job;
    uid_t uid;
    gid_t gid;
    uint64_t
        mb; /* of memory that Slurm has given it on this node; 0: it keeps no account */
};

/* In slurmstepd, as root, before a step's tasks: mounts it where the step is the job's agents'
 * and the site has not switched it off, and says in slurmd's log when that fails. env is the
 * step's.
 */
void dlr_jobmem_begin(const struct dlr_spank_conf *conf, char *const env[],
                      const struct dlr_jobmem *job);

/* In the epilog, as root: removes what the job has left in memory, here and in DLR_MEMORY_ROOT; what
 * the site keeps for the job stays (kept_tmpfs.h).
 */
void dlr_jobmem_end(const struct dlr_spank_conf *conf, const struct dlr_jobmem *job);

/* Whether a step with env is the one of job's agents. env is the user's: what he can have with
 * it is what his agents have.
 * Foreign bytes: fuzz target task_env.
 */
bool dlr_jobmem_wanted(char *const env[], uint32_t job);

/* How large it may grow: size as in job-tmpfs-size, of job_mb, what Slurm has given the job here;
 * of half of the node's memory where Slurm gives no limit (0), as /dev/shm has it.
 */
uint64_t dlr_jobmem_bytes(const char *size, uint64_t job_mb);

/* As root: mounts it, with a directory "dlrover-UID-JOB" of the user's in it. 0 also when it is
 * there already. keep: it may be kept for the job. -errno with text; nothing is left of a failure then.
 */
int dlr_jobmem_mount(const struct dlr_jobmem *job, uint64_t bytes, bool keep,
                     struct dlr_err *err);

/* As root: takes it away, which waits for nobody. *ret_tree: what was there, for dlr_jobmem_empty(), and to be closed by
 * the caller; -1 when there is none. -errno with text.
 */
int dlr_jobmem_detach(const struct dlr_jobmem *job, int *ret_tree, struct dlr_err *err);

/* As root, and with no lock held: empties it as the user, as in dlr_sweep_job(), because processes or a mount namespace
 * of another job may hold it for longer; slurmd's log says when something is left.
 */
void dlr_jobmem_empty(const struct dlr_jobmem *job, int tree, int64_t limit_ms);

/* Both. 0 also when there is none. */
int dlr_jobmem_umount(const struct dlr_jobmem *job, int64_t limit_ms,
                      struct dlr_err *err);

/* Opens DLR_MEMORY_OWN, making it where it is not there, and takes its lock: several steps of a job
 * may begin at once. Only root can have that lock, and waits for no user while he has it. Both are the
 * caller's. -errno with text.
 */
int dlr_jobmem_lock(int *ret_lock, int *ret_root, struct dlr_err *err);

#endif
