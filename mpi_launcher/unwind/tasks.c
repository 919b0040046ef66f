/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/tasks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/stacks/rank_set.h"

#define ENVIRON_MAX (4u << 20)

bool dlr_unwind_task_read(const char *environment, size_t size, const char *job,
                          const char *run, uint32_t *ret_rank)
{
    const char *its = NULL, *of = NULL, *procid = NULL, *rank = NULL, *step = NULL;
    const char *end = environment + size;
    unsigned number;

    for (const char *e = environment; e < end;) {
        size_t len = strnlen(e, (size_t)(end - e));

        if (e + len == end)
            break; /* it does not end: cut */
        of = dlr_after(e, "SLURM_JOB_ID=") ?: of;
        its = dlr_after(e, "DLROVER_RUN=") ?: its;
        procid = dlr_after(e, "SLURM_PROCID=") ?: procid;
        step = dlr_after(e, "SLURM_STEP_ID=") ?: step;
        rank = dlr_after(e, "RANK=") ?: rank;
        e += len + 1;
    }
    /* a batch script has no number of a step */
    if (!dlr_streq(of, job) || (run && !dlr_streq(its, run)) || !procid ||
        dlr_parse_uint(step ?: "", UINT_MAX, &number) < 0)
        return false;
    if (dlr_parse_uint(rank ?: "", DLR_RANK_SET_END - 1, &number) < 0 &&
        dlr_parse_uint(procid, DLR_RANK_SET_END - 1, &number) < 0)
        return false;
    *ret_rank = number;
    return true;
}

/* The suite's own: agents are tasks of a step, too. */
static bool is_ours(const char *dir)
{
    char path[PATH_MAX], target[PATH_MAX];
    const char *slash;
    ssize_t n;

    if (dlr_format(path, sizeof(path), "%s/exe", dir) < 0)
        return true;
    n = readlink(path, target, sizeof(target) - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    slash = strrchr(target, '/');
    return slash &&
           (dlr_after(slash + 1, "dlrover-") || dlr_streq(slash + 1, "dlrover"));
}

static bool is_task(const char *dir, const char *job, const char *run,
                    uint32_t *ret_rank)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    struct stat st;
    size_t size;

    if (stat(dir, &st) < 0 || st.st_uid != geteuid())
        return false;
    if (dlr_format(path, sizeof(path), "%s/environ", dir) < 0 ||
        dlr_file_load(AT_FDCWD, path, ENVIRON_MAX, &text, &size, NULL) < 0)
        return false;
    return dlr_unwind_task_read(text, size, job, run, ret_rank) && !is_ours(dir);
}

static int by_rank(const void *a, const void *b)
{
    const struct dlr_unwind_task *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

size_t dlr_unwind_find_tasks(const char *root, const char *job, const char *run,
                             struct dlr_unwind_task ret[DLR_UNWIND_TASKS],
                             unsigned *ret_more)
{
    DLR_AUTO_CLOSEDIR DIR *proc = NULL;
    struct dirent *entry;
    char path[PATH_MAX];
    uint32_t rank;
    size_t n = 0;

    *ret_more = 0;
    if (dlr_format(path, sizeof(path), "%s/proc", root) == 0)
        proc = opendir(path);
    while (proc && (entry = readdir(proc))) {
        unsigned pid;

        if (dlr_parse_uint(entry->d_name, INT_MAX, &pid) < 0 ||
            dlr_format(path, sizeof(path), "%s/proc/%u", root, pid) < 0 ||
            !is_task(path, job, run, &rank))
            continue;
        if (n == DLR_UNWIND_TASKS)
            (*ret_more)++;
        else
            ret[n++] = (struct dlr_unwind_task){.pid = (pid_t)pid, .rank = rank};
    }
    qsort(ret, n, sizeof(*ret), by_rank);
    return n;
}
