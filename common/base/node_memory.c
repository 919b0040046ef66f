/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/node_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define SUFFIX 8 /* hex digits behind a name that somebody else has */
#define TRIES 16 /* random names until we give up */
#define PREFIX "/dlrover-"

/* A path cut in three: where everybody may write, the job's directory, the rest. */
struct parts {
    char top[PATH_MAX], name[DLR_MEMORY_NAME];
    const char *rest; /* "" or "/RUN...", belongs to the path */
};

bool dlr_memory_is(const char *entry, const char *name)
{
    const char *rest = dlr_after(entry, name);

    if (!rest || !*rest)
        return rest;
    return rest[0] == '.' && strlen(rest) == 1 + SUFFIX &&
           strspn(rest + 1, "0123456789abcdef") == SUFFIX;
}

/* The number of the mount that fd is in, which asks no file system. -errno. */
static int mount_of(int fd)
{
    char path[64], text[256];
    int id = -ENOENT;
    FILE *in;

    dlr_format(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    in = fopen(path, "re");
    if (!in)
        return -errno;
    while (fgets(text, sizeof(text), in) && sscanf(text, "mnt_id: %d", &id) != 1)
        ;
    fclose(in);
    return id;
}

/* For kernels before 5.6, which do not know openat2(2), and where a container forbids
 * it.
 */
static int step_looking(int dir, const char *name, int flags)
{
    DLR_AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int here, there;
    struct stat st;
    char path[64];

    if (fd < 0)
        return -errno;
    here = mount_of(dir);
    there = mount_of(fd);
    if (here < 0 || there < 0)
        return here < 0 ? here : there;
    if (here != there)
        return -EXDEV;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((flags & O_DIRECTORY) && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (flags & O_PATH)
        return dlr_steal_fd(&fd); /* of a link: the link itself */
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    dlr_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    there = open(path, flags | O_CLOEXEC);
    return there < 0 ? -errno : there;
}

int dlr_memory_step(int dir, const char *name, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
                           .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH};
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return step_looking(dir, name, flags);
    return fd < 0 ? -errno : fd;
}

bool dlr_memory_owned(int dirfd, const char *name, uid_t owner)
{
    DLR_AUTO_CLOSE int fd = dlr_memory_step(dirfd, name, O_PATH | O_DIRECTORY);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == owner;
}

/* -ENOENT when no part of it is a job's directory. */
static int split(const char *path, struct parts *ret)
{
    const char *at = strstr(path, PREFIX), *end;
    int rc;

    if (!at || path[0] != '/' || at == path)
        return -ENOENT;
    end = strchrnul(at + 1, '/');
    rc = dlr_format(ret->top, sizeof(ret->top), "%.*s", (int)(at - path), path);
    if (rc == 0)
        rc = dlr_format(ret->name, sizeof(ret->name), "%.*s", (int)(end - at - 1),
                        at + 1);
    ret->rest = end;
    return rc;
}

static int open_top(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Puts the name that our directory has into name. -ENOENT when we have none. */
static int find_ours(int top, char name[DLR_MEMORY_NAME])
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    struct dirent *entry;
    unsigned n = 0;
    int fd;

    if (dlr_memory_owned(top, name, geteuid()))
        return 0;
    fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int rc = -errno;

        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (n++ < DLR_MEMORY_NAMES && (entry = readdir(dir)))
        if (dlr_memory_is(entry->d_name, name) &&
            dlr_memory_owned(top, entry->d_name, geteuid()))
            return dlr_format(name, DLR_MEMORY_NAME, "%s", entry->d_name);
    return -ENOENT;
}

/* A directory of root's that nobody else may write to. */
static int open_roots(int dir, const char *name, struct stat *ret)
{
    DLR_AUTO_CLOSE int fd =
        openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || fstat(fd, ret) < 0)
        return -errno;
    if (ret->st_uid != 0 || (ret->st_mode & 022))
        return -EPERM;
    return dlr_steal_fd(&fd);
}

int dlr_memory_own(const char *name, char *buf, size_t size)
{
    const char *own = dlr_after(name, &PREFIX[1]);
    struct stat outer, inner;
    DLR_AUTO_CLOSE int root = open_roots(AT_FDCWD, DLR_MEMORY_OWN, &outer);
    DLR_AUTO_CLOSE int fd = root < 0 || !own ? -ENOENT : open_roots(root, own, &inner);
    struct statfs fs;

    if (root < 0 || fd < 0)
        return root < 0 ? root : fd;
    if (outer.st_dev == inner.st_dev || fstatfs(fd, &fs) < 0 ||
        (unsigned)fs.f_type != TMPFS_MAGIC)
        return -ENOENT; /* nothing is mounted there */
    return dlr_format(buf, size, "%s/%s", DLR_MEMORY_OWN, own);
}

