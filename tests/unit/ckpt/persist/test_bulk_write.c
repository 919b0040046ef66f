/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=fallocate,ftruncate,fcntl,pwrite,fsync,close,renameat */
/* A large file over an old one: in pieces, cut short at every system call, with every
 * one failing as a full disk or a quota does, and no faster than it may be.
 */
#include "ckpt/persist/bulk_write.h"

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

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define KIB 1024u
#define BYTES (200 * KIB + 123)
#define HEAD (8 * KIB)
#define RATE (512 * KIB) /* makes pieces of 64 KiB */
#define CRASHED 77

static atomic_int count, at; /* the call that meets what is below; 0 none */
static int fails_with;       /* errno, 0: the process ends there */
static bool no_fallocate;
static enum { DIRECT, NOT_SET, NOT_WRITTEN, ODD_COUNTS } cache; /* how far past it */
static char dir[64], path[128];
static unsigned char *contents;
static atomic_bool stale; /* memory of the writer's lay behind it */
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

int __real_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n)
{
    return here() ? -1 : __real_ftruncate(fd, n);
}

int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...)
{
    va_list list;
    int flags;

    va_start(list, cmd);
    flags = va_arg(list, int);
    va_end(list);
    if (cache == NOT_SET && cmd == F_SETFL && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return __real_fcntl(fd, cmd, flags);
}

ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t to);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t to);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t to)
{
    int flags = __real_fcntl(fd, F_GETFL);

    if (here())
        return -1;
    if (cache == NOT_WRITTEN && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    if (n > 2 * DLR_BULK_WRITE_ALIGN) /* a short count, each time */
        n = n / 2 / DLR_BULK_WRITE_ALIGN * DLR_BULK_WRITE_ALIGN;
    if (cache == ODD_COUNTS && to > 100 * KIB && n > KIB) {
        __real_fcntl(fd, F_SETFL, flags & ~O_DIRECT);
        n -= KIB / 2;
    }
    for (size_t k = 0; k < n; k++) /* nor where the file is cut off later */
        stale = stale || (to + k >= BYTES && ((const char *)buf)[k] != 0);
    return __real_pwrite(fd, buf, n, to);
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
    contents = aligned_alloc(DLR_BULK_WRITE_ALIGN,
                             BYTES / DLR_BULK_WRITE_ALIGN * DLR_BULK_WRITE_ALIGN +
                                 DLR_BULK_WRITE_ALIGN);
    for (size_t i = 0; i < BYTES; i++)
        contents[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(contents + BYTES, 0xee, DLR_BULK_WRITE_ALIGN - BYTES % DLR_BULK_WRITE_ALIGN);
    stale = false;
    at = count = 0;
    no_fallocate = false;
    cache = DIRECT;
    return 0;
}

static int remove_place(void **state)
{
    char cmd[128];

    free(contents);
    dlr_format(cmd, sizeof(cmd), "rm -r '%s'", dir);
    return system(cmd);
}

static int save(unsigned threads, uint64_t rate, const atomic_uint *hurry,
                struct dlr_err *err)
{
    const struct dlr_bulk_write_part part = {contents + HEAD, BYTES - HEAD, NULL};
    const struct dlr_bulk_write_write bulk = {.head = contents,
                                              .head_bytes = HEAD,
                                              .parts = &part,
                                              .nparts = 1,
                                              .threads = threads,
                                              .rate = rate,
                                              .hurry = hurry};

    return dlr_bulk_write_replace(AT_FDCWD, path, 0600, &bulk, err);
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
    for (cache = DIRECT; cache <= ODD_COUNTS; cache++)
        for (unsigned threads = 0; threads < 6; threads++) {
            put_old();
            no_fallocate = threads % 2;
            assert_int_equal(save(threads, threads % 3 ? RATE : 0, &soon, NULL), 0);
            assert_int_equal(found(), 'n');
            assert_false(stale);
        }
}

static void what_does_not_lie_in_whole_blocks_arrives(void **state)
{
    const struct dlr_bulk_write_part part = {contents + 100, BYTES - 100, NULL};
    const struct dlr_bulk_write_write bulk = {
        .head = contents, .head_bytes = 100, .parts = &part, .nparts = 1};

    put_old();
    assert_int_equal(dlr_bulk_write_replace(AT_FDCWD, path, 0600, &bulk, NULL), 0);
    assert_int_equal(found(), 'n');
}

/* Bytes of each part of the body, some of them none. What lies between two in the file
 * is no memory of the writer's, be it left from something else.
 */
static const unsigned part_bytes[] = {0, 4 * KIB, 70 * KIB + 1, 1, 0, 33 * KIB};
#define PARTS (sizeof(part_bytes) / sizeof(*part_bytes))

static void each_part_begins_in_a_block_of_its_own(void **state)
{
    struct dlr_bulk_write_part parts[PARTS];
    struct dlr_bulk_write_write bulk = {
        .head = contents, .head_bytes = HEAD, .parts = parts, .hurry = &soon};

    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = (struct dlr_bulk_write_part){contents + (i + 1) * HEAD,
                                                part_bytes[i], NULL};
    for (cache = DIRECT; cache <= ODD_COUNTS; cache++)
        for (unsigned n = 0; n <= PARTS; n++) {
            DLR_AUTO_FREE char *file = NULL;
            size_t size, next = HEAD, end = HEAD;

            bulk.nparts = n;
            bulk.threads = n % 4;
            bulk.rate = n % 2 ? RATE : 0;
            no_fallocate = n % 3;
            assert_int_equal(dlr_bulk_write_replace(AT_FDCWD, path, 0600, &bulk, NULL),
                             0);
            assert_int_equal(
                dlr_file_load(AT_FDCWD, path, 2 * BYTES, &file, &size, NULL), 0);
            assert_memory_equal(file, contents, HEAD);
            for (unsigned i = 0; i < n; i++) {
                assert_memory_equal(file + next, parts[i].data, part_bytes[i]);
                end = next + part_bytes[i];
                next = (end + DLR_BULK_WRITE_ALIGN - 1) / DLR_BULK_WRITE_ALIGN *
                       DLR_BULK_WRITE_ALIGN;
                for (size_t k = end; k < next && k < size; k++)
                    assert_int_equal(file[k], 0);
            }
            assert_int_equal(size, end);
            assert_int_equal(dlr_bulk_write_bytes(&bulk), end);
        }
}

#define UNIT (16 * KIB)
#define UNITS ((BYTES - HEAD + UNIT - 1) / UNIT)
static atomic_uint looked_at[UNITS];
static unsigned refused;

static int look(const void *arg, uint64_t from, uint64_t to, struct dlr_err *err)
{
    assert_ptr_equal(arg, contents);
    assert_int_equal(from % UNIT, 0);
    assert_true(to <= BYTES - HEAD);
    for (; from < to; from += UNIT) {
        atomic_fetch_add(&looked_at[from / UNIT], 1);
        if (from / UNIT == refused)
            return dlr_fail(err, -EBADMSG, "unit %u is corrupt", refused);
    }
    return 0;
}

/* Each unit once; with one that is refused the old file stays. */
static void what_is_written_is_looked_at_first(void **state)
{
    const struct dlr_bulk_write_part part = {contents + HEAD, BYTES - HEAD, contents};
    const struct dlr_bulk_write_write bulk = {.head = contents,
                                              .head_bytes = HEAD,
                                              .parts = &part,
                                              .nparts = 1,
                                              .check = look,
                                              .unit = UNIT,
                                              .threads = 3,
                                              .rate = RATE / 4,
                                              .hurry = &soon};
    struct dlr_err err;

    for (refused = 0; refused < UNITS; refused++) {
        put_old();
        assert_int_equal(dlr_bulk_write_replace(AT_FDCWD, path, 0600, &bulk, &err),
                         -EBADMSG);
        assert_non_null(strstr(err.text, "is corrupt"));
        assert_int_equal(found(), 'o');
        assert_int_equal(files(), 1);
    }
    memset(looked_at, 0, sizeof(looked_at));
    assert_int_equal(dlr_bulk_write_replace(AT_FDCWD, path, 0600, &bulk, &err), 0);
    assert_int_equal(found(), 'n');
    for (unsigned i = 0; i < UNITS; i++)
        assert_int_equal(looked_at[i], 1);
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
        TEST(what_does_not_lie_in_whole_blocks_arrives),
        TEST(each_part_begins_in_a_block_of_its_own),
        TEST(what_is_written_is_looked_at_first),
        TEST(a_crash_leaves_old_or_new),
        TEST(a_failing_call_leaves_old_or_new),
        TEST(it_is_no_faster_than_it_may_be),
        TEST(hurry_lifts_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
