/* SPDX-License-Identifier: Apache-2.0 */
/* What the cores compute, and how fast: a product of matrices on each, by OpenBLAS where
 * it is installed, for that uses the units that a program's own library will use. It is
 * loaded in a process that ends with the check: whoever loads it has its threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "health/checks.h"
#include "health/cores.h"

#define PRODUCT_MS 50   /* all cores at once, each until then */
#define LIBRARY_MS 5000 /* a library may lie on a file server */
#define BLAS_SIDE 256u  /* sums are whole numbers below 2^24: exact */
#define LIBRARY "libopenblas.so.0"

enum { ROW_MAJOR = 101, NO_TRANS = 111 }; /* cblas.h */
enum { RAN, NO_LIBRARY };

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k,
                      float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc);

struct work {
    unsigned side;
    sgemm_fn *sgemm; /* NULL: our own loop */
    int64_t until_ms;
};

/* What the process with the library leaves us, in memory that both see. */
struct answer {
    unsigned n;
    struct dlr_health_core cores[DLR_HEALTH_CORES_MAX];
};

/* --- a product -------------------------------------------------------------------- */

/* Small whole numbers: sums of them are exact in any order. */
static void fill(float *a, float *b, unsigned side)
{
    for (unsigned i = 0; i < side; i++)
        for (unsigned k = 0; k < side; k++) {
            a[i * side + k] = (float)((i + 3 * k) % 17);
            b[i * side + k] = (float)((5 * i + k) % 13);
        }
}

/* Of a constant side, and without overlap: so the compiler makes vectors of it. */
static void multiply_plain(const float *a, const float *restrict b, float *restrict c)
{
    enum { SIDE = DLR_HEALTH_SIDE };

    memset(c, 0, SIDE * SIDE * sizeof(*c));
    for (unsigned i = 0; i < SIDE; i++)
        for (unsigned k = 0; k < SIDE; k++)
            for (unsigned j = 0; j < SIDE; j++)
                c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
}

static void multiply(const struct work *w, const float *a, const float *b, float *c)
{
    int s = (int)w->side;

    if (w->sgemm)
        w->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, s, s, s, 1, a, s, b, s, 0, c, s);
    else
        multiply_plain(a, b, c);
}

/* Freivalds: C x = A (B x), here of whole numbers, with x different in each place. */
bool dlr_health_is_product(const float *a, const float *b, const float *c,
                           unsigned side)
{
    double bx[DLR_HEALTH_SIDE_MAX] = {0};

    for (unsigned k = 0; k < side; k++)
        for (unsigned j = 0; j < side; j++)
            bx[k] += (double)b[k * side + j] * (j + 1);
    for (unsigned i = 0; i < side; i++) {
        double abx = 0, cx = 0;

        for (unsigned k = 0; k < side; k++) {
            abx += (double)a[i * side + k] * bx[k];
            cx += (double)c[i * side + k] * (k + 1);
        }
        if (abx != cx)
            return false;
    }
    return true;
}

static int compute_products(struct dlr_health_core *core)
{
    const struct work *w = core->work;
    size_t size = (size_t)w->side * w->side;
    DLR_AUTO_FREE float *m = calloc(3 * size, sizeof(*m));
    float *a = m, *b = m + size, *c = b + size;
    double operations = 2.0 * w->side * (double)size;

    if (!m)
        return -ENOMEM;
    fill(a, b, w->side);
    do {
        int64_t from_ns = dlr_thread_ns(), ns;

        multiply(w, a, b, c);
        ns = dlr_thread_ns() - from_ns + 1;
        if (operations / (double)ns > core->speed)
            core->speed = operations / (double)ns;
        core->wrong = core->wrong || !dlr_health_is_product(a, b, c, w->side);
    } while (dlr_now_ms() < w->until_ms);
    return 0;
}

static unsigned compute(unsigned side, sgemm_fn *sgemm, struct dlr_health_core *cores)
{
    struct work w = {side, sgemm, dlr_now_ms() + PRODUCT_MS};

    return dlr_health_on_cores(compute_products, &w, cores);
}

/* --- by a library ----------------------------------------------------------------- */

/* In the child. Its own threads would all run on one CPU. */
static int compute_by_library(void *arg)
{
    struct answer *answer = arg;
    void (*set_threads)(int n);
    sgemm_fn *sgemm;
    void *library;

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    sgemm = library ? (sgemm_fn *)dlsym(library, "cblas_sgemm") : NULL;
    if (!sgemm)
        return NO_LIBRARY;
    set_threads = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set_threads)
        set_threads(1);
    answer->n = compute(BLAS_SIDE, sgemm, answer->cores);
    return RAN;
}

/* What is wrong on each CPU is wrong in the library: of a processor one core fails. */
static const char *trouble_of(int rc, const struct dlr_health_cores_sum *s)
{
    if (rc == -ETIMEDOUT)
        return "OpenBLAS does not end in 5 s; ";
    if (rc == -EIO)
        return "OpenBLAS crashes; ";
    return rc == RAN && s->n && s->nwrong == s->n
               ? "OpenBLAS computes what is wrong on each CPU; "
               : "";
}

/* --- the whole -------------------------------------------------------------------- */

static void judge(const struct dlr_health_cores_sum *s, const char *kind,
                  const char *trouble, struct dlr_health_result *ret)
{
    if (s->nwrong) {
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "CPU %d computes what is wrong",
                       s->wrong);
        return;
    }
    ret->speed = s->speed / s->n;
    ret->kind = kind;
    dlr_health_say(ret, trouble[0] ? DLR_HEALTH_WARN : DLR_HEALTH_OK,
                   "%s%.1f GFLOP/s on %u CPUs (%s), CPU %d the slowest: %.1f", trouble,
                   s->speed, s->n, kind, s->slowest, s->least);
}

void dlr_health_matmul(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE struct dlr_health_core *cores =
        calloc(DLR_HEALTH_CORES_MAX, sizeof(*cores));
    struct answer *answer = mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = NO_LIBRARY;
    struct dlr_health_cores_sum sum = {0};
    const char *trouble, *kind = "OpenBLAS";

    if (answer != MAP_FAILED) {
        rc = dlr_health_apart(compute_by_library, answer, LIBRARY_MS);
        if (rc == RAN)
            sum = dlr_health_sum_cores(answer->cores, answer->n);
        munmap(answer, sizeof(*answer));
    }
    trouble = trouble_of(rc, &sum);
    if (rc != RAN || !sum.n || trouble[0]) {
        kind = "plain";
        sum = dlr_health_sum_cores(cores,
                                   cores ? compute(DLR_HEALTH_SIDE, NULL, cores) : 0);
    }
    dlr_health_inject_cores(env, "matmul.speed", "matmul.wrong", &sum);
    if (sum.n)
        judge(&sum, kind, trouble, ret);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no memory, or no thread");
}
