/* SPDX-License-Identifier: Apache-2.0 */
/* A job's tmpfs that outlives the job on its node, where the site wants that
 * (job-tmpfs-keep): the requeued job finds its snapshots there. Nobody is charged for
 * it meanwhile, so it goes when any other job begins something on the node, and when
 * its time is over. Root reads nothing of the user's: what is kept, and since when,
 * stands in DLR_MEMORY_OWN/UID-JOB.kept.
 */
#ifndef DLR_SPANK_NODE_KEPT_TMPFS_H
#define DLR_SPANK_NODE_KEPT_TMPFS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "spank/node/tmpfs_mount.h"

/* The job is there: its tmpfs, in root/own, is its own again; keep: it may be left by
 * agents that end with a job. Called with DLR_MEMORY_OWN open as root and locked. 0 or
 * -errno.
 */
int dlr_jobkeep_begin(int root, const char *own, bool keep);

/* In the epilog: leaves the job's tmpfs where it is for keep_ms at most, when something
 * is in it. False: it is to be taken away as always.
 */
bool dlr_jobkeep_end(const struct dlr_jobmem *job, int64_t keep_ms);

/* Before a step of job: takes away what is kept of other jobs here, and waits a second
 * at most until it is free.
 */
void dlr_jobkeep_clear(uint32_t job);

/* Takes away what is kept of the job since since_ms (of dlr_now_ms()); 0 also when it
 * is not kept any more, or anew. -errno with text.
 */
int dlr_jobkeep_free(const struct dlr_jobmem *job, int64_t since_ms,
                     struct dlr_err *err);

#endif
