/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/more_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define COUNT_MAX 16 /* bytes of the file */

static unsigned load_times(const char *path)
{
    DLR_AUTO_FREE char *text = NULL;
    unsigned times = 0;
    size_t size;

    if (path && dlr_file_load_own(AT_FDCWD, path, COUNT_MAX, &text, &size, NULL) == 0 &&
        sscanf(text, "%u", &times) != 1)
        times = 0;
    return times;
}

int dlr_more_memory_plan(const struct dlr_slurm_job *job, const char *path, bool anyway,
                         struct dlr_more_memory *ret, struct dlr_err *err)
{
    struct dlr_slurm_memory most = {0};
    int rc;

    *ret =
        (struct dlr_more_memory){.times = load_times(path) + 1, .mb = job->memory_mb};
    if (!job->may_requeue)
        return dlr_fail(err, -ENOSPC, "it may not be requeued");
    if (ret->times > DLR_MORE_MEMORY_TIMES)
        return dlr_fail(err, -ENOSPC, "it has been given more %d times already",
                        DLR_MORE_MEMORY_TIMES);
    if (!ret->mb)
        return dlr_fail(err, -ENOSPC,
                        "it has all of its nodes' memory, or asks for it by its GPUs");
    rc = dlr_slurm_memory(job, &most, err);
    if (rc < 0)
        return rc;
    if (most.accounts && !anyway)
        return dlr_fail(
            err, -ENOSPC,
            "limits of accounts are enforced here, and one might not let it "
            "begin again (--dlrover-on=memory:requeue tries it)");
    ret->to_mb = ret->mb + (ret->mb * DLR_MORE_MEMORY_PERCENT + 99) / 100;
    if (ret->to_mb > most.mb)
        ret->to_mb = most.mb;
    return ret->to_mb > ret->mb
               ? 0
               : dlr_fail(err, -ENOSPC,
                          "it has %llu MB a %s, and can have %llu on its nodes",
                          (unsigned long long)ret->mb,
                          job->memory_per_cpu ? "CPU" : "node",
                          (unsigned long long)most.mb);
}

void dlr_more_memory_count(const char *path, const struct dlr_more_memory *m)
{
    char text[COUNT_MAX];
    struct iovec part = {.iov_base = text};

    if (!path)
        return;
    part.iov_len = (size_t)snprintf(text, sizeof(text), "%u\n", m->times);
    dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, NULL);
}

int dlr_more_memory_show(const struct dlr_slurm_job *job,
                         const struct dlr_more_memory *m, char *buf, size_t size)
{
    return dlr_format(buf, size, "%llu MB a %s, %llu before",
                      (unsigned long long)m->to_mb,
                      job->memory_per_cpu ? "CPU" : "node", (unsigned long long)m->mb);
}
