/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are on a GPU and should not be: of a job that has ended, or of
 * somebody who came by another way. Memory that they hold is missing to the program.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/gpu.h"

/* Of the GPU's memory: DLRover's pre-check fails a node at 30; a CUDA context takes
 * half a GiB.
 */
#define HELD_PERCENT 10

/* Whether pid is one of the job's: slurmstepd's cgroup is called job_ID in all
 * releases, .../job_ID/step_N. NULL: of any job.
 */
static bool is_in_job(const char *root, int64_t pid, const char *job)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    size_t size, n = job ? strlen(job) : 0;

    if (dlr_format(path, sizeof(path), "%s/proc/%" PRId64 "/cgroup", root, pid) < 0 ||
        dlr_file_load(AT_FDCWD, path, 65536, &text, &size, NULL) < 0)
        return false;
    for (const char *at = text; (at = strstr(at, "/job_")); at++)
        if (!job || (strncmp(at + 5, job, n) == 0 && strchr("/\n", at[5 + n])))
            return true;
    return false;
}

static void judge_process(const struct dlr_health_env *env,
                          const struct dlr_gpu_process *p,
                          struct dlr_health_result *ret)
{
    const char *job = env->gpus->scope.job ? getenv("SLURM_JOB_ID") : NULL;
    double gib = (double)p->bytes / (1u << 30);
    char path[PATH_MAX];
    struct stat st;

    if (is_in_job(env->root, p->pid, job))
        return;
    if (dlr_format(path, sizeof(path), "%s/proc/%" PRId64, env->root, p->pid) < 0 ||
        stat(path, &st) < 0)
        dlr_health_say(ret, DLR_HEALTH_WARN,
                       "process %" PRId64 ", which cannot be seen, holds %.1f GiB",
                       p->pid, gib);
    else
        dlr_health_say(ret, job && st.st_uid != 0 ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN,
                       "process %" PRId64 " of user %u, of %s, holds %.1f GiB", p->pid,
                       (unsigned)st.st_uid, job ? "another job or none" : "no job",
                       gib);
}

static bool judge_processes(const struct dlr_health_env *env, const struct dlr_gpu *gpu,
                            struct dlr_health_result *ret)
{
    struct dlr_health_result one;

    if (gpu->mig > 0)
        return false; /* its instances have processes of their own */
    for (unsigned i = 0; i < gpu->nprocesses; i++) {
        memset(&one, 0, sizeof(one));
        judge_process(env, &gpu->processes[i], &one);
        if (one.verdict > ret->verdict)
            dlr_health_say(ret, one.verdict, "%s", one.reason);
    }
    if (gpu->nprocesses == 0 && gpu->total > 0 &&
        gpu->used > gpu->total / 100 * HELD_PERCENT)
        dlr_health_say(ret, DLR_HEALTH_WARN,
                       "%.1f of %.1f GiB are held by no process that is shown",
                       (double)gpu->used / (1u << 30), (double)gpu->total / (1u << 30));
    return gpu->total > 0;
}

void dlr_health_gpu_process(const struct dlr_health_env *env,
                            struct dlr_health_result *ret)
{
    if (dlr_health_gpus(env)->scope.shared)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "GPUs are shared with other jobs");
    else
        dlr_health_gpu_each(env, judge_processes, "no process of others", ret);
}
