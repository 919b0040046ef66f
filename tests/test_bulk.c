/* SPDX-License-Identifier: Apache-2.0 */
/* A large file over an old one: in pieces, cut short at every system call, with every one
 * failing as a full disk or a quota does, and no faster than it may be.
 */
#include "ckpt/bulk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/str.h"

#define KIB 1024u
#define BYTES (200 * KIB + 123)
#define RATE (512 * KIB) /* makes pieces of 64 KiB */
#define PARTS 41
#define CRASHED 77

static atomic_int count, at; /* the call that meets what is below; 0 none */
static int fails_with;       /* errno, 0: the process ends there */
static bool no_fallocate;
static char dir[64], path[128];
static unsigned char *contents;
static const atomic_uint soon = 1;

static bool here(void)
{
    if (!at || atomic_fetch_add(&count, 1) + 1 != at)
        return false;
    if (!fails_with)
        _exit(CRASHED);
    errno = fails_with;
    return true;
}

int __real_fallocate(int fd, int mode, off_t from, off_t n);
int __wrap_fallocate(int fd, int mode, off_t from, off_t n);
int __wrap_fallocate(int fd, int mode, off_t from, off_t n)
{
    if (no_fallocate) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return here() ? -1 : __real_fallocate(fd, mode, from, n);
}

ssize_t __real_pwritev(int fd, const struct iovec *v, int n, off_t to);
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t to);
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t to)
{
    struct iovec cut = v[0];

    if (here())
        return -1;
    if (n > 1) /* a short count, each time */
        return __real_pwritev(fd, v, n - n / 2, to);
    cut.iov_len -= cut.iov_len > KIB ? KIB / 2 : 0;
    return __real_pwritev(fd, &cut, 1, to);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return here() ? -1 : __real_fsync(fd);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    bool fails = here();

    return __real_close(fd) < 0 || fails ? -1 : 0;
}

int __real_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to)
{
    return here() ? -1 : __real_renameat(fd, from, to_fd, to);
}

static int make_place(void **state)
{
    strcpy(dir, "/tmp/dlr-bulk-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dlr_format(path, sizeof(path), "%s/file", dir);
    contents = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        contents[i] = (unsigned char)(i * 2654435761u >> 13);
    at = count = 0;
    no_fallocate = false;
    return 0;
}

static int remove_place(void **state)
{
    char cmd[128];

    free(contents);
    dlr_format(cmd, sizeof(cmd), "rm -r '%s'", dir);
    return system(cmd);
}

/* Many parts, some of them empty, that cross the pieces. */
static int save(unsigned threads, uint64_t rate, const atomic_uint *hurry,
                struct dlr_err *err)
{
    struct iovec parts[PARTS] = {0};
    struct dlr_bulk bulk = {parts, PARTS, threads, rate, hurry};
    size_t done = 0;

    for (unsigned i = 0; i < PARTS; i++) {
        size_t n = i == PARTS - 1 ? BYTES - done : i % 7 ? BYTES / PARTS : 0;

        parts[i] = (struct iovec){contents + done, n};
        done += n;
    }
    return dlr_bulk_replace(path, 0600, &bulk, err);
}

static void put_old(void)
{
    char text[] = "old";
    struct iovec part = {text, 3};
    int was = at;

    at = 0;
    assert_int_equal(dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, NULL), 0);
    at = was;
}

/* 'o' or 'n'; anything else than one of them whole is a failure. */
static char found(void)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size;

    at = 0;
    assert_int_equal(dlr_file_load(AT_FDCWD, path, 2 * BYTES, &text, &size, NULL), 0);
    if (size == 3 && memcmp(text, "old", 3) == 0)
        return 'o';
    assert_int_equal(size, BYTES);
    assert_memory_equal(text, contents, BYTES);
    return 'n';
}

static unsigned files(void)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    unsigned n = 0;

    while (readdir(d))
        n++;
    return n - 2;
}

static void every_byte_arrives(void **state)
{
    for (unsigned threads = 0; threads < 6; threads++) {
        put_old();
        no_fallocate = threads % 2;
        assert_int_equal(save(threads, threads % 3 ? RATE : 0, &soon, NULL), 0);
        assert_int_equal(found(), 'n');
    }
}

static void a_crash_leaves_old_or_new(void **state)
{
    int status = 0, seen_old = 0;

    fails_with = 0;
    for (int n = 1; status == 0 || WEXITSTATUS(status) == CRASHED; n++) {
        pid_t pid;

        put_old();
        pid = fork();
        if (pid == 0) {
            at = n;
            _exit(save(3, RATE, &soon, NULL) < 0 ? 1 : 2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_not_equal(WEXITSTATUS(status), 1);
        seen_old += found() == 'o';
    }
    assert_int_equal(found(), 'n');
    assert_true(seen_old > 10); /* fallocate, each write, fsync, close, rename */
}

static void a_failing_call_leaves_old_or_new(void **state)
{
    static const int codes[] = {ENOSPC, EDQUOT, EIO};
    int rc = -1;

    for (int n = 1; rc < 0; n++) {
        struct dlr_err err;

        put_old();
        fails_with = codes[n % 3];
        count = 0;
        at = n;
        rc = save(2, RATE, &soon, &err);
        if (rc < 0) {
            assert_int_equal(rc, -fails_with);
            assert_non_null(strstr(err.text, strerror(fails_with)));
        }
        if (found() == 'o')
            assert_true(rc < 0);
        assert_int_equal(files(), 1); /* nothing half-written stays */
    }
    assert_int_equal(found(), 'n');
}

static void it_is_no_faster_than_it_may_be(void **state)
{
    int64_t begin = dlr_now_ms();

    put_old();
    assert_int_equal(save(0, RATE, NULL, NULL), 0);
    assert_true(dlr_now_ms() - begin >= 200); /* the last piece is due later */
    assert_int_equal(found(), 'n');
}

/* At this rate it would take months. */
static void hurry_lifts_the_limit(void **state)
{
    put_old();
    assert_int_equal(save(0, 1, &soon, NULL), 0);
    assert_int_equal(found(), 'n');
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        TEST(every_byte_arrives),
        TEST(a_crash_leaves_old_or_new),
        TEST(a_failing_call_leaves_old_or_new),
        TEST(it_is_no_faster_than_it_may_be),
        TEST(hurry_lifts_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
