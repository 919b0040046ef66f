/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define LOAD_STEP 4096

int dlr_write_all(int fd, const void *buf, size_t size)
{
    const char *p = buf;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

/* at NULL: from where fd stands. */
static int read_whole(int fd, char *p, size_t size, off_t *at)
{
    while (size > 0) {
        ssize_t n = at ? pread(fd, p, size, *at) : read(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -ENODATA;
        p += n;
        size -= (size_t)n;
        if (at)
            *at += n;
    }
    return 0;
}

int dlr_read_all(int fd, void *buf, size_t size)
{
    return read_whole(fd, buf, size, NULL);
}

int dlr_read_at(int fd, void *buf, size_t size, uint64_t at)
{
    off_t from = (off_t)at;

    return read_whole(fd, buf, size, &from);
}

static int fail_errno(struct dlr_err *err, const char *what, const char *name)
{
    int code = -errno;

    return dlr_fail(err, code, "cannot %s '%s': %s", what, name, strerror(-code));
}

/* The directory that holds name, opened so that it can be synced, and name's last part.
 */
static int open_dir(int dirfd, const char *name, int *ret_fd, const char **ret_base,
                    struct dlr_err *err)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    char dir[PATH_MAX] = ".";
    int fd;

    if (!*base || dlr_streq(base, ".") || dlr_streq(base, ".."))
        return dlr_fail(err, -EINVAL, "'%s' does not name a file", name);
    if (slash &&
        dlr_format(dir, sizeof(dir), "%.*s", (int)(slash - name + 1), name) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the path of '%s' is too long", base);
    fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open the directory of", name);
    *ret_fd = fd;
    *ret_base = base;
    return 0;
}

/* Who else has a file open is known only where all that do are of this node; of these
 * the ones that write in place.
 */
static bool is_local(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 &&
           (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
            fs.f_type == TMPFS_MAGIC);
}

/* A lease to write is given to who alone has a file open or mapped; it is not kept. Who
 * opens the file right then is no signal that ends anybody.
 */
static bool is_only_ours(int fd, mode_t mode)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
           st.st_uid == geteuid() && (st.st_mode & 07777) == mode && is_local(fd) &&
           fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0 &&
           fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

/* Under a name that is nobody else's. -1: it cannot be used, and is gone. */
static int take_old(int dir, const char *old, const char *name, mode_t mode)
{
    DLR_AUTO_CLOSE int fd = -1;

    if (renameat(dir, old, dir, name) < 0)
        return -1;
    fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && is_only_ours(fd, mode))
        return dlr_steal_fd(&fd);
    unlinkat(dir, name, 0);
    return -1;
}

/* A file nobody else has: the directory may be shared by nodes, so a pid would not do.
 * What a crash leaves under such a name is never read.
 */
static int create_temporary(int dir, const char *base, mode_t mode, const char *old,
                            char *name, size_t size, int *ret_fd, struct dlr_err *err)
{
    uint64_t random;
    int fd = -1;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return fail_errno(err, "get a random number for", base);
    if (dlr_format(name, size, ".%.200s.%016" PRIx64, base, random) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the name '%s' is too long", base);
    if (old)
        fd = take_old(dir, old, name, mode);
    if (fd < 0)
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return fail_errno(err, "create a file beside", base);
    *ret_fd = fd;
    return 0;
}

struct parts {
    const struct iovec *list;
    unsigned n;
};

static int write_parts(int fd, const char *base, void *arg, struct dlr_err *err)
{
    const struct parts *parts = arg;

    for (unsigned i = 0; i < parts->n; i++) {
        int rc = dlr_write_all(fd, parts->list[i].iov_base, parts->list[i].iov_len);

        if (rc < 0)
            return dlr_fail(err, rc, "cannot write '%s': %s", base, strerror(-rc));
    }
    return 0;
}

/* Writes the contents and makes them durable; the descriptor is closed in any case. */
static int make_durable(int fd, const char *base, dlr_file_fill_fn fill, void *arg,
                        struct dlr_err *err)
{
    DLR_AUTO_CLOSE int owned = fd;
    int rc = fill(owned, base, arg, err);

    if (rc < 0)
        return rc;
    if (fsync(owned) < 0)
        return fail_errno(err, "sync", base);
    if (close(dlr_steal_fd(&owned)) < 0)
        return fail_errno(err, "close", base);
    return 0;
}

int dlr_file_replace_over(int dirfd, const char *name, mode_t mode, const char *old,
                          dlr_file_fill_fn fill, void *arg, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int dir = -1;
    char temporary[NAME_MAX + 1];
    const char *base;
    int fd = -1, rc;

    rc = open_dir(dirfd, name, &dir, &base, err);
    if (rc < 0)
        return rc;
    rc = create_temporary(dir, base, mode, old, temporary, sizeof(temporary), &fd, err);
    if (rc < 0)
        return rc;
    rc = make_durable(fd, base, fill, arg, err);
    if (rc == 0 && renameat(dir, temporary, dir, base) < 0)
        rc = fail_errno(err, "replace", base);
    if (rc < 0) {
        unlinkat(dir, temporary, 0);
        return rc;
    }
    if (fsync(dir) < 0)
        return fail_errno(err, "sync the directory of", name);
    return 0;
}

int dlr_file_replace(int dirfd, const char *name, mode_t mode,
                     const struct iovec *parts, unsigned nparts, struct dlr_err *err)
{
    struct parts all = {parts, nparts};

    return dlr_file_replace_over(dirfd, name, mode, NULL, write_parts, &all, err);
}

/* Doubles buf up to max + 1 bytes and one for the NUL. */
static int grow(char **buf, size_t *room, size_t max)
{
    size_t want = *room ? *room * 2 : LOAD_STEP;
    char *more;

    if (want > max + 1)
        want = max + 1;
    more = realloc(*buf, want + 1);
    if (!more)
        return -ENOMEM;
    *buf = more;
    *room = want;
    return 0;
}

static int load(int fd, const char *name, size_t max, char **ret_text, size_t *ret_size,
                struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0, room = 0;

    for (;;) {
        ssize_t n;

        if (size == room && grow(&text, &room, max) < 0)
            return dlr_fail(err, -ENOMEM, "no memory to read '%s'", name);
        n = read(fd, text + size, room - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "read", name);
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > max)
            return dlr_fail(err, -EFBIG, "'%s' is larger than %zu bytes", name, max);
    }
    text[size] = '\0';
    *ret_text = DLR_STEAL(text);
    if (ret_size)
        *ret_size = size;
    return 0;
}

int dlr_file_load(int dirfd, const char *name, size_t max, char **ret_text,
                  size_t *ret_size, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return fail_errno(err, "open", name);
    return load(fd, name, max, ret_text, ret_size, err);
}

int dlr_file_load_own(int dirfd, const char *name, size_t max, char **ret_text,
                      size_t *ret_size, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd =
        openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_errno(err, "open", name);
    if (!S_ISREG(st.st_mode))
        return dlr_fail(err, -EINVAL, "'%s' is no regular file", name);
    return load(fd, name, max, ret_text, ret_size, err);
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int dlr_mkdirs(const char *path, mode_t mode, struct dlr_err *err)
{
    char part[PATH_MAX];

    if (!*path)
        return dlr_fail(err, -EINVAL, "an empty path is no directory");
    if (dlr_format(part, sizeof(part), "%s", path) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the path '%.64s...' is too long", path);
    for (char *p = part + 1;; p++) {
        char here = *p;

        if (here != '/' && here != '\0')
            continue;
        *p = '\0';
        /* What exists may refuse mkdir with other codes than EEXIST (read-only,
         * automount).
         */
        if (mkdir(part, mode) < 0) {
            int code = errno == EEXIST ? ENOTDIR : errno;

            if (!is_dir(part))
                return dlr_fail(err, -code, "cannot create the directory '%s': %s",
                                part, strerror(code));
        }
        *p = here;
        if (!here)
            return 0;
    }
}

bool dlr_is_file(int fd)
{
    struct statx st;

    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
           S_ISREG(st.stx_mode);
}
