/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a job's memory in a directory where everybody may write. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/node_memory.h"
#include "common/base/str.h"

static char top[64], usual[128], run[160];

static int start(void **state)
{
    dlr_format(top, sizeof(top), "/tmp/dlr-memory.XXXXXX");
    if (!mkdtemp(top))
        return -1;
    dlr_format(usual, sizeof(usual), "%s/dlrover-%u-7", top, (unsigned)geteuid());
    return dlr_format(run, sizeof(run), "%s/a1b2-0", usual);
}

static int stop(void **state)
{
    rmdir(usual);
    unlink(usual);
    return rmdir(top);
}

static void names_of_one_job_are_told_from_those_of_others(void **state)
{
    static const struct {
        const char *entry;
        bool is;
    } rows[] = {
        {"dlrover-1-7", true},
        {"dlrover-1-7.0123abcd", true},
        {"dlrover-1-70", false},
        {"dlrover-1-7.0123abcde", false},
        {"dlrover-1-7.0123abc", false},
        {"dlrover-1-7.0123ABCD", false},
        {"dlrover-1-7.0123abc/", false},
        {"dlrover-1-", false},
        {"", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(dlr_memory_is(rows[i].entry, "dlrover-1-7"), rows[i].is);
}

static void a_free_name_is_taken_and_found(void **state)
{
    char path[PATH_MAX];
    bool taken = true;
    struct stat st;

    assert_int_equal(dlr_memory_find(run, path, sizeof(path)), 0);
    assert_string_equal(path, run); /* nothing is there yet */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dlr_memory_claim(run, path, sizeof(path), &taken, NULL), 0);
        assert_false(taken);
        assert_string_equal(path, run);
    }
    assert_int_equal(stat(usual, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

/* Each row is put where the job's directory would be, and stepped around. */
static void squatted_names_are_stepped_around(void **state)
{
    static const mode_t squats[] = {S_IFIFO | 0666, S_IFREG | 0666, 0 /* a link */};

    for (size_t i = 0; i < sizeof(squats) / sizeof(*squats); i++) {
        char path[PATH_MAX], again[PATH_MAX], job[PATH_MAX];
        bool taken = false;

        rmdir(usual);
        unlink(usual);
        if (squats[i])
            assert_int_equal(mknod(usual, squats[i], 0), 0);
        else
            assert_int_equal(symlink("/tmp", usual), 0);
        assert_int_equal(dlr_memory_claim(run, path, sizeof(path), &taken, NULL), 0);
        assert_true(taken);
        assert_string_not_equal(path, run);
        assert_int_equal(dlr_memory_find(run, again, sizeof(again)), 0);
        assert_string_equal(again, path);
        assert_int_equal(dlr_memory_claim(run, again, sizeof(again), &taken, NULL), 0);
        assert_true(taken);
        assert_string_equal(again, path);
        dlr_format(job, sizeof(job), "%.*s", (int)(strrchr(path, '/') - path), path);
        assert_int_equal(rmdir(job), 0);
    }
}

static void a_directory_of_somebody_else_is_stepped_around(void **state)
{
    char path[PATH_MAX], job[PATH_MAX];
    bool taken = false;

    if (getuid() != 0)
        skip();
    rmdir(usual);
    unlink(usual);
    assert_int_equal(mkdir(usual, 0777) | chown(usual, 1, 1), 0);
    assert_int_equal(dlr_memory_claim(run, path, sizeof(path), &taken, NULL), 0);
    assert_true(taken);
    dlr_format(job, sizeof(job), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(rmdir(job), 0);
}

/* In a directory of the job's own. */
static void a_socket_of_somebody_else_is_refused(void **state)
{
    char path[PATH_MAX];
    struct dlr_err err;
    int fd = -1;

    if (getuid() != 0)
        skip();
    rmdir(usual);
    dlr_format(path, sizeof(path), "%s/agent.sock", run);
    assert_int_equal(mkdir(usual, 0700) | mkdir(run, 0700), 0);
    assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
    assert_int_equal(dlr_memory_socket(top, path, 7, &fd, &err), 0);
    close(fd);
    assert_int_equal(chown(path, 1, 1), 0);
    assert_int_equal(dlr_memory_socket(top, path, 7, &fd, &err), -EPERM);
    assert_int_equal(unlink(path) | rmdir(run), 0);
}

static void other_paths_are_left_as_they_are(void **state)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "/home/alice/x",
                                        "dlrover-1-7/run",
                                        "/dlrover-1-7/run",
                                        "/nowhere/dlrover-1-7/run"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        assert_int_equal(dlr_memory_find(paths[i], path, sizeof(path)), 0);
        assert_string_equal(path, paths[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_one_job_are_told_from_those_of_others),
        cmocka_unit_test(a_free_name_is_taken_and_found),
        cmocka_unit_test(squatted_names_are_stepped_around),
        cmocka_unit_test(a_directory_of_somebody_else_is_stepped_around),
        cmocka_unit_test(a_socket_of_somebody_else_is_refused),
        cmocka_unit_test(other_paths_are_left_as_they_are),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
