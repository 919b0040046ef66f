/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=fsync,renameat,write,close */
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

/* --- the system under common/base/file.c, with faults ----------------------------- */

enum fault { NONE, FAIL, CRASH };

static struct {
    char order[64]; /* one letter for each call: w f c r */
    unsigned calls; /* of any kind */
    unsigned at;    /* the call, counted from 1, that meets the fault */
    enum fault fault;
    size_t most; /* bytes one write takes, 0: all */
} sys;

int __real_fsync(int fd);
int __real_close(int fd);
ssize_t __real_write(int fd, const void *buf, size_t size);
int __real_renameat(int from, const char *a, int to, const char *b);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
ssize_t __wrap_write(int fd, const void *buf, size_t size);
int __wrap_renameat(int from, const char *a, int to, const char *b);

/* Whether the call named by letter fails now; does not return when it is to crash. */
static bool meets_fault(char letter)
{
    size_t n = strlen(sys.order);

    if (n + 1 < sizeof(sys.order))
        sys.order[n] = letter;
    if (++sys.calls != sys.at || sys.fault == NONE)
        return false;
    if (sys.fault == CRASH)
        _exit(0);
    errno = EIO;
    return true;
}

int __wrap_fsync(int fd)
{
    return meets_fault('f') ? -1 : __real_fsync(fd);
}

int __wrap_close(int fd)
{
    bool fails = meets_fault('c');

    return __real_close(fd) < 0 || fails ? -1 : 0;
}

ssize_t __wrap_write(int fd, const void *buf, size_t size)
{
    if (sys.most && size > sys.most)
        size = sys.most;
    return meets_fault('w') ? -1 : __real_write(fd, buf, size);
}

int __wrap_renameat(int from, const char *a, int to, const char *b)
{
    return meets_fault('r') ? -1 : __real_renameat(from, a, to, b);
}

/* --- one directory for each test -------------------------------------------------- */

