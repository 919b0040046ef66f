/* SPDX-License-Identifier: Apache-2.0 */
/* The results that a node keeps of its checks. */
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

#include "common/base/str.h"
#include "health/history.h"

#define T0 1800000000ll

static char base[64];
static struct dlr_history h, again;

static int make_base(void **state)
{
    dlr_format(base, sizeof(base), "/tmp/dlr_history_XXXXXX");
    memset(&h, 0, sizeof(h));
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -rf %s", base);
    return system(command);
}

static int open_base(struct dlr_err *err)
{
    const char *const bases[] = {base, NULL};
    int fd, rc = dlr_history_open(bases, &fd, err);

    return rc < 0 ? rc : fd;
}

static void add(const char *check, enum dlr_health_verdict v, int64_t at_s)
{
    dlr_history_add(&h, check, v, "text", T0 + at_s);
}

/* --- rows ------------------------------------------------------------------------- */

static void equal_results_of_an_hour_are_one_row(void **state)
{
    for (int64_t s = 0; s < 7200; s += 300)
        add("memory", DLR_HEALTH_OK, s);
    assert_int_equal(h.n, 2);
    assert_int_equal(h.rows[0].count, 12);
    assert_int_equal(h.rows[0].first_s, T0);
    assert_int_equal(h.rows[0].last_s, T0 + 3300);
    assert_int_equal(h.rows[1].first_s, T0 + 3600);
}

static void streaks_are_counted(void **state)
{
    static const struct {
        const char *results; /* o ok, w warn, f fail, d drain, s skip: a minute apart */
        bool bad;
        unsigned count;
    } rows[] = {
        {"", false, 0},    {"o", false, 1},    {"ow", false, 2},  {"ood", true, 1},
        {"odd", true, 2},  {"dod", true, 1},   {"dfd", true, 1},  {"df", false, 0},
        {"dsd", true, 2},  {"ddoo", false, 2}, {"dow", false, 2}, {"fo", false, 1},
        {"dddd", true, 4},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_history_streak s;

        print_message("  '%s'\n", rows[i].results);
        memset(&h, 0, sizeof(h));
        for (size_t k = 0; rows[i].results[k]; k++) {
            static const char letters[] = "oswfd"; /* as the verdicts come */

            add("cpu", DLR_HEALTH_DRAIN, (int64_t)k * 60); /* another check's */
            add("gpu",
                (enum dlr_health_verdict)(strchr(letters, rows[i].results[k]) -
                                          letters),
                (int64_t)k * 60);
        }
        s = dlr_history_streak(&h, "gpu");
        assert_int_equal(s.count, rows[i].count);
        assert_int_equal(s.bad, rows[i].bad);
    }
}

static void a_flood_of_prologs_counts_as_few(void **state)
{
    for (int64_t s = 0; s < 95; s++) /* a job a second */
        add("memory", DLR_HEALTH_DRAIN, s);
    assert_int_equal(dlr_history_streak(&h, "memory").count, 4);
}

static void a_clock_that_is_set_back_breaks_nothing(void **state)
{
    add("memory", DLR_HEALTH_DRAIN, 1000000);
    add("memory", DLR_HEALTH_DRAIN, 0);
    add("memory", DLR_HEALTH_DRAIN, 60);
    assert_int_equal(dlr_history_streak(&h, "memory").count, 3);
}

static void the_last_word_on_each_check_is_kept(void **state)
{
    add("disk", DLR_HEALTH_FAIL, 0);
    for (int64_t i = 0; i < 3 * DLR_HISTORY_ROWS; i++)
        add("memory", i % 2 ? DLR_HEALTH_OK : DLR_HEALTH_WARN, i * 60);
    assert_int_equal(h.n, DLR_HISTORY_ROWS);
    assert_non_null(dlr_history_last(&h, "disk"));
    assert_null(dlr_history_last(&h, "gpu"));
}

/* --- the file --------------------------------------------------------------------- */

static void a_history_comes_back_as_it_was(void **state)
{
    struct dlr_err err = {0};
    int fd = open_base(&err);

    assert_true(fd >= 0);
    dlr_history_add(&h, "memory", DLR_HEALTH_OK, "58.59 of 64.00 GiB\n available", T0);
    dlr_history_add(&h, "disk", DLR_HEALTH_DRAIN, "", T0 + 1);
    assert_int_equal(dlr_history_load(fd, "n1", &again, &err), 0);
    assert_int_equal(again.n, 0);
    assert_int_equal(dlr_history_save(fd, "n1", &h, &err), 0);
    assert_int_equal(dlr_history_load(fd, "n1", &again, &err), 0);
    assert_int_equal(again.n, 2);
    assert_string_equal(again.rows[0].text, "58.59 of 64.00 GiB  available");
    assert_string_equal(again.rows[1].text, "");
    assert_int_equal(again.rows[1].verdict, DLR_HEALTH_DRAIN);
    assert_int_equal(again.rows[1].last_s, T0 + 1);
    close(fd);
}

