/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=renameat,unlinkat,fallocate,ftruncate,pwrite,fsync */
/* Without a job: a file that nobody needs any more is written over by the next version.
 * Whoever still needs it keeps what it has, and an end at any system call costs no
 * version that was whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/standalone/files.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_run.h"

#define CRASHED 77
#define SAVES 6 /* of which some write over another, */
#define MORE 3  /* as the second and third of these do after three */

static atomic_int calls, at; /* the call that meets what is below; 0 none */
static int fails_with;       /* errno, 0: the process ends there */
static atomic_bool moved;    /* a file has lost its name, and no sync has followed */
static atomic_bool early;    /* it was written to before */
static atomic_uint over;     /* files that were not empty when they were begun */

static bool here(void)
{
    if (!at || atomic_fetch_add(&calls, 1) + 1 != at)
        return false;
    if (!fails_with)
        _exit(CRASHED);
    errno = fails_with;
    return true;
}

int __real_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to)
{
    if (here())
        return -1;
    if (from[0] == 'r' && to[0] == '.')
        moved = true;
    return __real_renameat(fd, from, to_fd, to);
}

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags)
{
    return here() ? -1 : __real_unlinkat(fd, name, flags);
}

int __real_fallocate(int fd, int mode, off_t from, off_t n);
int __wrap_fallocate(int fd, int mode, off_t from, off_t n);
int __wrap_fallocate(int fd, int mode, off_t from, off_t n)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && st.st_size > 0)
        over++;
    return here() ? -1 : __real_fallocate(fd, mode, from, n);
}

int __real_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n)
{
    return here() ? -1 : __real_ftruncate(fd, n);
}

ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t to);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t to);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t to)
{
    if (n >= 4096 && moved)
        early = true;
    return here() ? -1 : __real_pwrite(fd, buf, n, to);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;
    int rc = here() ? -1 : __real_fsync(fd);

    if (rc == 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        moved = false;
    return rc;
}

/* In memory: a disk would be synced hundreds of times. */
static int begin(void **state)
{
    int rc = setup(state);

    at = calls = 0;
    fails_with = 0;
    moved = early = false;
    over = 0;
    rmdir(dir);
    dlr_format(dir, sizeof(dir), "/dev/shm/dlr-test-over-XXXXXX");
    return rc == 0 && mkdtemp(dir) ? 0 : -1;
}

static void save_many(struct dlr_ckpt *ck, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step <= to; step++)
        save(ck, "a", 0, step);
}

