/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a job gets that has died for want of it. */
#ifndef DLR_MPI_LAUNCHER_SLURM_MORE_MEMORY_H
#define DLR_MPI_LAUNCHER_SLURM_MORE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/slurm/api.h"

#define DLR_MORE_MEMORY_PERCENT 50 /* beside what it had */
#define DLR_MORE_MEMORY_TIMES 2    /* of a job; then it goes on with what it has */

struct dlr_more_memory {
    unsigned times;     /* this is to be the Nth time */
    uint64_t mb, to_mb; /* of a node, or of a CPU (the job says which) */
};

/* From what the job has, and from the file at path, which counts. Never more than each
 * of its nodes has, or the partition or the site allows: it would be pending for ever.
 * What limits of accounts allow is not known: where Slurm enforces such, only anyway.
 * Asks slurmctld. -ENOSPC with the reason where it gets no more, -EIO.
 */
int dlr_more_memory_plan(const struct dlr_slurm_job *job, const char *path, bool anyway,
                         struct dlr_more_memory *ret, struct dlr_err *err);
/* It is given. */
void dlr_more_memory_count(const char *path, const struct dlr_more_memory *m);
/* "450 MB a node, 300 before" */
int dlr_more_memory_show(const struct dlr_slurm_job *job,
                         const struct dlr_more_memory *m, char *buf, size_t size);

#endif
