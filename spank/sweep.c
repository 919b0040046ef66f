/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/sweep.h"

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

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/memory.h"
#include "common/str.h"

/* Opens a directory of owner; a link or somebody else's directory is refused. */
static int open_dir(int parent, const char *name, uid_t owner, int *ret_fd)
{
    DLR_AUTO_CLOSE int fd =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
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

/* Removes what is in a directory and closes it; goes on after a failure and returns it. */
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

int dlr_sweep_tree(const char *root, const char *name, uid_t owner)
{
    DLR_AUTO_CLOSE int top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (top < 0)
        return -errno;
    rc = open_dir(top, name, owner, &fd);
    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = empty_dir(dlr_steal_fd(&fd), owner, DLR_SWEEP_DEPTH);
    if (rc == 0 && unlinkat(top, name, AT_REMOVEDIR) < 0)
        rc = -errno;
    return rc;
}

/* Calls fn for each name below root that may be the job's; the worst of what it returns. */
static int for_each(const char *root, const char *name, uid_t owner,
                    int (*fn)(const char *root, const char *name, uid_t owner))
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir(root);
    struct dirent *entry;
    int worst = 0;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        int rc =
            dlr_memory_is(entry->d_name, name) ? fn(root, entry->d_name, owner) : 0;

        if (rc < 0)
            worst = rc;
    }
    return worst;
}

static int is_there(const char *root, const char *name, uid_t owner)
{
    return -EEXIST;
}

/* The child's exit status is an errno, 0 when all went well. */
static void run_child(const char *root, const char *name, uid_t uid, gid_t gid)
{
    if (geteuid() == 0 &&
        (setgroups(1, &gid) < 0 || setgid(gid) < 0 || setuid(uid) < 0))
        _exit(errno);
    _exit(-for_each(root, name, uid, dlr_sweep_tree));
}

/* Waits for the child's end of the pipe to be closed, which the kernel does at its end, then
 * reaps it; it is killed first when it is late.
 */
static int await(pid_t pid, int fd, int64_t limit_ms)
{
    int64_t deadline = dlr_now_ms() + limit_ms;
    struct pollfd pfd = {.fd = fd};
    int status = 0, rc;

    do {
        int64_t left = deadline - dlr_now_ms();

        rc = poll(&pfd, 1, left > 0 ? (int)left : 0);
    } while (rc < 0 && errno == EINTR);
    if (rc <= 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (rc <= 0)
        return -ETIMEDOUT;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

int dlr_sweep_job(const char *root, uid_t uid, gid_t gid, uint32_t job,
                  int64_t limit_ms, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1, child_fd = -1;
    char name[DLR_MEMORY_NAME];
    int pair[2], rc;
    pid_t pid;

    dlr_format(name, sizeof(name), "dlrover-%u-%u", (unsigned)uid, job);
    if (for_each(root, name, uid, is_there) == 0)
        return 0;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
    fd = pair[0];
    child_fd = pair[1];
    pid = fork();
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        run_child(root, name, uid, gid);
    close(dlr_steal_fd(&child_fd));
    rc = await(pid, fd, limit_ms);
    if (rc == -EPERM)
        return dlr_fail(err, rc,
                        "'%s/%s' is not of uid %u: somebody has taken the name", root,
                        name, (unsigned)uid);
    return rc < 0 ? dlr_fail(err, rc, "cannot remove '%s/%s': %s", root, name,
                             strerror(-rc))
                  : 0;
}
