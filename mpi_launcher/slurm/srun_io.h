/* SPDX-License-Identifier: Apache-2.0 */
/* An srun's connections to its nodes, seen from outside. */
#ifndef DLR_MPI_LAUNCHER_SLURM_SRUN_IO_H
#define DLR_MPI_LAUNCHER_SLURM_SRUN_IO_H

#include "mpi_launcher/slurm/srun.h"

/* For srun the output of the node with that numeric address has ended. When a node has
 * rebooted, slurmctld has srun try its connection to it; the answer is a reset, for
 * which srun ends the step on all nodes, --no-kill or not. What has ended it does not
 * try. How many connections that were, or -errno: -EPERM, -ENOSYS where the kernel does
 * not let us.
 */
int dlr_srun_io_end(const struct dlr_proc *srun, const char *address);

#endif
