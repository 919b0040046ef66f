/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/manifest wrap=write,fsync,renameat,unlinkat */
/* A new version over an old one, cut short at every system call, and with every one
 * failing: what is found afterwards is the old version or the new one, with all their
 * files. So it is by another process that reads meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

#define RANKS 5 /* the first two in one file, each other in a file of another kind */
#define CRASHED 77

static int at, count; /* the call that is cut short; 0 none */
static bool failing;  /* it fails instead */
static char dir[64];
static char trace
    [32]; /* of what is removed the first letter, 's' for a sync of the directory */

static void note(char what)
{
    size_t n = strlen(trace);

    if (n + 1 < sizeof(trace))
        trace[n] = what;
}

/* Another process that looks for the newest version before the call first, and opens
 * its files before the call then.
 */
static struct {
    int first, then, count; /* first 0: there is none */
    struct dlr_plan_file *files;
    unsigned n, gone;
    uint64_t step;
} reader;
static void read_on(void);

/* True: the call fails. */
static bool here(void)
{
    read_on();
    if (at == 0 || ++count != at)
        return false;
    if (!failing)
        _exit(CRASHED);
    errno = ENOSPC;
    return true;
}

ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
    if (at && count + 1 == at && n > 1)
        __real_write(fd, buf, n / 2); /* a part had reached the file */
    return here() ? -1 : __real_write(fd, buf, n);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    note('s');
    return here() ? -1 : __real_fsync(fd);
}

int __real_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int fd, const char *from, int to_fd, const char *to)
{
    return here() ? -1 : __real_renameat(fd, from, to_fd, to);
}

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags)
{
    note(dlr_after(name, "manifest") ? 'M' : name[0]);
    return here() ? -1 : __real_unlinkat(fd, name, flags);
}

static void describe(uint64_t step, struct dlr_plan_file files[RANKS])
{
    const struct dlr_persist_write w = {{0, step}, (uint32_t)step};

    memset(files, 0, RANKS * sizeof(*files));
    for (int32_t r = 0; r < RANKS; r++) {
        files[r].copy = (struct dlr_plan_copy){
            .rank = r, .world = RANKS, .version = {0, step}, .bytes = 4096};
        dlr_persist_path(dir, DLR_PERSIST_KINDS[r < 2 ? 0 : r - 1], 0, &w,
                         files[r].path, sizeof(files[r].path));
    }
}

static int save_keeping(uint64_t step, unsigned keep)
{
    struct dlr_plan_file files[RANKS];

    describe(step, files);
    for (int32_t r = 0; r < RANKS; r++) {
        int fd = open(files[r].path, O_WRONLY | O_CREAT, 0600);

        __real_write(fd, &step, sizeof(step));
        close(fd);
    }
    return dlr_persist_save(dir, files, RANKS, keep, NULL);
}

static int save(uint64_t step)
{
    return save_keeping(step, 1);
}

static int rm(uint64_t step)
{
    struct dlr_plan_file files[RANKS];

    describe(step, files);
    return dlr_persist_remove(dir, files, RANKS, true, NULL, NULL, NULL);
}

/* Whatever is there is whole; returns the newest version's step. */
static uint64_t found(void)
{
    DLR_AUTO_FREE struct dlr_plan_file *got = NULL;
    struct dlr_err err;
    unsigned n = 0;

    assert_int_equal(dlr_persist_load(dir, &got, &n, &err), 0);
    assert_string_equal(err.text, "");
    assert_true(n >= RANKS);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(access(got[i].path, F_OK), 0);
    return got[0].copy.version.step;
}

static void reader_loads(void)
{
    struct dlr_err err;

    free(reader.files);
    assert_int_equal(dlr_persist_load(dir, &reader.files, &reader.n, &err), 0);
    reader.step = reader.files[0].copy.version.step;
}

/* All of the newest version's files, each with that version's bytes; or some are gone.
 */
static bool reader_opens(void)
{
    for (unsigned i = 0; i < RANKS; i++) {
        DLR_AUTO_CLOSE int fd = open(reader.files[i].path, O_RDONLY | O_CLOEXEC);
        uint64_t step = 0;

        if (fd < 0)
            return false;
        assert_int_equal(read(fd, &step, sizeof(step)), sizeof(step));
        assert_int_equal(step, reader.step);
    }
    return true;
}