static ino_t inode_of(uint64_t step)
{
    char path[128];
    struct stat st;

    dlr_format(path, sizeof(path), "%s/r0-%d.safetensors", dir, (int)step);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* --- the same blocks again -------------------------------------------------------- */

static void a_file_that_goes_is_written_over_by_the_next(void **state)
{
    struct dlr_ckpt *ck = open_as("a", 0, 1);

    save_many(ck, 1, SAVES);
    assert_int_equal(over, SAVES - 3);
    assert_false(early);
    assert_int_equal(count("r0-"), 3); /* two versions, and room for a third */
    dlr_ckpt_close(ck);
    assert_int_equal(count("r0-"), 2);
    assert_restores("a", 1, SAVES);
}

/* A longer state after a shorter one, and the other way round. */
static void files_of_another_length_end_where_they_end(void **state)
{
    static const unsigned items[][2] = {{N, N / 2}, {N / 3, N}, {N, 7}, {N, 102400}};

    for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
        struct dlr_ckpt_region one = {.name = "a",
                                      .dtype = "u32",
                                      .item_size = 4,
                                      .ndim = 1,
                                      .global_shape = {items[i][0]},
                                      .local_shape = {items[i][0]},
                                      .addr = data};
        const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 1};
        struct dlr_slot_info info;
        struct dlr_ckpt *ck = NULL;
        int dirfd = open(dir, O_RDONLY | O_DIRECTORY);

        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        assert_int_equal(dlr_ckpt_add(ck, &one), 0);
        save_many(ck, 1, SAVES);
        one.local_shape[0] = one.global_shape[0] = items[i][1];
        assert_int_equal(dlr_ckpt_clear(ck), 0);
        assert_int_equal(dlr_ckpt_add(ck, &one), 0);
        for (uint64_t step = SAVES + 1; step <= 2 * SAVES; step++) {
            save(ck, "a", 0, step);
            assert_int_equal(dlr_standalone_check(dirfd, 0, step, NULL, &info, NULL),
                             0);
            assert_int_equal(info.data_bytes, 4ull * items[i][1]);
        }
        dlr_ckpt_close(ck);
        close(dirfd);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

/* --- who still needs it ----------------------------------------------------------- */

enum need { OPEN, MAPPED, LINKED, NEEDS };

/* Takes hold of the oldest file that is there. */
static void *take(enum need need, int *ret_fd, size_t *ret_bytes)
{
    char path[128], other[128];
    struct stat st;
    void *p = NULL;

    dlr_format(path, sizeof(path), "%s/r0-1.safetensors", dir);
    dlr_format(other, sizeof(other), "%s/mine", dir);
    *ret_fd = open(path, O_RDONLY);
    assert_int_equal(fstat(*ret_fd, &st), 0);
    *ret_bytes = (size_t)st.st_size;
    if (need == LINKED)
        assert_int_equal(link(path, other), 0);
    if (need == MAPPED) {
        p = mmap(NULL, *ret_bytes, PROT_READ, MAP_SHARED, *ret_fd, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
    }
    if (need != OPEN) {
        close(*ret_fd);
        *ret_fd = -1;
    }
    return p;
}

static uint32_t sum_of(enum need need, int fd, void *mapped, size_t bytes)
{
    char *copy = malloc(bytes), path[128];
    uint32_t sum;

    dlr_format(path, sizeof(path), "%s/mine", dir);
    if (need == LINKED)
        fd = open(path, O_RDONLY);
    if (need == MAPPED)
        memcpy(copy, mapped, bytes);
    else
        assert_int_equal(pread(fd, copy, bytes, 0), bytes);
    sum = dlr_crc32c(0, copy, bytes);
    if (need == LINKED)
        close(fd);
    free(copy);
    return sum;
}

static void who_has_a_file_keeps_it_as_it_is(void **state)
{
    for (enum need need = OPEN; need < NEEDS; need++) {
        struct dlr_ckpt *ck = open_as("a", 0, 1);
        uint32_t before;
        size_t bytes;
        void *mapped;
        int fd;

        save(ck, "a", 0, 1);
        mapped = take(need, &fd, &bytes);
        before = sum_of(need, fd, mapped, bytes);
        over = 0;
        save_many(ck, 2, SAVES + 4);
        assert_int_equal(over, SAVES); /* all but the one that somebody has */
        assert_int_equal(sum_of(need, fd, mapped, bytes), before);
        dlr_ckpt_close(ck);
        assert_restores("a", 1, SAVES + 4);
        if (mapped)
            munmap(mapped, bytes);
        if (fd >= 0)
            close(fd);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void what_was_set_aside_is_never_written_over(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step;
    ino_t bad;

    run("a", 1, 1, 2);
    bad = inode_of(2);
    flip_bit(dir, "r0-2.safetensors", 1500000);
    ck = open_as("a", 0, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    for (step = 2; step <= SAVES + 2; step++) {
        save(ck, "a", 0, step);
        assert_int_not_equal(inode_of(step), bad);
    }
    dlr_ckpt_close(ck);
    assert_true(there("r0-2.safetensors.aside-1"));
}

/* --- an end, and a failure, at every call ----------------------------------------- */

/* Each version that a list shows is whole; their number. */
static int assert_whole(void)
{
    struct dlr_ckpt *ck = open_as("a", 0, 1);
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    struct dlr_ckpt_version v[8];
    struct dlr_slot_info info;
    int n = dlr_ckpt_list(ck, v, 8);

    for (int i = 0; i < n; i++)
        assert_int_equal(dlr_standalone_check(dirfd, 0, v[i].step, NULL, &info, NULL),
                         0);
    dlr_ckpt_close(ck);
    close(dirfd);
    return n;
}

static void an_end_at_any_call_costs_no_version_that_was_whole(void **state)
{
    int status = 0, ends = 0;

    for (int n = 1; status == 0 || WEXITSTATUS(status) == CRASHED; n++) {
        uint64_t step = 0;
        char why[256];
        int told[2];
        char done = 0, c;
        pid_t pid;

        run("a", 1, 1, 3);
        assert_int_equal(pipe(told), 0);
        pid = fork();
        if (pid == 0) {
            struct dlr_ckpt *ck = open_as("a", 0, 1);

            assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
            at = n;
            for (c = 4; c <= 3 + MORE; c++) {
                save(ck, "a", 0, (uint64_t)c);
                if (write(told[1], &c, 1) != 1)
                    _exit(1);
            }
            dlr_ckpt_close(ck);
            _exit(at > calls ? 2 : 1);
        }
        close(told[1]);
        while (read(told[0], &c, 1) == 1)
            done = c;
        close(told[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_not_equal(WEXITSTATUS(status), 1);
        ends++;
        assert_true(assert_whole() >= 2);
        assert_int_equal(restore("a", 0, 1, &step, why), 1);
        assert_true(step >= (uint64_t)done);
        run("a", 1, step + 1, step + 1); /* what was half-written goes */
        assert_int_equal(count(".r0-"), 0);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    assert_true(ends > 30);
}

static void a_failure_of_any_call_costs_no_version_that_was_whole(void **state)
{
    static const int codes[] = {ENOSPC, EIO, EDQUOT};
    bool beyond = false;

    for (int n = 1; !beyond; n++) {
        struct dlr_ckpt *ck;
        uint64_t step;

        run("a", 1, 1, 3);
        ck = open_as("a", 0, 1);
        assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
        fails_with = codes[n % 3];
        calls = 0;
        at = n;
        for (step = 4; step <= 3 + MORE; step++) {
            fill("a", 0, step);
            dlr_ckpt_begin(ck, step, NULL);
            dlr_ckpt_flush(ck);
        }
        beyond = calls < at;
        at = 0;
        save(ck, "a", 0, step);
        dlr_ckpt_close(ck);
        assert_true(assert_whole() >= 2);
        assert_restores("a", 1, step);
        assert_int_equal(count(".r0-"), 0);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(a_file_that_goes_is_written_over_by_the_next),
        T(files_of_another_length_end_where_they_end),
        T(who_has_a_file_keeps_it_as_it_is),
        T(what_was_set_aside_is_never_written_over),
        T(an_end_at_any_call_costs_no_version_that_was_whole),
        T(a_failure_of_any_call_costs_no_version_that_was_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
