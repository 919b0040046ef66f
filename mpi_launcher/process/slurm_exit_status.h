/* SPDX-License-Identifier: Apache-2.0 */
/* What dlrover-slurm says by its exit status. */
#ifndef DLR_MPI_LAUNCHER_PROCESS_SLURM_EXIT_STATUS_H
#define DLR_MPI_LAUNCHER_PROCESS_SLURM_EXIT_STATUS_H

/* witness: slurmctld calls that node down, or the job has lost it */
#define DLR_SLURM_GONE 3
#define DLR_SLURM_MISSES 4 /* or does not hear it */

/* requeue: the job cannot get more memory, and is left alone */
#define DLR_SLURM_NO_MEMORY 3

#define DLR_SLURM_QUEUED 3 /* queued: slurmctld has made no step for that srun yet */

#endif