static void the_file_stays_small(void **state)
{
    struct dlr_err err = {0};
    char reason[DLR_HISTORY_TEXT];
    struct stat st;
    int fd = open_base(&err);

    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    dlr_history_add(&h, "disk", DLR_HEALTH_FAIL, reason, T0);
    for (int i = 0; i < DLR_HISTORY_ROWS; i++)
        dlr_history_add(&h, "memory", i % 2 ? DLR_HEALTH_OK : DLR_HEALTH_WARN, reason,
                        T0 + i * 60);
    assert_int_equal(dlr_history_save(fd, "n1", &h, &err), 0);
    assert_int_equal(fstatat(fd, "n1", &st, 0), 0);
    assert_true(st.st_size <= DLR_HISTORY_BYTES);
    assert_true(st.st_size > DLR_HISTORY_BYTES - 512);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(dlr_history_load(fd, "n1", &again, &err), 0);
    assert_non_null(dlr_history_last(&again, "disk"));
    assert_int_equal(dlr_history_last(&again, "memory")->last_s,
                     T0 + (DLR_HISTORY_ROWS - 1) * 60);
    close(fd);
}

static void what_is_no_row_is_passed_over(void **state)
{
    static const char text[] = "garbage\n"
                               "\n"
                               "5 4 1 memory ok last before first\n"
                               "1 2 0 memory ok no result\n"
                               "1 2 1 memory fine unknown verdict\n"
                               "1 2 1 memory drain this one\n"
                               "1 2 1 memory ok"; /* cut: a row all the same */
    struct dlr_err err = {0};
    int dir = open_base(&err),
        fd = openat(dir, "n1", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(dlr_history_load(dir, "n1", &again, &err), 0);
    assert_int_equal(again.n, 2);
    assert_string_equal(again.rows[0].text, "this one");
    assert_int_equal(ftruncate(fd, 10 * DLR_HISTORY_BYTES), 0);
    assert_int_equal(dlr_history_load(dir, "n1", &again, &err), 0);
    assert_int_equal(again.n, 0);
    close(fd);
    close(dir);
}

/* --- the directory ---------------------------------------------------------------- */

static void a_directory_that_is_not_ours_alone_is_refused(void **state)
{
    struct dlr_err err = {0};
    char path[128], want[256];
    int fd = open_base(&err);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(fd);
    dlr_format(path, sizeof(path), "%s/dlrover-health", base);
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(open_base(&err), -EPERM);
    dlr_format(want, sizeof(want),
               "'%s' must belong to uid %u and be writable by nobody else: remove it",
               path, geteuid());
    assert_string_equal(err.text, want);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(open_base(&err), -ENOTDIR);
    assert_int_equal(unlink(path), 0);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(open_base(&err), -ENOTDIR);
    if (geteuid() == 0) {
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chown(path, 1234, 1234), 0);
        assert_int_equal(open_base(&err), -EPERM);
    }
}

static void the_next_place_is_taken_where_the_first_does_not_do(void **state)
{
    const char *const bases[] = {"/nowhere", base, NULL};
    struct dlr_err err = {0};
    int fd = -1;

    assert_int_equal(dlr_history_open(bases, &fd, &err), 0);
    close(fd);
}

static void one_check_of_a_node_at_a_time(void **state)
{
    struct dlr_err err = {0};
    int first = open_base(&err);

    assert_true(first >= 0);
    assert_int_equal(open_base(&err), -EWOULDBLOCK);
    assert_string_equal(err.text, "another check of this node is running");
    close(first);
    first = open_base(&err);
    assert_true(first >= 0);
    close(first);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_base, remove_base)
    const struct CMUnitTest tests[] = {
        TEST(equal_results_of_an_hour_are_one_row),
        TEST(streaks_are_counted),
        TEST(a_flood_of_prologs_counts_as_few),
        TEST(a_clock_that_is_set_back_breaks_nothing),
        TEST(the_last_word_on_each_check_is_kept),
        TEST(a_history_comes_back_as_it_was),
        TEST(the_file_stays_small),
        TEST(what_is_no_row_is_passed_over),
        TEST(a_directory_that_is_not_ours_alone_is_refused),
        TEST(the_next_place_is_taken_where_the_first_does_not_do),
        TEST(one_check_of_a_node_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