/* Whether our directory below top has the run of p already. */
static bool has_run(const char *top, const struct parts *p)
{
    DLR_AUTO_CLOSE int fd = open_top(top);
    char name[DLR_MEMORY_NAME], run[PATH_MAX];
    struct stat st;

    memcpy(name, p->name, sizeof(name));
    return fd >= 0 && find_ours(fd, name) == 0 &&
           dlr_format(run, sizeof(run), "%s%.*s", name,
                      (int)(p->rest[0] ? 1 + strcspn(p->rest + 1, "/") : 0),
                      p->rest) == 0 &&
           fstatat(fd, run, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The job's own tmpfs, unless the run has begun without it. */
static void choose_top(struct parts *p)
{
    char own[PATH_MAX];

    if (dlr_streq(p->top, DLR_MEMORY_ROOT) &&
        dlr_memory_own(p->name, own, sizeof(own)) == 0 &&
        (has_run(own, p) || !has_run(p->top, p)))
        memcpy(p->top, own, sizeof(own));
}

int dlr_memory_top(const char *path, char *buf, size_t size)
{
    struct parts p;
    int rc = split(path, &p);

    if (rc < 0)
        return rc;
    choose_top(&p);
    return dlr_format(buf, size, "%s", p.top);
}

bool dlr_memory_is_kept(const char *path)
{
    char keep[PATH_MAX + sizeof(DLR_MEMORY_KEEP)];
    struct stat st;
    struct parts p;

    if (split(path, &p) < 0)
        return false;
    choose_top(&p);
    return dlr_after(p.top, DLR_MEMORY_OWN "/") &&
           dlr_format(keep, sizeof(keep), "%s/" DLR_MEMORY_KEEP, p.top) == 0 &&
           lstat(keep, &st) == 0 && st.st_uid == 0;
}

int dlr_memory_find(const char *path, char *buf, size_t size)
{
    DLR_AUTO_CLOSE int top = -1;
    struct parts p;

    if (split(path, &p) == 0) {
        choose_top(&p);
        top = open_top(p.top);
    }
    if (top < 0 || find_ours(top, p.name) < 0)
        return dlr_format(buf, size, "%s", path);
    return dlr_format(buf, size, "%s/%s%s", p.top, p.name, p.rest);
}

/* Makes the directory, under another name when somebody has this one. 1: somebody had.
 */
static int make(int top, char name[DLR_MEMORY_NAME])
{
    char other[DLR_MEMORY_NAME];
    unsigned random;

    if (mkdirat(top, name, 0700) == 0)
        return 0;
    for (unsigned i = 0; errno == EEXIST && i < TRIES; i++) {
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            return -errno;
        if (dlr_format(other, sizeof(other), "%s.%08x", name, random) < 0)
            return -ENAMETOOLONG;
        if (mkdirat(top, other, 0700) == 0) {
            memcpy(name, other, sizeof(other));
            return 1;
        }
    }
    return -errno;
}

int dlr_memory_claim(const char *path, char *buf, size_t size, bool *ret_taken,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSE int top = -1;
    bool taken = false;
    struct parts p;
    int rc = split(path, &p);

    if (rc < 0)
        return dlr_fail(err, -EINVAL, "'%s' is no path of a memory directory", path);
    choose_top(&p);
    top = open_top(p.top);
    if (top < 0)
        return dlr_fail(err, top, "cannot open '%s': %s", p.top, strerror(-top));
    rc = find_ours(top, p.name);
    if (rc == 0)
        taken = strlen(p.name) > SUFFIX && p.name[strlen(p.name) - SUFFIX - 1] == '.';
    else if (rc == -ENOENT) {
        rc = make(top, p.name);
        taken = rc > 0;
    }
    if (rc < 0)
        return dlr_fail(err, rc, "cannot make '%s/%s': %s", p.top, p.name,
                        strerror(-rc));
    *ret_taken = taken;
    return dlr_format(buf, size, "%s/%s%s", p.top, p.name, p.rest);
}

/* "/RUN/agent.sock": 0 with the run's name. */
static int read_rest(const char *rest, char *run, size_t size)
{
    size_t len = rest[0] == '/' ? strcspn(rest + 1, "/") : 0;

    if (len == 0 || rest[1] == '.' || !dlr_streq(rest + 1 + len, "/agent.sock"))
        return -EINVAL;
    return dlr_format(run, size, "%.*s", (int)len, rest + 1);
}

static int open_socket(int root, const char *job, const char *run, int *ret_fd)
{
    DLR_AUTO_CLOSE int job_fd = dlr_memory_step(root, job, O_PATH | O_DIRECTORY);
    DLR_AUTO_CLOSE int run_fd =
        job_fd < 0 ? job_fd : dlr_memory_step(job_fd, run, O_PATH | O_DIRECTORY);
    DLR_AUTO_CLOSE int fd =
        run_fd < 0 ? run_fd : dlr_memory_step(run_fd, "agent.sock", O_PATH);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -ENOTSOCK;
    if (st.st_uid != geteuid())
        return -EPERM;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

int dlr_memory_socket(const char *root, const char *path, unsigned job, int *ret_fd,
                      struct dlr_err *err)
{
    char want[DLR_MEMORY_NAME], run[NAME_MAX + 1];
    DLR_AUTO_CLOSE int top = -1;
    struct parts p;
    int rc = split(path, &p);

    if (rc == 0)
        rc = dlr_format(want, sizeof(want), "dlrover-%u-%u", (unsigned)geteuid(), job);
    if (rc < 0 || !dlr_streq(p.top, root) || !dlr_streq(p.name, want) ||
        read_rest(p.rest, run, sizeof(run)) < 0)
        return dlr_fail(err, -EINVAL, "'%.200s' is no socket of this job's agent",
                        path);
    choose_top(&p);
    top = open_top(p.top);
    rc = top < 0 ? top : find_ours(top, p.name);
    if (rc == 0)
        rc = open_socket(top, p.name, run, ret_fd);
    return rc < 0 ? dlr_fail(err, rc, "cannot open '%.200s': %s", path, strerror(-rc))
                  : 0;
}
