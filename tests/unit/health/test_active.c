/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run wrap=fsync */
/* The checks that load a node: what they say of one that is well, and of faults. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/checks.h"

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

static void every_core_computes_within_its_time(void **state)
{
    struct dlr_health_env env;
    struct dlr_health_result r = {0};
    int64_t from_ms = dlr_now_ms();

    dlr_health_env_init(&env);
    dlr_health_matmul(&env, &r);
    assert_string_equal(shape(r.reason), "# GFLOP/s on # CPUs, CPU # the slowest: #");
    assert_int_equal(r.verdict, DLR_HEALTH_OK);
    assert_true(dlr_now_ms() - from_ms < 20000); /* 50 ms on an idle machine */
}

/* Any number that is off, by one bit, is noticed. */
static void a_wrong_number_of_a_product_is_noticed(void **state)
{
    static double a[N * N], b[N * N], c[N * N];

    for (unsigned i = 0; i < N * N; i++) {
        a[i] = i % 17;
        b[i] = i % 13;
    }
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned k = 0; k < N; k++)
                c[i * N + j] += a[i * N + k] * b[k * N + j];
    assert_true(dlr_health_is_product(a, b, c));
    for (unsigned i = 0; i < N * N; i++) {
        double good = c[i];

        c[i] = good + 1;
        assert_false(dlr_health_is_product(a, b, c));
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
        cmocka_unit_test(every_core_computes_within_its_time),
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
