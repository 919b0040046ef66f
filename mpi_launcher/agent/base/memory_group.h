/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup that counts a process's memory, of both versions (cgroups(7)). */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_MEMORY_GROUP_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The group of a process, "self" or a pid, as /proc has it: "/a/b", "" the root. root:
 * "" or where a test keeps its /proc and /sys. False: it is in none of this version.
 */
bool dlr_memory_group(const char *root, const char *process, bool v2, char *buf,
                      size_t size);

/* Where a file of the group is. -ENAMETOOLONG. */
int dlr_memory_group_path(const char *root, bool v2, const char *group,
                          const char *name, char *buf, size_t size);

/* Whether the kernel has killed a process of a task's for want of memory: the counter of
 * its cgroup, which is there for as long as its step is:
 * oom_kill of memory.oom_control (version 1, from Linux 4.13 on) or memory.events. */
struct dlr_memory_kills {
    int fd;          /* -1: there is no counter, or none of its own */
    uint64_t before; /* what it says when the task begins */
};

/* root: "" or where a test keeps its /proc and /sys. The counter is ret's to close. */
void dlr_memory_kills_open(const char *root, pid_t pid, struct dlr_memory_kills *ret);
/* How many there were since; 0, too, where that cannot be told any more. Closes it. */
uint64_t dlr_memory_kills_close(struct dlr_memory_kills *kills);

#endif
