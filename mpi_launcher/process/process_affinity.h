/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of another process run. */
#ifndef DLR_MPI_LAUNCHER_PROCESS_PROCESS_AFFINITY_H
#define DLR_MPI_LAUNCHER_PROCESS_PROCESS_AFFINITY_H

#include <sched.h>
#include <sys/types.h>

/* at a process that starts threads all the while */
#define DLR_PROCESS_AFFINITY_LOOKS 3

/* Binds all threads of pid to set; those that they start later are where the one is
 * that starts them. One that ends meanwhile needs no place. -errno, of the last one
 * that stays where it is.
 */
int dlr_process_affinity(pid_t pid, const cpu_set_t *set);

#endif
