/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run wrap=fsync,dlopen,dlsym,adjtimex */
/* The checks that load a node: what they say of one that is well, and of faults. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/cores.h"

#define N DLR_HEALTH_SIDE

static char dir[64];
static bool hangs;    /* the file system does not answer */
static int fails;     /* errno of fsync, 0: none */
static int ours = -1; /* a descriptor of the process that checks */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    while (hangs)
        pause();
    if (ours >= 0 && fcntl(ours, F_GETFD) >= 0) {
        errno = EBADE;
        return -1;
    }
    errno = fails;
    return fails ? -1 : __real_fsync(fd);
}

/* --- OpenBLAS --------------------------------------------------------------------- */

static enum { NO_LIBRARY, OTHER_LIBRARY, RIGHT, ONE_WRONG, ALL_WRONG, CRASHES } blas;
static int threads; /* what the library was told */

/* In the child that has the library, where cmocka's words go nowhere. */
static void must(bool it)
{
    if (!it)
        abort();
}

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    if (!dlr_streq(name, "libopenblas.so.0"))
        return __real_dlopen(name, flags);
    must(dlr_streq(getenv("OPENBLAS_NUM_THREADS"), "1"));
    return blas == NO_LIBRARY ? NULL : &blas;
}

static void set_threads(int n)
{
    threads = n;
}

static int last_cpu(void)
{
    cpu_set_t set;
    int cpu = CPU_SETSIZE - 1;

    sched_getaffinity(0, sizeof(set), &set);
    while (cpu > 0 && !CPU_ISSET(cpu, &set))
        cpu--;
    return cpu;
}

static int wrong_cpu;

static void sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta,
                  float *c, int ldc)
{
    must(order == 101 && trans_a == 111 && trans_b == 111 && m == n && n == k &&
         alpha == 1 && beta == 0 && lda == m && ldb == m && ldc == m && threads == 1);
    if (blas == CRASHES)
        raise(SIGKILL);
    memset(c, 0, (size_t)m * (size_t)m * sizeof(*c));
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            for (int l = 0; l < m; l++)
                c[i * m + l] += a[i * m + j] * b[j * m + l];
    if (blas == ALL_WRONG || (blas == ONE_WRONG && sched_getcpu() == wrong_cpu))
        c[m * m - 1] += 1;
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    if (library != &blas)
        return __real_dlsym(library, name);
    if (blas != OTHER_LIBRARY && dlr_streq(name, "cblas_sgemm"))
        return (void *)sgemm;
    return dlr_streq(name, "openblas_set_num_threads") ? (void *)set_threads : NULL;
}

/* --- a clock ---------------------------------------------------------------------- */

static struct {
    int state, status;
    long maxerror;
} kernel;

int __wrap_adjtimex(struct timex *t);
int __wrap_adjtimex(struct timex *t)
{
    errno = EPERM;
    t->status = kernel.status;
    t->maxerror = kernel.maxerror;
    return kernel.state;
}

