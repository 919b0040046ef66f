/* SPDX-License-Identifier: Apache-2.0 */
/* A job's own tmpfs on a node: DLR_MEMORY_OWN/UID-JOB, in which nobody but the job's
 * user can make anything. slurmstepd mounts it as root before the job's agent starts,
 * the epilog takes it away.
 */
#ifndef DLR_SPANK_NODE_JOB_TMPFS_H
#define DLR_SPANK_NODE_JOB_TMPFS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "spank/base/options.h"
#include "spank/node/tmpfs_mount.h"

/* In slurmstepd, as root, before a step's tasks: mounts it where the step is the job's
 * agents' and the site has not switched it off, and says in slurmd's log when that
 * fails. env is the step's.
 */
void dlr_jobmem_begin(const struct dlr_spank_conf *conf, char *const env[],
                      const struct dlr_jobmem *job);

/* In the epilog, as root: removes what the job has left in memory, here and in
 * DLR_MEMORY_ROOT; what the site keeps for the job stays (kept_tmpfs.h).
 */
void dlr_jobmem_end(const struct dlr_spank_conf *conf, const struct dlr_jobmem *job);

/* Whether a step with env is the one of job's agents. env is the user's: what he can
 * have with it is what his agents have. Foreign bytes: fuzz target task_env.
 */
bool dlr_jobmem_wanted(char *const env[], uint32_t job);

/* How large it may grow: size as in job-tmpfs-size, of job_mb, what Slurm has given the
 * job here; of half of the node's memory where Slurm gives no limit (0), as /dev/shm
 * has it.
 */
uint64_t dlr_jobmem_bytes(const char *size, uint64_t job_mb);

/* As root: mounts it, with a directory "dlrover-UID-JOB" of the user's in it. 0 also
 * when it is there already. keep: it may be kept for the job. -errno with text; nothing
 * is left of a failure then.
 */
int dlr_jobmem_mount(const struct dlr_jobmem *job, uint64_t bytes, bool keep,
                     struct dlr_err *err);

#endif
