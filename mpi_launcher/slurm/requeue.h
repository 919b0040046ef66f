/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the job back into the queue without its dead nodes. */
#ifndef DLR_MPI_LAUNCHER_SLURM_REQUEUE_H
#define DLR_MPI_LAUNCHER_SLURM_REQUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct dlr_requeue {
    uint32_t job_id;
    unsigned incarnation; /* of the job that is meant: a later one is left alone */
    const char *exclude;  /* "n2,n7", or "" */
    unsigned min_nodes, max_nodes; /* the job may start with; 0: as it is */
    int64_t timeout_ms;
    /* files of the nodes that were excluded so before, and of how long the job took to
     * end; NULL: none
     */
    const char *ours_path, *times_path;
    bool script_lost; /* nothing else would end the job before its time limit */
    /* it is to get more memory: the file that counts how often it did; NULL: not */
    const char *memory_path;
    bool memory_anyway; /* also where an account's limits may not let it begin again */
    bool only_ask;      /* whether it can: nothing is done */
};

#define DLR_REQUEUE_SAID 128

/* Requeue first, then exclude: only a pending job's list may be changed, and it is
 * pending while its processes are still ending. The caller is one of those: run this in
 * a child that ignores SIGTERM (it has KillWait seconds). Blocking for up to
 * timeout_ms; where the script is lost, until slurmctld answers, and as long again.
 * -ENOTSUP: it must not be requeued. A job that is being ended (cancelled, over its time) is left alone,
 * -ESRCH. One that is requeued but whose list could not be set, or would leave its
 * partition too few nodes, or that was requeued before, is a success with a text in
 * err. One that cannot get the memory that it is to get is left alone, -ENOSPC.
 * ret_memory: DLR_REQUEUE_SAID bytes, what it has got, "" nothing.
 */
int dlr_requeue_job(const struct dlr_requeue *r, char *ret_memory, struct dlr_err *err);

#endif