static void a_clock_that_nobody_keeps_is_told(void **state)
{
    static const struct {
        int state, status;
        bool demand;
        enum dlr_health_verdict verdict;
        const char *reason;
    } rows[] = {
        {TIME_OK, 0, true, DLR_HEALTH_OK, "kept, within 0.250 s at most"},
        {TIME_INS, 0, true, DLR_HEALTH_OK, "kept, within 0.250 s at most"},
        {TIME_OK, STA_UNSYNC, true, DLR_HEALTH_WARN, "no time service keeps the clock"},
        {TIME_ERROR, 0, true, DLR_HEALTH_WARN, "no time service keeps the clock"},
        {-1, 0, true, DLR_HEALTH_SKIP, "adjtimex: Operation not permitted"},
        {TIME_ERROR, 0, false, DLR_HEALTH_SKIP,
         "a run goes by the offset: check clock"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_env env;
        struct dlr_health_result r = {0};

        dlr_health_env_init(&env);
        env.on_demand = rows[i].demand;
        kernel.state = rows[i].state;
        kernel.status = rows[i].status;
        kernel.maxerror = 250000;
        dlr_health_timesync(&env, &r);
        assert_string_equal(r.reason, rows[i].reason);
        assert_int_equal(r.verdict, rows[i].verdict);
    }
}

static int make_dir(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-test-active-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    return rmdir(dir); /* nothing was left in it */
}

/* Hides digits: "12.5 GFLOP/s" -> "# GFLOP/s". */
static const char *shape(const char *text)
{
    static char buf[256];
    char *at = buf;

    for (; *text && at < buf + sizeof(buf) - 1; text++)
        if ((*text < '0' || *text > '9') && *text != '.')
            *at++ = *text;
        else if (at == buf || at[-1] != '#')
            *at++ = '#';
    *at = '\0';
    return buf;
}

#define PLAIN "# GFLOP/s on # CPUs (plain), CPU # the slowest: #"

static void every_core_computes_with_the_library_or_without(void **state)
{
    static const struct {
        int blas;
        enum dlr_health_verdict verdict;
        const char *kind, *reason;
    } rows[] = {
        {NO_LIBRARY, DLR_HEALTH_OK, "plain", PLAIN},
        {OTHER_LIBRARY, DLR_HEALTH_OK, "plain", PLAIN},
        {RIGHT, DLR_HEALTH_OK, "OpenBLAS",
         "# GFLOP/s on # CPUs (OpenBLAS), CPU # the slowest: #"},
        {ONE_WRONG, DLR_HEALTH_DRAIN, NULL, "CPU # computes what is wrong"},
        {ALL_WRONG, DLR_HEALTH_WARN, "plain",
         "OpenBLAS computes what is wrong on each CPU; " PLAIN},
        {CRASHES, DLR_HEALTH_WARN, "plain", "OpenBLAS crashes; " PLAIN},
    };

    wrong_cpu = last_cpu();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_env env;
        struct dlr_health_result r = {0};

        if (rows[i].blas == ONE_WRONG && dlr_health_core_count() < 2)
            continue;
        dlr_health_env_init(&env);
        blas = rows[i].blas;
        dlr_health_matmul(&env, &r);
        print_message("  %s\n", r.reason);
        assert_string_equal(shape(r.reason), rows[i].reason);
        assert_int_equal(r.verdict, rows[i].verdict);
        assert_true((r.speed > 0) == (rows[i].kind != NULL));
        if (rows[i].kind)
            assert_string_equal(r.kind, rows[i].kind);
    }
    assert_null(getenv("OPENBLAS_NUM_THREADS")); /* the library's process has had it */
    assert_int_equal(threads, 0);
}

/* Any number that is off, by one bit, is noticed. */
static void a_wrong_number_of_a_product_is_noticed(void **state)
{
    static float a[N * N], b[N * N], c[N * N];

    for (unsigned i = 0; i < N * N; i++) {
        a[i] = (float)(i % 17);
        b[i] = (float)(i % 13);
    }
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned k = 0; k < N; k++)
                c[i * N + j] += a[i * N + k] * b[k * N + j];
    assert_true(dlr_health_is_product(a, b, c, N));
    for (unsigned i = 0; i < N * N; i++) {
        float good = c[i];

        c[i] = good + 1;
        assert_false(dlr_health_is_product(a, b, c, N));
        c[i] = good;
    }
}

static void a_file_is_written_and_gone(void **state)
{
    struct dlr_health_env env;
    struct dlr_health_result r = {0};
    char want[160];

    dlr_health_env_init(&env);
    env.disk_path = dir;
    dlr_health_shared(&env, &r);
    dlr_format(want, sizeof(want), "'%s': 4 KiB written in ", dir);
    assert_non_null(dlr_after(r.reason, want));
    assert_true(r.verdict == DLR_HEALTH_OK || r.verdict == DLR_HEALTH_WARN);
    setenv("TMPDIR", dir, 1);
    dlr_health_write(&env, &r);
    dlr_format(want, sizeof(want), "'%s': 4096 KiB written in ", dir);
    assert_non_null(dlr_after(r.reason, want));
    unsetenv("TMPDIR");
}

