/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/node/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"

/* Opens a directory of owner; a link, a mount or somebody else's directory is refused.
 */
static int open_dir(int parent, const char *name, uid_t owner, int *ret_fd)
{
    DLR_AUTO_CLOSE int fd = dlr_memory_step(parent, name, O_RDONLY | O_DIRECTORY);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != owner)
        return -EPERM;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

static int empty_dir(int fd, uid_t owner, unsigned depth);

static int remove_entry(int dir, const char *name, uid_t owner, unsigned depth)
{
    DLR_AUTO_CLOSE int sub = -1;
    int rc;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (depth == 0)
        return -ELOOP;
    rc = open_dir(dir, name, owner, &sub);
    if (rc == 0)
        rc = empty_dir(dlr_steal_fd(&sub), owner, depth - 1);
    if (rc == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
        rc = -errno;
    return rc;
}

/* Removes what is in a directory and closes it; goes on after a failure and returns it.
 */
static int empty_dir(int fd, uid_t owner, unsigned depth)
{
    DLR_AUTO_CLOSEDIR DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int worst = 0;

    if (!dir) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    while ((entry = readdir(dir))) {
        int rc;

        if (dlr_streq(entry->d_name, ".") || dlr_streq(entry->d_name, ".."))
            continue;
        rc = remove_entry(dirfd(dir), entry->d_name, owner, depth);
        if (rc < 0)
            worst = rc;
    }
    return worst;
}

int dlr_node_cleanup_tree(int top, const char *name, uid_t owner)
{
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    rc = open_dir(top, name, owner, &fd);
    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = empty_dir(dlr_steal_fd(&fd), owner, DLR_NODE_CLEANUP_DEPTH);
    if (rc == 0 && unlinkat(top, name, AT_REMOVEDIR) < 0)
        rc = -errno;
    return rc;
}

/* Calls fn for each name in top that may be the job's; the worst of what it returns. On
 * some kernels (6.6 to 6.10) who renames files in a tmpfs makes readdir(3) go on for
 * ever: -E2BIG.
 */
static int for_each(int top, const char *name, uid_t owner,
                    int (*fn)(int top, const char *name, uid_t owner))
{
    int fd = fcntl(top, F_DUPFD_CLOEXEC, 0);
    DLR_AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry = NULL;
    unsigned n = 0;
    int worst = 0;

    if (!dir)
        return -errno;
    rewinddir(dir);
    while (n++ < DLR_MEMORY_NAMES && (entry = readdir(dir))) {
        int rc = dlr_memory_is(entry->d_name, name) ? fn(top, entry->d_name, owner) : 0;

        if (rc < 0)
            worst = rc;
    }
    return entry && worst == 0 ? -E2BIG : worst;
}

static int is_there(int top, const char *name, uid_t owner)
{
    return -EEXIST;
}

/* The child's exit status is an errno, 0 when all went well. */
static void run_child(int top, const char *name, uid_t uid, gid_t gid)
{
    if (geteuid() == 0 &&
        (setgroups(1, &gid) < 0 || setgid(gid) < 0 || setuid(uid) < 0))
        _exit(errno);
    _exit(-for_each(top, name, uid, dlr_node_cleanup_tree));
}

/* Whether the child's end of the pipe is closed in time, which the kernel does at its
 * end.
 */
static bool has_ended(int fd, int64_t limit_ms)
{
    int64_t deadline = dlr_now_ms() + limit_ms;
    struct pollfd pfd = {.fd = fd};
    int rc;

    do {
        int64_t left = deadline - dlr_now_ms();

        rc = poll(&pfd, 1, left > 0 ? (int)left : 0);
    } while (rc < 0 && errno == EINTR);
    return rc > 0;
}

/* A child that is late is killed. One that the kernel does not let go, for a file
 * system that does not answer, is init's.
 */
static int await(pid_t pid, int fd, int64_t limit_ms)
{
    bool in_time = has_ended(fd, limit_ms);
    int status = 0;

    if (!in_time) {
        kill(pid, SIGKILL);
        if (!has_ended(fd, DLR_NODE_CLEANUP_KILL_MS))
            return -ETIMEDOUT;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (!in_time)
        return -ETIMEDOUT;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

int dlr_node_cleanup_job(const char *root, uid_t uid, gid_t gid, uint32_t job,
                         int64_t limit_ms, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSE int fd = -1, child_fd = -1;
    char name[DLR_MEMORY_NAME];
    int pair[2], rc;
    pid_t pid;

    if (top < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", root, strerror(errno));
    dlr_format(name, sizeof(name), "dlrover-%u-%u", (unsigned)uid, job);
    if (for_each(top, name, uid, is_there) == 0)
        return 0;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
    fd = pair[0];
    child_fd = pair[1];
    pid = fork();
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        run_child(top, name, uid, gid);
    close(dlr_steal_fd(&child_fd));
    rc = await(pid, fd, limit_ms);
    if (rc == -EPERM)
        return dlr_fail(err, rc,
                        "'%s/%s' is not of uid %u: somebody has taken the name", root,
                        name, (unsigned)uid);
    if (rc == -EXDEV)
        return dlr_fail(err, rc,
                        "'%s/%s' is not removed: the user has mounted something in it",
                        root, name);
    if (rc == -E2BIG)
        return dlr_fail(
            err, rc, "'%s/%s' is not looked for any further: '%s' has too many names",
            root, name, root);
    return rc < 0 ? dlr_fail(err, rc, "cannot remove '%s/%s': %s", root, name,
                             strerror(-rc))
                  : 0;
}
