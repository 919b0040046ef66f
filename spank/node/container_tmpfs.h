/* SPDX-License-Identifier: Apache-2.0 */
/* A job's own tmpfs (job_tmpfs.h) in the job's container: with job_container/tmpfs its
 * tasks live in a mount namespace that Slurm made before the tmpfs was mounted, and
 * from which it is not seen. It is the same tmpfs on both sides then, so that
 * slurmstepd's hooks and the epilog find what agents keep.
 */
#ifndef DLR_SPANK_NODE_CONTAINER_TMPFS_H
#define DLR_SPANK_NODE_CONTAINER_TMPFS_H

#include "spank/node/job_tmpfs.h"

/* In slurmstepd, as root, once it is mounted: a descriptor of the caller's that leads
 * to it from another mount namespace; -1 where env is not that of the job's agents, it
 * has none, or the kernel is older than 5.2.
 */
int dlr_jobview_open(char *const env[], const struct dlr_jobmem *job);

/* In the task, as root, before anything of the user's runs: mounts what tree leads to
 * in the task's namespace, where all that Slurm starts for the job will see it. 0 also
 * when it is seen already, and with tree -1. -errno with text.
 */
int dlr_jobview_show(const struct dlr_jobmem *job, int tree, struct dlr_err *err);

#endif