/* One that hangs for ever would keep srun waiting for the end of what it holds. */
static void who_writes_holds_nothing_of_ours(void **state)
{
    struct dlr_health_env env;
    struct dlr_health_result r = {0};

    dlr_health_env_init(&env);
    env.disk_path = dir;
    ours = dup(STDERR_FILENO);
    dlr_health_shared(&env, &r);
    close(ours);
    ours = -1;
    assert_non_null(strstr(r.reason, ": 4 KiB written in "));
}

static void where_no_file_can_be_written(void **state)
{
    static const struct {
        const char *dir, *reason;
        enum dlr_health_verdict verdict;
    } rows[] = {
        {"/nonexistent", "'/nonexistent': No such file or directory", DLR_HEALTH_SKIP},
        {"/dev/null", "'/dev/null': Not a directory", DLR_HEALTH_SKIP},
        {"", "no directory to look at", DLR_HEALTH_SKIP},
        {NULL, "no directory to look at", DLR_HEALTH_SKIP},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_env env;
        struct dlr_health_result r = {0};

        dlr_health_env_init(&env);
        env.disk_path = rows[i].dir;
        dlr_health_shared(&env, &r);
        assert_string_equal(r.reason, rows[i].reason);
        assert_int_equal(r.verdict, rows[i].verdict);
    }
}

static void an_error_of_the_disk_is_no_full_disk(void **state)
{
    static const struct {
        int code;
        enum dlr_health_verdict verdict;
    } rows[] = {{EIO, DLR_HEALTH_FAIL},
                {EROFS, DLR_HEALTH_FAIL},
                {ENOSPC, DLR_HEALTH_WARN},
                {EDQUOT, DLR_HEALTH_WARN}};
    char want[256];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_env env;
        struct dlr_health_result r = {0};

        dlr_health_env_init(&env);
        env.disk_path = dir;
        fails = rows[i].code;
        dlr_health_shared(&env, &r);
        fails = 0;
        dlr_format(want, sizeof(want), "'%s': a file cannot be written: %s", dir,
                   strerror(rows[i].code));
        assert_string_equal(r.reason, want);
        assert_int_equal(r.verdict, rows[i].verdict);
    }
}

/* Takes its limit, 5 s. */
static void a_file_system_that_hangs_is_a_verdict(void **state)
{
    struct dlr_health_env env;
    struct dlr_health_result r = {0};
    DLR_AUTO_FREE char *left = NULL;
    char want[256];

    dlr_health_env_init(&env);
    env.disk_path = dir;
    hangs = true;
    dlr_health_shared(&env, &r);
    hangs = false;
    dlr_format(want, sizeof(want),
               "'%s': a file of 4 KiB is not written within 5000 ms", dir);
    assert_string_equal(r.reason, want);
    assert_int_equal(r.verdict, DLR_HEALTH_FAIL);
    left = dlr_format_new("rm -f %s/.dlrover-check-*", dir);
    assert_int_equal(system(left), 0); /* whoever hung has left it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_core_computes_with_the_library_or_without),
        cmocka_unit_test(a_clock_that_nobody_keeps_is_told),
        cmocka_unit_test(a_wrong_number_of_a_product_is_noticed),
        cmocka_unit_test_setup_teardown(a_file_is_written_and_gone, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(who_writes_holds_nothing_of_ours, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(an_error_of_the_disk_is_no_full_disk, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_file_system_that_hangs_is_a_verdict, make_dir,
                                        remove_dir),
        cmocka_unit_test(where_no_file_can_be_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
