/* SPDX-License-Identifier: Apache-2.0 */
/* From slurmstepd to the agent of its node: which step is here, which tasks it has and
 * how they ended. Nothing here waits; an agent that is gone or slow is not told.
 */
#ifndef DLR_SPANK_TASK_NOTIFY_H
#define DLR_SPANK_TASK_NOTIFY_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

/* Connects to the agent and names the round. *ret_fd is close-on-exec and the caller's;
 * its end of file tells the agent that the step has left the node. 0 or -errno.
 */
int dlr_notify_step(const char *socket, uint32_t round, int *ret_fd,
                    struct dlr_err *err);

/* A task was forked, it ended with a wait status. fd may be -1. 0 or -errno. */
int dlr_notify_task(int fd, uint32_t round, int rank, pid_t pid);
int dlr_notify_exit(int fd, uint32_t round, int rank, int status);

#endif
