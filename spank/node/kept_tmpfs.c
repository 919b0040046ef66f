/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/node/kept_tmpfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "spank/node/cleanup.h"

#define KEPT ".kept"
#define CLEAR_MS 1000 /* a job's step for the memory of former ones to be free */

/* What is kept, as the mark says it. */
struct kept {
    struct dlr_jobmem job;
    int64_t since_ms;
};

static int mark_name(const struct dlr_jobmem *job, char *buf, size_t size)
{
    return dlr_format(buf, size, "%u-%u" KEPT, (unsigned)job->uid, job->job);
}

/* Nothing is kept of the job any more. */
static void forget(int root, const char *own)
{
    char name[NAME_MAX];

    if (dlr_format(name, sizeof(name), "%s" KEPT, own) == 0)
        unlinkat(root, name, 0);
}

int dlr_jobkeep_begin(int root, const char *own, bool keep)
{
    char path[NAME_MAX];
    DLR_AUTO_CLOSE int fd = -1;

    forget(root, own);
    if (dlr_format(path, sizeof(path), "%s/" DLR_MEMORY_KEEP, own) < 0)
        return -ENAMETOOLONG;
    if (!keep)
        return unlinkat(root, path, 0) == 0 || errno == ENOENT ? 0 : -errno;
    fd = openat(root, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

/* -ENOENT: nothing is kept under this name. */
static int read_mark(int root, const char *name, struct kept *ret)
{
    DLR_AUTO_CLOSE int fd = openat(root, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[64] = "", rest[16];
    unsigned uid, gid;

    if (fd < 0)
        return -errno;
    memset(ret, 0, sizeof(*ret));
    if (read(fd, text, sizeof(text) - 1) <= 0 ||
        sscanf(text, "%" SCNd64 " %u", &ret->since_ms, &gid) != 2 ||
        sscanf(name, "%u-%" SCNu32 "%15s", &uid, &ret->job.job, rest) != 3 ||
        !dlr_streq(rest, KEPT))
        return -ENOENT;
    ret->job.uid = uid;
    ret->job.gid = gid;
    return 0;
}

static int write_mark(int root, const struct kept *kept)
{
    char name[NAME_MAX], text[64];
    DLR_AUTO_CLOSE int fd = -1;

    mark_name(&kept->job, name, sizeof(name));
    dlr_format(text, sizeof(text), "%" PRId64 " %u\n", kept->since_ms,
               (unsigned)kept->job.gid);
    fd =
        openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : dlr_write_all(fd, text, strlen(text));
}

/* *ret_tree: its tmpfs, which has no place any more; -1 when it is not kept, or there
 * is none.
 */
static int detach(const struct dlr_jobmem *job, int64_t since_ms, int *ret_tree,
                  struct dlr_err *err)
{
    DLR_AUTO_CLOSE int root = -1;
    DLR_AUTO_CLOSE int lock = -1;
    char name[NAME_MAX];
    struct kept kept;
    int rc = dlr_jobmem_lock(&lock, &root, err);

    if (rc < 0)
        return rc;
    mark_name(job, name, sizeof(name));
    if (read_mark(root, name, &kept) < 0 || kept.since_ms != since_ms)
        return 0;
    rc = dlr_jobmem_detach(&kept.job, ret_tree, err);
    if (rc == 0)
        unlinkat(root, name, 0);
    return rc;
}

int dlr_jobkeep_free(const struct dlr_jobmem *job, int64_t since_ms,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSE int tree = -1;
    int rc = detach(job, since_ms, &tree, err);

    if (tree >= 0) /* no lock is held: the user may hold this up */
        dlr_jobmem_empty(job, tree, DLR_NODE_CLEANUP_LIMIT_MS);
    return rc;
}

/* --- its time --------------------------------------------------------------------- */

static void say_nothing(void *arg, enum dlr_log_level level, const char *text)
{
}

/* Goes on in a process of its own, which nobody waits for, with two descriptors above
 * stderr and no others.
 */
static void leave(int a, int b)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    int null;

    setsid(); /* slurmd ends the epilog's process group */
    if (fork() != 0)
        _exit(0);
    prctl(PR_SET_NAME, "dlrover-kept");
    dlr_log_to(say_nothing, NULL, DLR_LOG_ERROR);
    close_range(0, STDERR_FILENO, 0);
    close_range(STDERR_FILENO + 1, low - 1, 0);
    close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0U, 0);
    null = open("/dev/null", O_RDWR);
    for (int fd = 1; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
}

static void await(pid_t pid)
{
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The epilog must end, and there is no daemon of ours on an idle node. Killed, it
 * leaves the memory to the next job's first step.
 */
static void outlast(const struct kept *kept, int64_t keep_ms)
{
    struct dlr_err err;

    leave(STDERR_FILENO + 1, STDERR_FILENO + 1);
    close(STDERR_FILENO + 1);
    for (int64_t left; (left = kept->since_ms + keep_ms - dlr_now_ms()) > 0;)
        poll(NULL, 0, left > INT_MAX ? INT_MAX : (int)left);
    dlr_jobkeep_free(&kept->job, kept->since_ms, &err);
    _exit(0);
}

static void watch(const struct kept *kept, int64_t keep_ms)
{
    pid_t pid = fork();

    if (pid == 0)
        outlast(kept, keep_ms);
    await(pid);
}

bool dlr_jobkeep_end(const struct dlr_jobmem *job, int64_t keep_ms)
{
    struct kept kept = {.job = *job, .since_ms = dlr_now_ms()};
    char name[DLR_MEMORY_NAME], path[PATH_MAX];
    DLR_AUTO_CLOSE int root = -1;
    DLR_AUTO_CLOSE int lock = -1;
    struct dlr_err err;
    struct statfs fs;

    dlr_jobmem_names(job, name);
    if (dlr_jobmem_lock(&lock, &root, &err) < 0 ||
        dlr_memory_own(name, path, sizeof(path)) < 0 || statfs(path, &fs) < 0 ||
        fs.f_bfree >= fs.f_blocks || write_mark(root, &kept) < 0)
        return false;
    dlr_cleanup_close(&lock); /* the child must not hold it */
    lock = -1;
    watch(&kept, keep_ms);
    return true;
}

/* --- another job ------------------------------------------------------------------ */

/* The user whose it is can stop the process that does so. end is closed when it is
 * done.
 */
static void empty_apart(const struct dlr_jobmem *job, int tree, int end)
{
    pid_t pid = fork();

    if (pid == 0) {
        leave(tree, end);
        dlr_jobmem_empty(job, tree, DLR_NODE_CLEANUP_LIMIT_MS);
        _exit(0);
    }
    await(pid);
}

/* A descriptor that is none of the standard ones; fd is closed. */
static int lift(int fd)
{
    int above = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (fd >= 0)
        close(fd);
    return above;
}

void dlr_jobkeep_clear(uint32_t job)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir(DLR_MEMORY_OWN);
    DLR_AUTO_CLOSE int done = -1, end = -1;
    struct dirent *entry;
    struct pollfd all;
    int pair[2];

    if (!dir || pipe2(pair, O_CLOEXEC) < 0)
        return;
    done = pair[0];
    end = lift(pair[1]);
    while ((entry = readdir(dir))) {
        DLR_AUTO_CLOSE int tree = -1;
        struct dlr_err err = {0};
        struct kept kept;

        if (!strstr(entry->d_name, KEPT) ||
            read_mark(dirfd(dir), entry->d_name, &kept) < 0 || kept.job.job == job)
            continue;
        if (detach(&kept.job, kept.since_ms, &tree, &err) < 0)
            dlr_error("%s", err.text);
        tree = lift(tree);
        if (tree >= 0 && end >= 0)
            empty_apart(&kept.job, tree, end);
    }
    dlr_cleanup_close(&end);
    end = -1;
    all = (struct pollfd){.fd = done};
    poll(&all, 1, CLEAR_MS); /* what takes longer goes on beside the job */
}
