/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on every CPU of this process, at once. Private to health/. */
#ifndef DLR_HEALTH_CORES_H
#define DLR_HEALTH_CORES_H

#include <pthread.h>
#include <stdbool.h>

#include "health/health.h"

#define DLR_HEALTH_CORES_MAX 1024

/* One CPU: what fn is given, and leaves. */
struct dlr_health_core {
    int cpu;
    const void *work;
    double speed; /* more is better */
    bool wrong;   /* the CPU gave a wrong result */
    /* dlr_health_on_cores()'s own */
    int (*fn)(struct dlr_health_core *core);
    pthread_t thread;
    bool started;
    int rc;
};

struct dlr_health_cores_sum {
    unsigned n, nwrong;
    double speed, least; /* of all; of the slowest */
    int slowest, wrong;  /* CPUs; wrong: the first one, -1 none */
};

/* The CPUs that this process may use, DLR_HEALTH_CORES_MAX at most. */
unsigned dlr_health_core_count(void);

/* Runs fn on each of them, all at once, in a thread bound to it. Number of cores whose
 * fn has returned 0; these come first. Blocking: as long as fn.
 */
unsigned dlr_health_on_cores(int (*fn)(struct dlr_health_core *core), const void *work,
                             struct dlr_health_core *cores);

struct dlr_health_cores_sum dlr_health_sum_cores(const struct dlr_health_core *cores,
                                                 unsigned n);

/* Has it say what is injected for these keys: of each CPU, and how many are wrong. */
void dlr_health_inject_cores(const struct dlr_health_env *env, const char *speed,
                             const char *wrong, struct dlr_health_cores_sum *sum);

#endif
