/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervised batch script is shown of its job: the nodes that train, in rank
 * order, and sizes to match; spares are held back. The same choice as that of the first
 * round, so that the first node of the list is that of rank 0. Pure but for the last
 * two.
 */
#ifndef DLR_MPI_LAUNCHER_SLURM_BATCH_VIEW_H
#define DLR_MPI_LAUNCHER_SLURM_BATCH_VIEW_H

#include <stdio.h>

#include "common/base/err.h"
#include "hwloc_topo/topo.h"

struct dlr_batch_view_in {
    const char *job;             /* SLURM_JOB_ID */
    const char *list;            /* SLURM_JOB_NODELIST as Slurm gave it */
    struct dlr_topo_node *nodes; /* the nodes of list, in its order, with their paths */
    unsigned n, nplaces;         /* 1 <= nplaces <= n */
    const char *tasks;           /* SLURM_TASKS_PER_NODE, "2(x3),1"; or NULL */
    const char *cpus;            /* SLURM_JOB_CPUS_PER_NODE, the same form; or NULL */
    const char *ntasks;          /* SLURM_NTASKS or NULL */
    unsigned group; /* --dlrover-group; none where it does not divide nplaces */
};

/* How many nodes train: all but the spares, and no more than most (0: no limit), or as
 * many as before (0: the job begins) when it was requeued. -EINVAL when the spares
 * leave none.
 */
int dlr_batch_view_places(unsigned n, unsigned spares, unsigned most, unsigned before,
                          unsigned *ret);

/* Writes lines "NAME=value" to out. -EINVAL when tasks or cpus is not such a list,
 * -E2BIG when the names do not fit a variable, -ENOMEM.
 */
int dlr_batch_view_write(const struct dlr_batch_view_in *in, FILE *out,
                         struct dlr_err *err);

/* The number of nodes that were shown when the job began, kept in the job's directory:
 * a requeued job may have been given more or fewer. 0 when none is known.
 */
unsigned dlr_batch_view_load(const char *job_dir);
void dlr_batch_view_save(const char *job_dir, unsigned nplaces);

#endif
