/* SPDX-License-Identifier: Apache-2.0 */
/* How processes ended that a dead supervisor had started: the keeper, whose children
 * they became, writes it into the memory file that the next supervisor reads. One page
 * of it, after the key pair's (takeover_state.h); the newest DLR_CHILD_EXITS are kept.
 */
#ifndef DLR_MPI_LAUNCHER_KEEPER_CHILD_EXITS_H
#define DLR_MPI_LAUNCHER_KEEPER_CHILD_EXITS_H

#include <sys/types.h>

#define DLR_CHILD_EXITS_AT 4096 /* bytes into the file */
#define DLR_CHILD_EXITS 256

/* The nth (from 1) process that ended, with its wait status. 0 or -errno. */
int dlr_child_exits_add(int fd, unsigned nth, pid_t pid, int status);

/* The wait status of the newest one with this pid; -ENOENT when none is known. */
int dlr_child_exits_find(int fd, pid_t pid, int *ret_status);

#endif