static void read_on(void)
{
    uint64_t was;

    if (!reader.first)
        return;
    if (++reader.count == reader.first)
        reader_loads();
    if (reader.count != reader.then)
        return;
    was = reader.step;
    if (reader_opens())
        return;
    reader.gone++;
    reader_loads(); /* a newer one is there, then */
    assert_true(reader.step > was);
    assert_true(reader_opens());
}

static void remove_dir(void)
{
    char cmd[128];

    dlr_format(cmd, sizeof(cmd), "rm -r '%s'", dir);
    assert_int_equal(system(cmd), 0);
}

static void begin(void)
{
    at = 0;
    dlr_format(dir, sizeof(dir), "/tmp/dlr-crash-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(save(100), 0);
}

/* One call after the other until one is beyond the last. */
static void a_crash_leaves_old_or_new(void **state)
{
    bool seen_old = false, over = false;

    for (int n = 1; !over; n++) {
        int status;
        pid_t pid;

        begin();
        pid = fork();
        if (pid == 0) {
            at = n;
            count = 0;
            _exit(save(200) < 0 ? 1 : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        over = WEXITSTATUS(status) == 0;
        assert_true(over || WEXITSTATUS(status) == CRASHED);
        if (found() == 100)
            seen_old = true;
        else
            assert_int_equal(found(), 200);
        if (over) {
            assert_int_equal(found(), 200);
            assert_true(n > 5); /* the calls were wrapped at all */
        }
        remove_dir();
    }
    assert_true(seen_old);
}

static void a_failing_call_leaves_old_or_new(void **state)
{
    failing = true;
    for (int n = 1;; n++) {
        int rc;

        begin();
        at = n;
        count = 0;
        rc = save(200);
        at = 0;
        if (rc == 0)
            assert_int_equal(found(), 200);
        else
            found();
        remove_dir();
        if (count < n)
            break;
    }
    failing = false;
}

/* With each call failing, too: whatever has a manifest has its files. */
static void an_rm_cut_short_leaves_whole_versions(void **state)
{
    for (int n = 1, code = CRASHED; code != 0; n++) {
        int status;
        pid_t pid;

        for (int fails = 0; fails < 2; fails++) {
            begin();
            assert_int_equal(save_keeping(200, 2), 0);
            pid = fork();
            if (pid == 0) {
                failing = fails;
                at = n;
                count = 0;
                _exit(rm(200) < 0 ? 1 : 0);
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            code = WEXITSTATUS(status);
            assert_true(WIFEXITED(status) &&
                        (code == 0 || code == (fails ? 1 : CRASHED)));
            assert_int_equal(found(), n == 1 ? 200 : 100);
            remove_dir();
        }
        assert_true(code != 0 || n > 5);
    }
}

static void a_reader_at_any_moment_finds_one_version_whole(void **state)
{
    unsigned tried = 0;
    int calls = 1;

    for (int first = 1; first <= calls; first++)
        for (int then = first; then <= calls; then++) {
            begin();
            reader.first = first;
            reader.then = then;
            reader.count = 0;
            assert_int_equal(save(200), 0);
            calls = reader.count + 1;
            read_on(); /* the last moment is after it */
            reader.first = 0;
            remove_dir();
            tried++;
        }
    free(reader.files);
    reader.files = NULL;
    assert_true(tried > 20);
    assert_true(reader.gone > 0);
}

/* A disk may keep what comes before a sync later than what comes after it, and not the
 * other way round.
 */
static void the_directory_is_synced_between_manifest_and_files(void **state)
{
    begin();
    assert_int_equal(save_keeping(200, 2), 0);
    memset(trace, 0, sizeof(trace));
    assert_int_equal(rm(200), 0);
    assert_string_equal(trace, "Msnnmprs"); /* two ranks are in one file */
    assert_int_equal(found(), 100);
    remove_dir();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_leaves_old_or_new),
        cmocka_unit_test(a_failing_call_leaves_old_or_new),
        cmocka_unit_test(an_rm_cut_short_leaves_whole_versions),
        cmocka_unit_test(a_reader_at_any_moment_finds_one_version_whole),
        cmocka_unit_test(the_directory_is_synced_between_manifest_and_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
