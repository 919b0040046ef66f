/* SPDX-License-Identifier: Apache-2.0 */
#include "health/cores.h"

#include <sched.h>

#include "common/base/cleanup.h"
#include "common/base/thread.h"
#include "health/checks.h"

#define CPUS_MAX 8192

/* The CPUs that this process may use, spread evenly when there are more than max. */
static unsigned choose_cpus(int *cpus, unsigned max)
{
    DLR_AUTO_FREE cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    unsigned all, seen = 0, n = 0;

    if (!set || sched_getaffinity(0, size, set) < 0)
        return 0;
    all = (unsigned)CPU_COUNT_S(size, set);
    for (int cpu = 0; cpu < CPUS_MAX && n < max; cpu++)
        if (CPU_ISSET_S(cpu, size, set) && seen++ * max / (all > max ? all : max) >= n)
            cpus[n++] = cpu;
    return n;
}

/* Before it touches memory, which is to lie near it. */
static void pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);

    if (set) {
        CPU_ZERO_S(size, set);
        CPU_SET_S(cpu, size, set);
        pthread_setaffinity_np(pthread_self(), size, set); /* else it runs anywhere */
    }
    CPU_FREE(set);
}

static void *run(void *arg)
{
    struct dlr_health_core *core = arg;

    pin(core->cpu);
    core->rc = core->fn(core);
    return NULL;
}

unsigned dlr_health_core_count(void)
{
    DLR_AUTO_FREE int *cpus = calloc(DLR_HEALTH_CORES_MAX, sizeof(*cpus));

    return cpus ? choose_cpus(cpus, DLR_HEALTH_CORES_MAX) : 0;
}

unsigned dlr_health_on_cores(int (*fn)(struct dlr_health_core *core), const void *work,
                             struct dlr_health_core *cores)
{
    DLR_AUTO_FREE int *cpus = calloc(DLR_HEALTH_CORES_MAX, sizeof(*cpus));
    unsigned n = cpus ? choose_cpus(cpus, DLR_HEALTH_CORES_MAX) : 0, ran = 0;

    for (unsigned i = 0; i < n; i++) {
        cores[i] = (struct dlr_health_core){.cpu = cpus[i], .fn = fn, .work = work};
        cores[i].started =
            dlr_thread_start("dlr-check", run, &cores[i], &cores[i].thread, NULL) == 0;
    }
    for (unsigned i = 0; i < n; i++)
        if (cores[i].started) {
            pthread_join(cores[i].thread, NULL);
            if (cores[i].rc == 0)
                cores[ran++] = cores[i];
        }
    return ran;
}

struct dlr_health_cores_sum dlr_health_sum_cores(const struct dlr_health_core *cores,
                                                 unsigned n)
{
    struct dlr_health_cores_sum s = {.n = n, .wrong = -1};

    for (unsigned i = 0; i < n; i++) {
        if (cores[i].wrong && s.nwrong++ == 0)
            s.wrong = cores[i].cpu;
        s.speed += cores[i].speed;
        if (i == 0 || cores[i].speed < s.least) {
            s.least = cores[i].speed;
            s.slowest = cores[i].cpu;
        }
    }
    return s;
}

void dlr_health_inject_cores(const struct dlr_health_env *env, const char *speed,
                             const char *wrong, struct dlr_health_cores_sum *sum)
{
    uint64_t n;

    if (dlr_health_injected(env, speed, &sum->least))
        sum->speed = sum->least * sum->n;
    if (dlr_health_injected_count(env, wrong, &n) && n)
        sum->nwrong = n < sum->n ? (unsigned)n : sum->n;
    if (sum->nwrong && sum->wrong < 0)
        sum->wrong = sum->slowest;
}
