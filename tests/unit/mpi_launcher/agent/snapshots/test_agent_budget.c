/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/base/memory_group.h"
#include "mpi_launcher/agent/snapshots/budget.h"

static char root[64];

static void put(const char *name, const char *text)
{
    char path[256], dir[256];
    FILE *f;

    assert_int_equal(dlr_format(path, sizeof(path), "%s/%s", root, name), 0);
    memcpy(dir, path, sizeof(dir));
    *strrchr(dir, '/') = '\0';
    assert_int_equal(dlr_mkdirs(dir, 0700, NULL), 0);
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    dlr_format(root, sizeof(root), "/tmp/dlr-test-budget-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static struct dlr_budget look(void)
{
    struct dlr_budget b = {.option = "100%"};

    dlr_budget_look(root, &b);
    return b;
}

static void the_least_limit_around_the_process_counts(void **state)
{
    assert_int_equal(look().node, 0); /* nothing is known */
    assert_true(look().free == UINT64_MAX);
    put("proc/meminfo", "MemFree: 5 kB\nMemTotal:       8000000 kB\n");
    assert_int_equal(look().node, 8000000ull << 10);
    put("proc/self/cgroup", "0::/slurm/job_7/step_1\n");
    put("sys/fs/cgroup/slurm/job_7/step_1/memory.max", "max\n");
    assert_int_equal(look().node, 8000000ull << 10);
    put("sys/fs/cgroup/slurm/job_7/memory.max", "2000000000\n");
    put("sys/fs/cgroup/slurm/memory.max", "3000000000\n");
    assert_int_equal(look().node, 2000000000);
}

static void version_one_of_cgroups_is_understood(void **state)
{
    put("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n");
    put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/slurm/uid_1/job_7\n0::/y\n");
    put("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes", "1600000000\n");
    put("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.usage_in_bytes", "700000000\n");
    put("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 80000000\ntotal_active_file 20000000\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(look().node, 1600000000);
    assert_int_equal(look().free, 1600000000 - 600000000 - 100000000);
}

/* A program has its own state in the job's memory, beside the snapshots of it. */
static void what_programs_use_is_not_free(void **state)
{
    struct dlr_budget b;
    struct dlr_err err;

    put("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n");
    assert_int_equal(look().free, 5500000ull << 10);
    put("proc/self/cgroup", "0::/slurm/job_7/step_1\n");
    put("sys/fs/cgroup/slurm/job_7/memory.max", "1600000000\n");
    put("sys/fs/cgroup/slurm/job_7/memory.current", "1100000000\n");
    put("sys/fs/cgroup/slurm/job_7/memory.stat",
        "anon 900000000\nfile 200000000\ninactive_file 90000000\nactive_file 10000000\n"
        "shmem 100000000\n");
    b = look();
    assert_int_equal(b.free, 1600000000 - 1000000000 - 100000000);
    assert_int_equal(dlr_budget_check(&b, 3, 2, 250000000, 0, 0, &err), 0);
    assert_int_equal(dlr_budget_check(&b, 3, 2, 300000000, 0, 0, &err), -EDQUOT);
    b.there = 100000000; /* it is in use, and is theirs */
    assert_int_equal(dlr_budget_check(&b, 3, 2, 300000000, 0, 0, &err), 0);
    assert_int_equal(dlr_budget_check(&b, 3, 2, 300000000, 1, 1000000, &err), -EDQUOT);
    assert_string_equal(err.text, "snapshots do not fit beside the programs: 2 x 300.0 "
                                  "MB for rank 3, 1.0 MB for 1 "
                                  "others here and 0.0 MB to come are 601.0 MB, 100.0 "
                                  "MB of that are there, 500.0 MB "
                                  "of the job's or the node's memory are free");
    b.awaited = 1;
    assert_int_equal(dlr_budget_check(&b, 3, 2, 300000000, 0, 0, &err), -EDQUOT);
}

static void what_does_not_fit_is_refused_with_the_arithmetic(void **state)
{
    static const struct {
        const char *option;
        uint64_t node, bytes, others;
        int rc;
    } rows[] = {
        {"100%", 4000000000, 1000000000, 1000000000, 0},
        {"100%", 4000000000, 1000000001, 1000000000, -EDQUOT},
        {"50%", 4000000000, 1000000000, 0, 0},
        {"50%", 4000000000, 1000000000, 1, -EDQUOT},
        {"50%", 0, 1000000000, 1, 0}, /* of an unknown size */
        {"2m", 4000000000, 1 << 20, 0, 0},
        {"2m", 0, 1 << 20, 4096, -EDQUOT},
        {"100%", 4000000000, UINT64_MAX / 2, UINT64_MAX / 4, -EDQUOT},
        {"100%", 4000000000, UINT64_MAX, UINT64_MAX / 4, -EDQUOT},
    };
    struct dlr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dlr_budget b = {rows[i].option, rows[i].node, UINT64_MAX, 0, 0};

        assert_int_equal(
            dlr_budget_check(&b, 3, 2, rows[i].bytes, 1, 2 * rows[i].others, &err),
            rows[i].rc);
    }
    assert_int_equal(
        dlr_budget_check(&(struct dlr_budget){"25%", 4000000000, UINT64_MAX, 0, 0}, 3,
                         2, 300000000, 4, 1200000000, &err),
        -EDQUOT);
    assert_string_equal(
        err.text,
        "snapshots do not fit: 2 x 300.0 MB for rank 3 and 1200.0 MB for 4 "
        "others here are 1800.0 MB, --dlrover-set=ckpt-mem=25% of the 4000.0 MB "
        "that the job has on this node allows 1000.0 MB");
}

/* What was counted before the task began, of another task perhaps, is not its. */
static void a_task_that_the_kernel_kills_for_want_of_memory_is_counted(void **state)
{
    static const struct {
        const char *what, *groups, *file, *before, *after;
        unsigned kills;
    } rows[] = {
        {"version 1", "4:memory:/slurm/job_7/step_1/task_0\n0::/y\n",
         "sys/fs/cgroup/memory/slurm/job_7/step_1/task_0/memory.oom_control",
         "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
         "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1},
        {"version 2", "0::/job_7/step_1/user/task_0\n",
         "sys/fs/cgroup/job_7/step_1/user/task_0/memory.events",
         "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n",
         "low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 1\n", 2},
        {"none", "0::/job_7/step_1/user/task_0\n",
         "sys/fs/cgroup/job_7/step_1/user/task_0/memory.events", "oom_kill 1\n",
         "oom_kill 1\n", 0},
        {"no cgroup of its own", "4:memory:/\n0::/\n",
         "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n", "oom_kill 2\n", 0},
        {"an old kernel", "4:memory:/job_7\n",
         "sys/fs/cgroup/memory/job_7/memory.oom_control", "under_oom 0\n",
         "under_oom 1\n", 0},
        {"its cgroup is gone", "0::/job_7\n", "sys/fs/cgroup/job_7/memory.events",
         "oom_kill 1\n", "", 0},
        {"ours, too: of slurmd, where nothing is confined", "0::/agent\n",
         "sys/fs/cgroup/agent/memory.events", "oom_kill 1\n", "oom_kill 2\n", 0},
        {"no counter", "0::/job_8\n", "sys/fs/cgroup/job_7/memory.events",
         "oom_kill 1\n", "oom_kill 2\n", 0},
    };
    struct dlr_memory_kills kills;

    put("proc/self/cgroup", "4:memory:/agent\n0::/agent\n");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].what);
        put("proc/77/cgroup", rows[i].groups);
        put(rows[i].file, rows[i].before);
        dlr_memory_kills_open(root, 77, &kills);
        put(rows[i].file, rows[i].after);
        assert_int_equal(dlr_memory_kills_close(&kills), rows[i].kills);
        assert_int_equal(dlr_memory_kills_close(&kills), 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_least_limit_around_the_process_counts),
        T(version_one_of_cgroups_is_understood),
        T(what_programs_use_is_not_free),
        T(a_task_that_the_kernel_kills_for_want_of_memory_is_counted),
        T(what_does_not_fit_is_refused_with_the_arithmetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
