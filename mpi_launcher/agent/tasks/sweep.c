/* SPDX-License-Identifier: Apache-2.0 */
/* What a round's tasks forked and left: found by the round's marks in their
 * environment. It does not wait for slurmstepd, whose own end can take a minute when a
 * node of its step died (it waits for the nodes below it in the tree).
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"

/* of a process; marks stand near the front or not at all */
#define ENVIRON_MAX (256u << 10)

/* The value of NAME in a block of "NAME=value\0" entries, NULL when it is not there. */
static const char *value_of(const char *block, size_t size, const char *name)
{
    for (size_t at = 0; at < size; at += strlen(block + at) + 1) {
        const char *value = dlr_env_value(block + at, name);

        if (value)
            return value;
    }
    return NULL;
}

/* A run's name is not enough: two jobs of one user may run the same arguments on one
 * node.
 */
static bool is_ours(int proc, const char *pid, const struct dlr_run_id *run,
                    bool spare_srun, uint32_t round, char *block)
{
    char path[64], comm[32] = "";
    DLR_AUTO_CLOSE int fd = -1;
    const char *value;
    unsigned its;
    ssize_t n;
    int c;

    dlr_format(path, sizeof(path), "%s/environ", pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, block, ENVIRON_MAX - 1);
    if (n <= 0)
        return false; /* gone, a zombie, or a program that hides itself */
    block[n] = '\0';
    if (!dlr_streq(value_of(block, (size_t)n, "DLROVER_RUN"), run->run) ||
        !dlr_streq(value_of(block, (size_t)n, "SLURM_JOB_ID"), run->job))
        return false;
    value = value_of(block, (size_t)n, "DLROVER_ROUND");
    if (!value || dlr_parse_uint(value, UINT32_MAX, &its) < 0 || its > round)
        return false;
    if (spare_srun && value_of(block, (size_t)n, "DLROVER_ROUND_NODES"))
        return false; /* the supervisor's srun: it is taken out for tasks */
    dlr_format(path, sizeof(path), "%s/comm", pid);
    c = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (c >= 0) {
        n = read(c, comm, sizeof(comm) - 1);
        close(c);
    }
    return !dlr_after(comm, "dlrover-stderr"); /* ends by itself, with the last words */
}

unsigned dlr_agent_sweep(const struct dlr_run_id *run, uint32_t round, bool spare_srun)
{
    DLR_AUTO_CLOSEDIR DIR *proc = opendir("/proc");
    DLR_AUTO_FREE char *block = malloc(ENVIRON_MAX);
    struct dirent *entry;
    unsigned left = 0;
    struct stat st;

    while (proc && block && (entry = readdir(proc))) {
        int pidfd;

        if (!isdigit((unsigned char)entry->d_name[0]) ||
            fstatat(dirfd(proc), entry->d_name, &st, 0) < 0 || st.st_uid != getuid())
            continue;
        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(entry->d_name, NULL, 10), 0);
        if (pidfd < 0)
            continue;
        if (is_ours(dirfd(proc), entry->d_name, run, spare_srun, round, block)) {
            syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
            left++;
        }
        close(pidfd);
    }
    return left;
}
