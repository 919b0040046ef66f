/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of GPUs share: the driver is asked once for all of them. Private to
 * health/.
 */
#ifndef DLR_HEALTH_GPU_GPU_H
#define DLR_HEALTH_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "device/gpu_facts.h"
#include "health/health.h"

/* How the question went. */
enum dlr_gpu_asked {
    DLR_GPU_NOT_ASKED,
    DLR_GPU_ASKED,  /* facts are what it has said, up to its end or before */
    DLR_GPU_FAILED, /* dlrover-gpu cannot be run: why */
    DLR_GPU_LATE,   /* no end in time, and answers until then */
    DLR_GPU_SILENT, /* nothing was said for half of the time */
    DLR_GPU_STUCK,  /* nor could the process be killed: it hangs in the kernel */
    DLR_GPU_BROKEN, /* it ended early: why */
};

struct dlr_health_gpus {
    enum dlr_gpu_asked asked;
    char why[128];
    struct dlr_gpu_facts facts;
    struct dlr_health_gpu_scope {
        bool job;          /* in a job's step, or its prolog */
        bool known;        /* Slurm says which GPUs are ours; without a job all are */
        bool shared;       /* shards, MPS: others may use them, too */
        unsigned expected; /* so many; without a job so many as the kernel has */
        unsigned visible;  /* of the facts: GPUs that we may open */
        unsigned char ours[DLR_GPU_MAX]; /* of the facts */
        unsigned nours;
    } scope;
};

/* probe.c: asks dlrover-gpu, in a process of its own, and waits so long;
 * word is its argument, or NULL. A root that is not "" has the answer in a file "gpu" or
 * "gpu-WORD", which is how tests build nodes.
 */
void dlr_health_gpus_ask(const struct dlr_health_env *env, const char *word,
                         int64_t timeout_ms, struct dlr_health_gpus *ret);

/* inject.c: has facts and scope say what is injected here; measured: by gpu-speed. */
void dlr_health_gpus_inject(const struct dlr_health_env *env, bool measured,
                            struct dlr_health_gpus *gpus);

/* The record of an Xid that is injected for our first GPU; false: none is. */
bool dlr_health_gpus_injected_xid(const struct dlr_health_env *env,
                                  const struct dlr_health_gpus *gpus, int64_t now_us,
                                  char *buf, size_t size);

/* What was asked of this env, now if it was not; never NULL. */
const struct dlr_health_gpus *dlr_health_gpus(const struct dlr_health_env *env);

/* Only where it is known that the job has GPUs a node is lost for them: else a verdict
 * is a warning.
 */
void dlr_health_gpus_temper(const struct dlr_health_gpus *g,
                            struct dlr_health_result *ret);

/* What one GPU's facts mean; false: the driver does not say them of that GPU. */
typedef bool dlr_health_gpu_fn(const struct dlr_health_env *env,
                               const struct dlr_gpu *gpu,
                               struct dlr_health_result *ret);

/* Judges each of the caller's GPUs: the worst is told, and how many are not well; well
 * is what is said when all are.
 */
void dlr_health_gpu_each(const struct dlr_health_env *env, dlr_health_gpu_fn *judge,
                         const char *well, struct dlr_health_result *ret);

/* scope.c: which of the GPUs are the caller's. Reads the environment, as Slurm sets
 * it for steps and prologs, and /sys.
 */
void dlr_health_gpus_scope(const struct dlr_health_env *env,
                           struct dlr_health_gpus *gpus);

#endif
