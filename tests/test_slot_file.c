/* SPDX-License-Identifier: Apache-2.0 */
/* The files of slots: made, found again, grown, and never a signal when there is no room. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot_meta.h"

static void files_are_created_adopted_and_grown(void **state)
{
    char dir[] = "/dev/shm/dlr-test-slot-XXXXXX";
    struct dlr_slot *slot;
    int dirfd;

    assert_non_null(mkdtemp(dir));
    dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(dlr_slot_create(dirfd, "r0.s0", 1 << 20, &slot, NULL), 0);
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

    assert_int_equal(symlinkat("/etc/passwd", dirfd, "r1.s0"), 0);
    assert_int_equal(dlr_slot_create(dirfd, "r1.s0", 8192, &slot, NULL), -ELOOP);
    unlinkat(dirfd, "r1.s0", 0);
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

/* In a tmpfs of 1 MiB: which step went wrong, 0 for none, SKIPPED where it cannot be mounted. A write
 * to a page that nobody reserved would be a SIGBUS. */
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

static void memory_that_fills_up_is_an_error_and_never_a_signal(void **state)
{
    char path[] = "/tmp/dlr-test-small-XXXXXX";
    int status;
    pid_t pid;

    assert_non_null(mkdtemp(path));
    pid = fork();
    if (pid == 0)
        _exit(in_small_tmpfs(path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(path), 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_created_adopted_and_grown),
        cmocka_unit_test(memory_that_fills_up_is_an_error_and_never_a_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
