/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the cores read and write memory, all at once: STREAM's triad. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/cores.h"

#define PASSES_MS 20
#define TIMES_CACHE 4 /* all arrays together, so that little of them is left */
#define CORE_BYTES (16ull << 20)    /* of a core at most, in a run: 16 ms to touch */
#define DEMAND_BYTES (256ull << 20) /* where somebody asks for it, of all cores */
#define MEMORY_PART 20              /* and never more than this part of the memory */
#define LEAST_CORE_BYTES (96ull << 10)

struct triad {
    size_t n; /* numbers in each of a core's three arrays */
};

/* a = b + s c: 24 bytes for each number (STREAM counts no write-allocate). */
static void pass(double *a, const double *b, const double *c, double s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
    __asm__ volatile("" : : "r"(a) : "memory"); /* or passes would be one */
}

static int measure(struct dlr_health_core *core)
{
    const struct triad *t = core->work;
    DLR_AUTO_FREE double *m = malloc(3 * t->n * sizeof(*m));
    double *a = m, *b = m + t->n, *c = b + t->n, s = 0;
    int64_t from_ns, until_ms;

    if (!m)
        return -ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        a[i] = 0;
        b[i] = 1;
        c[i] = 2;
    }
    until_ms = dlr_now_ms() + PASSES_MS;
    from_ns = dlr_thread_ns();
    do
        pass(a, b, c, ++s, t->n);
    while (dlr_now_ms() < until_ms);
    core->speed = 24.0 * s * (double)t->n / (double)(dlr_thread_ns() - from_ns + 1);
    for (size_t i = 0; i < t->n; i++)
        core->wrong = core->wrong || a[i] != 1 + 2 * s;
    return 0;
}

/* --- how much --------------------------------------------------------------------- */

static uint64_t kib(const char *text)
{
    uint64_t value = 0;

    dlr_health_number(text, &value);
    text += strspn(text, " \t0123456789");
    return *text == 'K' ? value << 10 : *text == 'M' ? value << 20 : value;
}

/* The last-level caches of the node, each by the first CPU that has it; 0: unknown. */
static uint64_t caches(const struct dlr_health_env *env, unsigned level)
{
    DLR_CLEANUP(globfree) glob_t paths = {0};
    char pattern[96], size[32], cpus[4096];
    uint64_t first, own, sum = 0;
    size_t n;

    dlr_format(pattern, sizeof(pattern),
               "/sys/devices/system/cpu/cpu[0-9]*/cache/index%u", level);
    n = dlr_health_glob(env, pattern, &paths);
    for (size_t i = 0; i < n; i++) {
        const char *dir = dlr_health_path(env, &paths, i);
        const char *cpu = dlr_after(dir, "/sys/devices/system/cpu/cpu");

        if (cpu && dlr_health_number(cpu, &own) &&
            dlr_health_text(env, size, sizeof(size), "%s/size", dir) &&
            dlr_health_text(env, cpus, sizeof(cpus), "%s/shared_cpu_list", dir) &&
            dlr_health_number(cpus, &first) && first == own)
            sum += kib(size);
    }
    return sum || level == 2 ? sum : caches(env, level - 1);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of all cores together. */
static uint64_t allowed(const struct dlr_health_env *env, unsigned ncores)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/meminfo");
    uint64_t bytes = ncores * CORE_BYTES, available;

    if (env->on_demand && bytes < DEMAND_BYTES)
        bytes = DEMAND_BYTES;
    if (text && dlr_health_meminfo(text, "MemAvailable:", &available))
        bytes = least(bytes, available / MEMORY_PART);
    return env->slurm_memory_bytes ? least(bytes, env->slurm_memory_bytes / MEMORY_PART)
                                   : bytes;
}

/* --- the whole -------------------------------------------------------------------- */

static void judge(const struct dlr_health_cores_sum *s, uint64_t bytes, uint64_t cache,
                  struct dlr_health_result *ret)
{
    bool beyond = cache && bytes >= cache * TIMES_CACHE;

    if (s->nwrong) {
        dlr_health_say(ret, DLR_HEALTH_DRAIN,
                       "CPU %d reads from memory what it has not written", s->wrong);
        return;
    }
    if (beyond) {
        ret->speed = s->speed / s->n;
        ret->kind = "memory";
    }
    dlr_health_say(ret, DLR_HEALTH_OK,
                   "%.1f GB/s on %u CPUs, CPU %d the slowest: %.1f; arrays of %" PRIu64
                   " MiB%s, caches of %" PRIu64,
                   s->speed, s->n, s->slowest, s->least, bytes >> 20,
                   beyond ? "" : " lie in part in the caches", cache >> 20);
}

/* Where numbers are injected nothing is measured. */
static bool inject(const struct dlr_health_env *env, struct dlr_health_cores_sum *sum)
{
    double value;

    if (!dlr_health_injected(env, "bandwidth.speed", &value) &&
        !dlr_health_injected(env, "bandwidth.wrong", &value))
        return false;
    dlr_health_inject_cores(env, "bandwidth.speed", "bandwidth.wrong", sum);
    return sum->n != 0;
}

void dlr_health_bandwidth(const struct dlr_health_env *env,
                          struct dlr_health_result *ret)
{
    DLR_AUTO_FREE struct dlr_health_core *cores =
        calloc(DLR_HEALTH_CORES_MAX, sizeof(*cores));
    unsigned n = dlr_health_core_count(), ran;
    uint64_t cache = caches(env, 3), most = allowed(env, n);
    uint64_t bytes = cache ? least(most, cache * TIMES_CACHE) : most;
    struct dlr_health_cores_sum sum = {.n = n, .wrong = -1};
    struct triad t;

    if (inject(env, &sum)) {
        judge(&sum, cache * TIMES_CACHE, cache, ret);
        return;
    }
    if (!env->on_demand && (!cache || bytes < cache * TIMES_CACHE)) {
        dlr_health_say(ret, DLR_HEALTH_SKIP,
                       "a run takes %" PRIu64 " MiB here, caches are of %" PRIu64
                       "; dlrover check takes more",
                       most >> 20, cache >> 20);
        return;
    }
    t.n = (n ? bytes / n : 0) / (3 * sizeof(double));
    if (!cores || t.n * 3 * sizeof(double) < LEAST_CORE_BYTES) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no memory to measure with");
        return;
    }
    ran = dlr_health_on_cores(measure, &t, cores);
    sum = dlr_health_sum_cores(cores, ran);
    if (ran)
        judge(&sum, bytes, cache, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no memory, or no thread");
}
