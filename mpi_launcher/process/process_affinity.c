/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/process_affinity.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/cleanup.h"

static bool is_there(pid_t tid, const cpu_set_t *set)
{
    cpu_set_t now;

    return sched_getaffinity(tid, sizeof(now), &now) == 0 && CPU_EQUAL(&now, set);
}

/* How many were elsewhere and are not any more: these may have started others before.
 */
static int look(DIR *dir, const cpu_set_t *set)
{
    const struct dirent *e;
    int moved = 0, rc = 0;

    rewinddir(dir);
    while ((e = readdir(dir))) {
        pid_t tid = e->d_name[0] == '.' ? 0 : (pid_t)atoi(e->d_name);

        if (tid == 0 || is_there(tid, set))
            continue;
        if (sched_setaffinity(tid, sizeof(*set), set) == 0)
            moved++;
        else if (errno != ESRCH)
            rc = -errno;
    }
    return rc < 0 ? rc : moved;
}

int dlr_process_affinity(pid_t pid, const cpu_set_t *set)
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    char path[32];
    int rc = 1;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (!dir)
        return -errno;
    for (unsigned i = 0; rc > 0 && i < DLR_PROCESS_AFFINITY_LOOKS; i++)
        rc = look(dir, set);
    return rc < 0 ? rc : 0;
}
