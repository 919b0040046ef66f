/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes of this node are a job's ranks. */
#ifndef DLR_MPI_LAUNCHER_UNWIND_TASKS_H
#define DLR_MPI_LAUNCHER_UNWIND_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DLR_UNWIND_TASKS 1024 /* processes of one node */

struct dlr_unwind_task {
    pid_t pid;
    uint32_t rank;
};

/* Takes an environment as /proc/PID/environ has it: true when it is of a task of the
 * job, and of its run where run is not NULL, with *ret_rank (RANK, else SLURM_PROCID). Foreign bytes: fuzz target stacks.
 */
bool dlr_unwind_task_read(const char *environment, size_t size, const char *job,
                          const char *run, uint32_t *ret_rank);

/* Finds them below root/proc, root "" on a node: processes of this user whose
 * environment is that of a task of the job and run, without the programs of this suite. Their
 * number, by rank; *ret_more, how many there are beyond.
 */
size_t dlr_unwind_find_tasks(const char *root, const char *job, const char *run,
                             struct dlr_unwind_task ret[DLR_UNWIND_TASKS],
                             unsigned *ret_more);

#endif
