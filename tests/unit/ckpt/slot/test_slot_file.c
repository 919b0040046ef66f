/* SPDX-License-Identifier: Apache-2.0 */
/* The files of slots: made, found again, grown, and never a signal when there is no
 * room.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"

static void files_are_created_adopted_and_grown(void **state)
{
    char dir[] = "/dev/shm/dlr-test-slot-XXXXXX";
    struct dlr_slot *slot;
    mode_t before = umask(0);
    struct stat st;
    int dirfd;

    assert_non_null(mkdtemp(dir));
    dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(dlr_slot_create(dirfd, "r0.s0", 1 << 20, &slot, NULL), 0);
    umask(before);
    assert_int_equal(fstatat(dirfd, "r0.s0", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_FREE);
    ((char *)dlr_slot_base(slot))[5000] = 'x';
    dlr_slot_set_state(slot, DLR_SLOT_SEALED);
    dlr_slot_unmap(slot);

    assert_int_equal(dlr_slot_create(dirfd, "r0.s0", 8192, &slot, NULL), 0);
    assert_int_equal(dlr_slot_bytes(slot), 1 << 20);
    dlr_slot_unmap(slot);

    assert_int_equal(dlr_slot_create(dirfd, "r0.s0", 2 << 20, &slot, NULL), 0);
    assert_int_equal(dlr_slot_bytes(slot), 2 << 20);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_SEALED);
    assert_int_equal(((char *)dlr_slot_base(slot))[5000], 'x');
    dlr_slot_unmap(slot);
    unlinkat(dirfd, "r0.s0", 0);

    /* a file of the test's: without the check it would be written over */
    close(openat(dirfd, "other", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(symlinkat("other", dirfd, "r1.s0"), 0);
    assert_int_equal(dlr_slot_create(dirfd, "r1.s0", 8192, &slot, NULL), -ELOOP);
    assert_int_equal(fstatat(dirfd, "other", &st, 0), 0);
    assert_int_equal(st.st_size, 0);
    unlinkat(dirfd, "r1.s0", 0);
    unlinkat(dirfd, "other", 0);
    assert_int_equal(dlr_slot_create(dirfd, "r1.s0", UINT64_C(1) << 45, &slot, NULL),
                     -ENOSPC);
    assert_int_equal(faccessat(dirfd, "r1.s0", F_OK, 0), -1);
    close(dirfd);
    assert_int_equal(rmdir(dir), 0);
}

static bool fill_up(int dir)
{
    static const char junk[4096] = {1};
    int fd = openat(dir, "junk", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    while (write(fd, junk, sizeof(junk)) > 0)
        ;
    return fd >= 0 && errno == ENOSPC;
}

/* In a tmpfs of 1 MiB: which step went wrong, 0 for none, SKIPPED where it cannot be
 * mounted. A write to a page that nobody reserved would be a SIGBUS.
 */
#define SKIPPED 77
static int in_small_tmpfs(const char *path)
{
    enum { LARGE = 2 << 20, SMALL = 512 << 10 };
    struct dlr_slot *slot, *other;
    int dir;

    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("small", path, "tmpfs", 0, "size=1m") < 0)
        return SKIPPED;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dlr_slot_create(dir, "a", LARGE, &slot, NULL) != -ENOSPC)
        return 1;
    if (faccessat(dir, "a", F_OK, 0) == 0)
        return 2;
    if (dlr_slot_create(dir, "a", SMALL, &slot, NULL) != 0)
        return 3;
    if (!fill_up(dir))
        return 4;
    memset((char *)dlr_slot_base(slot) + DLR_SLOT_PAGE, 7, SMALL - DLR_SLOT_PAGE);
    if (dlr_slot_create(dir, "b", SMALL, &other, NULL) != -ENOSPC)
        return 5;
    if (dlr_slot_create(dir, "a", LARGE, &other, NULL) != -ENOSPC) /* to grow it */
        return 6;
    memset((char *)dlr_slot_base(slot) + DLR_SLOT_PAGE, 8, SMALL - DLR_SLOT_PAGE);
    return 0;
}

/* KiB of shared memory that this process has mapped in huge pages. */
static unsigned long huge_kib(void)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    unsigned long all = 0, kib;
    char line[512];

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
            all += kib;
    if (f)
        fclose(f);
    return all;
}

/* In a tmpfs that has huge pages for what lies within a file's end, as a job's own has.
 */
static int in_huge_tmpfs(const char *path)
{
    enum { BYTES = 8 << 20 };
    struct dlr_slot *slot;
    int dir, plain;
    char *at;

    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("huge", path, "tmpfs", 0, "size=64m,huge=within_size") < 0)
        return SKIPPED;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    plain = openat(dir, "plain", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (plain < 0 || ftruncate(plain, BYTES) < 0)
        return 1;
    at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, plain, 0);
    if (at == MAP_FAILED)
        return 2;
    memset(at, 1, BYTES);
    if (huge_kib() == 0)
        return SKIPPED; /* this machine has none, or none to spare */
    munmap(at, BYTES);
    unlinkat(dir, "plain", 0);
    if (dlr_slot_create(dir, "a", BYTES, &slot, NULL) != 0)
        return 3;
    return huge_kib() > 0 ? 0 : 4;
}

/* fn's word about a new directory, in a process of its own. */
static void in_a_child(int (*fn)(const char *path))
{
    char path[] = "/tmp/dlr-test-small-XXXXXX";
    int status;
    pid_t pid;

    assert_non_null(mkdtemp(path));
    pid = fork();
    if (pid == 0)
        _exit(fn(path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(path), 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void memory_that_fills_up_is_an_error_and_never_a_signal(void **state)
{
    in_a_child(in_small_tmpfs);
}

static void a_slot_has_huge_pages_where_there_are_some(void **state)
{
    in_a_child(in_huge_tmpfs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_created_adopted_and_grown),
        cmocka_unit_test(memory_that_fills_up_is_an_error_and_never_a_signal),
        cmocka_unit_test(a_slot_has_huge_pages_where_there_are_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
