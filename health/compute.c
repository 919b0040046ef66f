/* SPDX-License-Identifier: Apache-2.0 */
/* What the cores compute, and how fast: a product of matrices on each. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/thread.h"
#include "health/checks.h"

#define SIDE DLR_HEALTH_SIDE
#define PRODUCT_MS 50 /* all cores at once, each until then */
#define THREADS_MAX 1024

struct worker {
    pthread_t thread;
    int cpu;
    int64_t until_ms;
    double best; /* of its repetitions: 10^9 operations a second */
    bool wrong, started;
    int rc;
};

/* --- a product -------------------------------------------------------------------- */

/* Small whole numbers: sums of them are exact in any order. */
static void fill(double *a, double *b)
{
    for (unsigned i = 0; i < SIDE; i++)
        for (unsigned k = 0; k < SIDE; k++) {
            a[i * SIDE + k] = (i + 3 * k) % 17;
            b[i * SIDE + k] = (5 * i + k) % 13;
        }
}

static void multiply(const double *a, const double *b, double *c)
{
    memset(c, 0, SIDE * SIDE * sizeof(*c));
    for (unsigned i = 0; i < SIDE; i++)
        for (unsigned k = 0; k < SIDE; k++)
            for (unsigned j = 0; j < SIDE; j++)
                c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
}

/* Freivalds: C x = A (B x), here of whole numbers, with x different in each place. */
bool dlr_health_is_product(const double *a, const double *b, const double *c)
{
    double bx[SIDE] = {0};

    for (unsigned k = 0; k < SIDE; k++)
        for (unsigned j = 0; j < SIDE; j++)
            bx[k] += b[k * SIDE + j] * (j + 1);
    for (unsigned i = 0; i < SIDE; i++) {
        double abx = 0, cx = 0;

        for (unsigned k = 0; k < SIDE; k++) {
            abx += a[i * SIDE + k] * bx[k];
            cx += c[i * SIDE + k] * (k + 1);
        }
        if (abx != cx)
            return false;
    }
    return true;
}

static void *compute_products(void *arg)
{
    struct worker *w = arg;
    DLR_AUTO_FREE double *m = calloc(3 * SIDE * SIDE, sizeof(*m));
    double *a = m, *b = m + SIDE * SIDE, *c = b + SIDE * SIDE;

    if (!m) {
        w->rc = -ENOMEM;
        return NULL;
    }
    fill(a, b);
    do {
        int64_t from_ns = dlr_thread_ns(), ns;

        multiply(a, b, c);
        ns = dlr_thread_ns() - from_ns + 1;
        if (2.0 * SIDE * SIDE * SIDE / (double)ns > w->best)
            w->best = 2.0 * SIDE * SIDE * SIDE / (double)ns;
        w->wrong = w->wrong || !dlr_health_is_product(a, b, c);
    } while (dlr_now_ms() < w->until_ms);
    return NULL;
}

/* --- on many cores ---------------------------------------------------------------- */

/* The CPUs that this process may use, spread evenly when there are more than max. */
static unsigned choose_cpus(int *cpus, unsigned max)
{
    DLR_AUTO_FREE cpu_set_t *set = CPU_ALLOC(8192);
    size_t size = CPU_ALLOC_SIZE(8192);
    unsigned all, seen = 0, n = 0;

    if (!set || sched_getaffinity(0, size, set) < 0)
        return 0;
    all = (unsigned)CPU_COUNT_S(size, set);
    for (int cpu = 0; cpu < 8192 && n < max; cpu++)
        if (CPU_ISSET_S(cpu, size, set) && seen++ * max / (all > max ? all : max) >= n)
            cpus[n++] = cpu;
    return n;
}

static void pin(pthread_t thread, int cpu)
{
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t size = CPU_ALLOC_SIZE(8192);

    if (set) {
        CPU_ZERO_S(size, set);
        CPU_SET_S(cpu, size, set);
        pthread_setaffinity_np(thread, size, set); /* else it runs anywhere */
    }
    CPU_FREE(set);
}

/* Number of workers that have run. */
static unsigned run_all(struct worker *w)
{
    DLR_AUTO_FREE int *cpus = calloc(THREADS_MAX, sizeof(*cpus));
    unsigned n = cpus ? choose_cpus(cpus, THREADS_MAX) : 0, ran = 0;
    int64_t until_ms = dlr_now_ms() + PRODUCT_MS;

    for (unsigned i = 0; i < n; i++) {
        w[i] = (struct worker){.cpu = cpus[i], .until_ms = until_ms};
        w[i].started = dlr_thread_start("dlr-check", compute_products, &w[i],
                                        &w[i].thread, NULL) == 0;
        if (w[i].started)
            pin(w[i].thread, cpus[i]);
    }
    for (unsigned i = 0; i < n; i++)
        if (w[i].started) {
            pthread_join(w[i].thread, NULL);
            if (w[i].rc == 0)
                w[ran++] = w[i];
        }
    return ran;
}

static void judge(const struct worker *w, unsigned n, struct dlr_health_result *ret)
{
    double sum = 0, least = w->best;
    int slowest = w->cpu;

    for (unsigned i = 0; i < n; i++) {
        if (w[i].wrong) {
            dlr_health_say(ret, DLR_HEALTH_DRAIN, "CPU %d computes what is wrong",
                           w[i].cpu);
            return;
        }
        sum += w[i].best;
        if (w[i].best < least) {
            least = w[i].best;
            slowest = w[i].cpu;
        }
    }
    ret->speed = sum / n;
    dlr_health_say(ret, DLR_HEALTH_OK,
                   "%.1f GFLOP/s on %u CPUs, CPU %d the slowest: %.1f", sum, n, slowest,
                   least);
}

void dlr_health_matmul(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE struct worker *w = calloc(THREADS_MAX, sizeof(*w));
    unsigned n = w ? run_all(w) : 0;

    if (n)
        judge(w, n, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no memory, or no thread");
}