struct place {
    char path[PATH_MAX];
    int fd;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    strcpy(place->path, "/tmp/dlr-test-file.XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->fd >= 0);
    memset(&sys, 0, sizeof(sys));
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    char command[PATH_MAX + 16];

    memset(&sys, 0, sizeof(sys));
    close(place->fd);
    snprintf(command, sizeof(command), "rm -rf %s", place->path);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

static int replace(struct place *place, const char *text)
{
    char head[] = "head ";
    struct iovec parts[] = {{head, 5}, {(char *)text, strlen(text)}};

    return dlr_file_replace(place->fd, "file", 0640, parts, 2, NULL);
}

static void assert_holds(struct place *place, const char *text)
{
    DLR_AUTO_FREE char *found = NULL;

    assert_int_equal(dlr_file_load(place->fd, "file", 1000, &found, NULL, NULL), 0);
    assert_string_equal(found, text);
}

static unsigned entries(struct place *place)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir(place->path);
    unsigned n = 0;

    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += !dlr_streq(e->d_name, ".") && !dlr_streq(e->d_name, "..");
    return n;
}

/* --- tests ------------------------------------------------------------------------ */

static void a_file_is_made_durable_in_the_right_order(void **state)
{
    struct place *place = *state;

    assert_int_equal(replace(place, "one"), 0);
    assert_string_equal(sys.order, "wwfcrfc");
    assert_holds(place, "head one");
    assert_int_equal(replace(place, "two"), 0);
    assert_holds(place, "head two");
    assert_int_equal(entries(place), 1);
}

static void the_mode_is_kept_within_the_umask(void **state)
{
    struct place *place = *state;
    mode_t before = umask(027);
    struct stat st;

    assert_int_equal(replace(place, "one"), 0);
    umask(before);
    assert_int_equal(fstatat(place->fd, "file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

static void replace_under_fault(struct place *place, unsigned at)
{
    assert_int_equal(replace(place, "old"), 0);
    memset(&sys, 0, sizeof(sys));
    sys.at = at;
    sys.fault = FAIL;
    assert_int_equal(replace(place, "new"), -EIO);
    sys.fault = NONE;
}

static void failed_write_keeps_the_old_file(void **state)
{
    replace_under_fault(*state, 2);
    assert_holds(*state, "head old");
    assert_int_equal(entries(*state), 1);
}

static void failed_fsync_keeps_the_old_file(void **state)
{
    replace_under_fault(*state, 3);
    assert_holds(*state, "head old");
    assert_int_equal(entries(*state), 1);
}

static void failed_close_keeps_the_old_file(void **state)
{
    replace_under_fault(*state, 4);
    assert_holds(*state, "head old");
    assert_int_equal(entries(*state), 1);
}

static void failed_rename_keeps_the_old_file(void **state)
{
    replace_under_fault(*state, 5);
    assert_holds(*state, "head old");
    assert_int_equal(entries(*state), 1);
}

static void failed_fsync_of_the_directory_is_a_failure(void **state)
{
    replace_under_fault(*state, 6);
    assert_holds(*state, "head new");
}

static void a_crash_at_any_call_leaves_the_old_file_or_the_new(void **state)
{
    static const unsigned new_from = 6; /* call 5 is the rename */
    struct place *place = *state;

    for (unsigned at = 1; at <= 7; at++) {
        int status;
        pid_t pid;

        print_message("row %u\n", at);
        assert_int_equal(replace(place, "old"), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            memset(&sys, 0, sizeof(sys));
            sys.at = at;
            sys.fault = CRASH;
            replace(place, "new");
            _exit(1); /* the crash did not come: this test is wrong */
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_holds(place, at < new_from ? "head old" : "head new");
    }
}

static void short_writes_are_continued(void **state)
{
    struct place *place = *state;

    sys.most = 3;
    assert_int_equal(replace(place, "a longer text"), 0);
    assert_holds(place, "head a longer text");
}

static void a_path_syncs_the_directory_that_holds_the_file(void **state)
{
    struct place *place = *state;
    struct iovec part = {"x", 1};
    char path[PATH_MAX + 8];

    snprintf(path, sizeof(path), "%s/file", place->path);
    assert_int_equal(dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, NULL), 0);
    assert_holds(place, "x");
}

static void replace_names_what_went_wrong(void **state)
{
    static const struct {
        const char *name;
        int rc;
        const char *text;
    } rows[] = {
        {"", -EINVAL, "'' does not name a file"},
        {".", -EINVAL, "'.' does not name a file"},
        {"a/..", -EINVAL, "'a/..' does not name a file"},
        {"dir/", -EINVAL, "'dir/' does not name a file"},
        {"none/file", -ENOENT,
         "cannot open the directory of 'none/file': No such file or directory"},
        {"dir", -EISDIR, "cannot replace 'dir': Is a directory"},
    };
    struct place *place = *state;

    assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};

        print_message("row '%s'\n", rows[i].name);
        assert_int_equal(dlr_file_replace(place->fd, rows[i].name, 0600, NULL, 0, &err),
                         rows[i].rc);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(entries(place), 1);
    }
}

static void load_reads_any_size_up_to_its_limit(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 70000};
    struct place *place = *state;
    DLR_AUTO_FREE char *data = malloc(70000);

    memset(data, 'x', 70000);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct iovec part = {data, sizes[i]};
        char *text = NULL;
        size_t size = 0;

        print_message("row %zu\n", sizes[i]);
        assert_int_equal(dlr_file_replace(place->fd, "file", 0600, &part, 1, NULL), 0);
        assert_int_equal(dlr_file_load(place->fd, "file", sizes[i], &text, &size, NULL),
                         0);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(strlen(text), sizes[i]);
        free(text);
        if (sizes[i] > 0)
            assert_int_equal(
                dlr_file_load(place->fd, "file", sizes[i] - 1, &text, &size, NULL),
                -EFBIG);
    }
}

static void load_says_which_file_is_missing(void **state)
{
    struct place *place = *state;
    struct dlr_err err;
    char *text = NULL;

    assert_int_equal(dlr_file_load(place->fd, "none", 10, &text, NULL, &err), -ENOENT);
    assert_string_equal(err.text, "cannot open 'none': No such file or directory");
    assert_null(text);
}

