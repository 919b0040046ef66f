/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=sched_setaffinity,readdir */
#include "mpi_launcher/process/process_affinity.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHERS 3

static cpu_set_t all;
static pthread_t threads[OTHERS];
static unsigned nthreads, calls;
static int ends[2];   /* all end when this is closed */
static int errors[4]; /* of the first calls */
static bool starts; /* one is started behind the first look, as by one not placed yet */

static void *wait_for_end(void *arg)
{
    char c;

    return read(ends[0], &c, 1) < 0 ? threads : NULL;
}

static void start_thread(void)
{
    assert_int_equal(pthread_create(&threads[nthreads++], NULL, wait_for_end, NULL), 0);
}

int __real_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    unsigned i = calls++;

    if (i < 4 && errors[i]) {
        errno = errors[i];
        return -1;
    }
    return __real_sched_setaffinity(pid, size, set);
}

struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);

struct dirent *__wrap_readdir(DIR *dir)
{
    struct dirent *e = __real_readdir(dir);

    if (!e && starts) {
        starts = false;
        start_thread();
        pthread_setaffinity_np(threads[nthreads - 1], sizeof(all), &all);
    }
    return e;
}

/* One CPU of those that we have. */
static cpu_set_t one(void)
{
    cpu_set_t set;
    int cpu = 0;

    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

static int begin(void **state)
{
    calls = nthreads = 0;
    starts = false;
    for (size_t i = 0; i < 4; i++)
        errors[i] = 0;
    return sched_getaffinity(0, sizeof(all), &all) < 0 || pipe(ends) < 0;
}

static int end(void **state)
{
    close(ends[1]);
    while (nthreads > 0)
        pthread_join(threads[--nthreads], NULL);
    close(ends[0]);
    return __real_sched_setaffinity(0, sizeof(all), &all);
}

static void one_that_is_started_meanwhile_is_found(void **state)
{
    cpu_set_t set = one(), now;

    if (CPU_COUNT(&all) < 2)
        skip();
    start_thread();
    start_thread();
    starts = true;
    assert_int_equal(dlr_process_affinity(getpid(), &set), 0);
    assert_int_equal(nthreads, 3);
    for (unsigned i = 0; i < nthreads; i++) {
        assert_int_equal(pthread_getaffinity_np(threads[i], sizeof(now), &now), 0);
        assert_true(CPU_EQUAL(&now, &set));
    }
}

static void only_what_stays_elsewhere_is_an_error(void **state)
{
    static const struct {
        const char *what;
        int errors[4], rc;
    } rows[] = {
        {"none", {0}, 0},
        {"the first one has ended", {ESRCH}, 0},
        {"the last one has ended", {0, 0, ESRCH, ESRCH}, 0},
        {"the first one stays", {EINVAL}, -EINVAL},
    };
    cpu_set_t set = one();

    if (CPU_COUNT(&all) < 2)
        skip();
    start_thread();
    start_thread();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].what);
        for (unsigned k = 0; k < nthreads; k++)
            pthread_setaffinity_np(threads[k], sizeof(all), &all);
        __real_sched_setaffinity(0, sizeof(all), &all);
        calls = 0;
        for (size_t k = 0; k < 4; k++)
            errors[k] = rows[i].errors[k];
        assert_int_equal(dlr_process_affinity(getpid(), &set), rows[i].rc);
    }
    assert_int_equal(dlr_process_affinity(-1, &set), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_is_started_meanwhile_is_found, begin,
                                        end),
        cmocka_unit_test_setup_teardown(only_what_stays_elsewhere_is_an_error, begin,
                                        end),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
