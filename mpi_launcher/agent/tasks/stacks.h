/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks of this node stand, read by a child when the supervisor asks. Of the
 * tasks' engine, which keeps it.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_STACKS_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dlr_agent_tasks;

struct dlr_agent_stacks { /* their reader; text NULL: none runs */
    pid_t pid;
    int pidfd, fd;
    char *text;
    size_t size;
    uint32_t round;
    uint64_t id;
    int timer; /* until it is killed */
};

/* What runs is ended, and nothing is told. */
void dlr_agent_stacks_end(struct dlr_agent_tasks *tasks);

#endif
