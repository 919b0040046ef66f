/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-supervisor */
/* Limits of descriptors: the daemons' own, the users', and one that is too low for the
 * job.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

#include "common/base/install_path.h"
#include "common/base/open_files.h"
#include "common/base/str.h"

static rlim_t soft(void)
{
    struct rlimit now;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    return now.rlim_cur;
}

static void limits_are_raised_and_given_back(void **state)
{
    struct rlimit before, low;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){100, before.rlim_max};
    dlr_open_files_restore(); /* nothing was raised */
    assert_int_equal(soft(), before.rlim_cur);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(dlr_open_files_raise(), before.rlim_max);
    assert_int_equal(soft(), before.rlim_max);
    assert_int_equal(dlr_open_files_raise(), before.rlim_max);
    dlr_open_files_restore();
    assert_int_equal(soft(), 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_limit_that_is_too_low_is_told(void **state)
{
    struct dlr_err err = {0};

    assert_int_equal(dlr_open_files_check(1024, 1024 - DLR_OPEN_FILES_OWN, &err), 0);
    assert_int_equal(dlr_open_files_check(1024, 1000, &err), -EMFILE);
    assert_string_equal(err.text,
                        "1024 open files are allowed here (ulimit -Hn) and 1000 nodes "
                        "need 1064: the limit must be raised on the host of the batch "
                        "script");
}

static void become_supervisor(const char *dir, unsigned nodes, unsigned limit)
{
    static char word[64], path[4096], list[64], n[32], tasks[64], cpus[64];
    char *const argv[] = {path,           word,           (char *)"--",
                          (char *)"srun", (char *)"true", NULL};
    char *const env[] = {(char *)"SLURM_JOB_ID=7",
                         list,
                         n,
                         (char *)"SLURM_CLUSTER_NAME=c",
                         tasks,
                         cpus,
                         NULL};
    struct rlimit low = {32, limit};

    dlr_format(list, sizeof(list), "SLURM_JOB_NODELIST=n[1-%u]", nodes);
    dlr_format(n, sizeof(n), "SLURM_NNODES=%u", nodes);
    dlr_format(tasks, sizeof(tasks), "SLURM_TASKS_PER_NODE=1(x%u)", nodes);
    dlr_format(cpus, sizeof(cpus), "SLURM_JOB_CPUS_PER_NODE=1(x%u)", nodes);
    dlr_format(word, sizeof(word), "--state-dir=%s", dir);
    if (dlr_install_path_sibling("../dlrover-supervisor", path, sizeof(path)) == 0 &&
        setrlimit(RLIMIT_NOFILE, &low) == 0)
        execve(path, argv, env);
    _exit(99);
}

static void refuse(unsigned nodes, unsigned limit, const char *line)
{
    char dir[] = "/tmp/test_open_files.XXXXXX", text[512] = "";
    int pipes[2], status;
    pid_t pid;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        become_supervisor(dir, nodes, limit);
    }
    close(pipes[1]);
    for (size_t n = 0; n < sizeof(text) - 1;) {
        ssize_t got = read(pipes[0], text + n, sizeof(text) - 1 - n);

        if (got <= 0)
            break;
        n += (size_t)got;
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_string_equal(text, line);
    assert_int_equal(rmdir(dir), 0); /* nothing is in it */
    close(pipes[0]);
}

/* One line before it writes or starts anything. */
static void a_job_that_is_too_large_for_it_is_refused(void **state)
{
    refuse(16, 60,
           "dlrover: 60 open files are allowed here (ulimit -Hn) and 16 nodes need 80: "
           "the limit must be raised on the host of the batch script\n");
    refuse(
        16384, 1024,
        "dlrover: 1024 open files are allowed here (ulimit -Hn) and 16384 nodes need "
        "16448: the limit must be raised on the host of the batch script\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_raised_and_given_back),
        cmocka_unit_test(a_limit_that_is_too_low_is_told),
        cmocka_unit_test(a_job_that_is_too_large_for_it_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