static void what_is_not_a_file_of_ours_is_refused_and_not_waited_for(void **state)
{
    struct place *place = *state;
    struct dlr_err err;
    char *text = NULL;

    assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
    assert_int_equal(dlr_file_load_own(place->fd, "fifo", 10, &text, NULL, &err),
                     -EINVAL);
    assert_string_equal(err.text, "'fifo' is no regular file");
    assert_int_equal(mkdirat(place->fd, "sub", 0700), 0);
    assert_int_equal(dlr_file_load_own(place->fd, "sub", 10, &text, NULL, &err),
                     -EINVAL);
    assert_null(text);
    assert_int_equal(
        unlinkat(place->fd, "fifo", 0) | unlinkat(place->fd, "sub", AT_REMOVEDIR), 0);
}

static void a_file_that_ends_early_is_no_success(void **state)
{
    struct place *place = *state;
    char buf[16];
    DLR_AUTO_CLOSE int fd = -1;

    assert_int_equal(replace(place, "x"), 0);
    fd = openat(place->fd, "file", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dlr_read_all(fd, buf, 6), 0);
    assert_memory_equal(buf, "head x", 6);
    assert_int_equal(dlr_read_all(fd, buf, 1), -ENODATA);
}

static void directories_are_made_with_their_parents(void **state)
{
    struct place *place = *state;
    char path[PATH_MAX + 16];
    struct stat st;

    snprintf(path, sizeof(path), "%s/a//b/c/", place->path);
    assert_int_equal(dlr_mkdirs(path, 0700, NULL), 0);
    assert_int_equal(dlr_mkdirs(path, 0700, NULL), 0);
    assert_int_equal(fstatat(place->fd, "a/b/c", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void a_file_in_the_way_of_a_directory_is_named(void **state)
{
    struct place *place = *state;
    char path[PATH_MAX + 16], want[2 * PATH_MAX];
    struct dlr_err err;

    assert_int_equal(replace(place, "x"), 0);
    snprintf(path, sizeof(path), "%s/file/sub", place->path);
    snprintf(want, sizeof(want),
             "cannot create the directory '%s/file': Not a directory", place->path);
    assert_int_equal(dlr_mkdirs(path, 0700, &err), -ENOTDIR);
    assert_string_equal(err.text, want);
    assert_int_equal(dlr_mkdirs("", 0700, &err), -EINVAL);
}

static void a_file_is_told_from_what_is_none(void **state)
{
    DLR_AUTO_CLOSE int file = memfd_create("test", MFD_CLOEXEC);
    DLR_AUTO_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    assert_true(dlr_is_file(file));
    assert_false(dlr_is_file(null));
    assert_false(dlr_is_file(pipes[1]));
    assert_false(dlr_is_file(-1));
    close(pipes[0]);
    close(pipes[1]);
}

#define PLACE_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(a_file_is_made_durable_in_the_right_order),
        PLACE_TEST(the_mode_is_kept_within_the_umask),
        PLACE_TEST(failed_write_keeps_the_old_file),
        PLACE_TEST(failed_fsync_keeps_the_old_file),
        PLACE_TEST(failed_close_keeps_the_old_file),
        PLACE_TEST(failed_rename_keeps_the_old_file),
        PLACE_TEST(failed_fsync_of_the_directory_is_a_failure),
        PLACE_TEST(a_crash_at_any_call_leaves_the_old_file_or_the_new),
        PLACE_TEST(short_writes_are_continued),
        PLACE_TEST(a_path_syncs_the_directory_that_holds_the_file),
        PLACE_TEST(replace_names_what_went_wrong),
        PLACE_TEST(load_reads_any_size_up_to_its_limit),
        PLACE_TEST(load_says_which_file_is_missing),
        PLACE_TEST(what_is_not_a_file_of_ours_is_refused_and_not_waited_for),
        PLACE_TEST(a_file_that_ends_early_is_no_success),
        PLACE_TEST(directories_are_made_with_their_parents),
        PLACE_TEST(a_file_in_the_way_of_a_directory_is_named),
        cmocka_unit_test(a_file_is_told_from_what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
