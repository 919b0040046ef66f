/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run */
/* How much memory the check of memory's bandwidth takes, by caches and memory that the
 * kernel of a node made here tells.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "health/checks.h"
#include "tests/support/fake_root.h"

static char root[] = "/tmp/dlr-bandwidth-XXXXXX";

static void make(const char *path, const char *text)
{
    fake_root_put(root, path, text);
}

static int clear(void **state)
{
    return fake_root_clear(root);
}

static int begin(void **state)
{
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    return clear(state) | rmdir(root);
}

/* Hides digits: "12.5 GB/s" -> "# GB/s". */
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

#define CACHE(cpu, level) "/sys/devices/system/cpu/cpu" cpu "/cache/index" level
#define L3(cpu, cpus, size)                                                            \
    CACHE(cpu, "3") "/shared_cpu_list", cpus, CACHE(cpu, "3") "/size", size
#define MEMORY(kib) "/proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: " kib " kB\n"
#define MEASURED "# GB/s on # CPUs, CPU # the slowest: #; arrays of # MiB"
#define LARGE MEMORY("99999999")

// clang-format off
static const struct {
    const char *name;
    const char *files[15];
    uint64_t slurm_memory;
    bool demand;
    enum dlr_health_verdict verdict;
    bool compared;
    const char *tail; /* exact, of the reason */
} rows[] = {
    {"a small cache", {L3("0", "0-1", "1024K"), L3("1", "0-1", "1024K"), LARGE}, 0, false,
     DLR_HEALTH_OK, true, "; arrays of 4 MiB, caches of 1"},
    {"a cache for each socket", {L3("0", "0,2", "1024K"), L3("1", "1,3", "1M"), L3("2", "0,2", "1024K"), LARGE}, 0,
     false, DLR_HEALTH_OK, true, "; arrays of 8 MiB, caches of 2"},
    {"no third level", {CACHE("0", "2") "/size", "512K", CACHE("0", "2") "/shared_cpu_list", "0",
                        CACHE("1", "2") "/size", "512K", CACHE("1", "2") "/shared_cpu_list", "1", LARGE}, 0, false,
     DLR_HEALTH_OK, true, "; arrays of 4 MiB, caches of 1"},
    {"a cache too large for a run", {L3("0", "0-1", "9999999M"), LARGE}, 0, false, DLR_HEALTH_SKIP, false,
     " MiB here, caches are of 9999999; dlrover check takes more"},
    {"no cache is told", {LARGE}, 0, false, DLR_HEALTH_SKIP, false,
     " MiB here, caches are of 0; dlrover check takes more"},
    {"little memory available", {L3("0", "0-1", "1M"), MEMORY("81900")}, 0, false, DLR_HEALTH_SKIP, false,
     "a run takes 3 MiB here, caches are of 1; dlrover check takes more"},
    {"enough of it", {L3("0", "0-1", "1M"), MEMORY("81920")}, 0, false, DLR_HEALTH_OK, true,
     "; arrays of 4 MiB, caches of 1"},
    {"a small job", {L3("0", "0-1", "1M"), LARGE}, 60u << 20, false, DLR_HEALTH_SKIP, false,
     "a run takes 3 MiB here, caches are of 1; dlrover check takes more"},
    {"somebody asks", {L3("0", "0-1", "4M"), MEMORY("163840")}, 0, true, DLR_HEALTH_OK, false,
     "; arrays of 8 MiB lie in part in the caches, caches of 4"},
    {"somebody asks, no cache is told", {MEMORY("163840")}, 0, true, DLR_HEALTH_OK, false,
     "; arrays of 8 MiB lie in part in the caches, caches of 0"},
    {"no memory at all", {L3("0", "0-1", "10M"), MEMORY("1000")}, 0, true, DLR_HEALTH_SKIP, false,
     "no memory to measure with"},
    {"numbers that are none", {L3("0", "?", "x"), MEMORY("x")}, 1u << 20, true, DLR_HEALTH_SKIP, false,
     "no memory to measure with"},
};
// clang-format on

static void as_much_memory_is_taken_as_misses_the_caches(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_result r = {0};
        struct dlr_health_env env;
        size_t size, tail = strlen(rows[i].tail);

        dlr_health_env_init(&env);
        clear(NULL);
        for (size_t f = 0; rows[i].files[f]; f += 2)
            make(rows[i].files[f], rows[i].files[f + 1]);
        env.root = root;
        env.slurm_memory_bytes = rows[i].slurm_memory;
        env.on_demand = rows[i].demand;
        dlr_health_bandwidth(&env, &r);
        print_message("  %s: %s\n", rows[i].name, r.reason);
        size = strlen(r.reason);
        assert_true(size >= tail);
        assert_string_equal(r.reason + size - tail, rows[i].tail);
        if (rows[i].verdict == DLR_HEALTH_OK)
            assert_non_null(dlr_after(shape(r.reason), MEASURED));
        assert_int_equal(r.verdict, rows[i].verdict);
        assert_int_equal(r.speed > 0, rows[i].compared);
        if (rows[i].compared)
            assert_string_equal(r.kind, "memory");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_much_memory_is_taken_as_misses_the_caches),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
