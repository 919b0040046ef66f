/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/run/trusted_path.h"

#include <endian.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define LINKS_MAX 40 /* as the kernel's */
#define ACL_MAX 256  /* entries; a longer list counts as one that lets others write */

/* Whether a user namespace (a container) has no number for the owner: the kernel says
 * this one of all of those.
 */
static bool is_unmapped(uid_t uid)
{
    DLR_AUTO_FCLOSE FILE *over = fopen("/proc/sys/kernel/overflowuid", "re");
    DLR_AUTO_FCLOSE FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned number, inside, outside, count;

    if (!over || !map || fscanf(over, "%u", &number) != 1 || number != uid)
        return false;
    while (fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
        if (uid - inside < count)
            return false;
    return true;
}

static bool is_trusted(uid_t uid, const struct dlr_trusted_user *user)
{
    return uid == 0 || uid == user->uid || is_unmapped(uid);
}

/* root's group, and the group of their own that many sites give their users. */
static bool is_alone(gid_t gid, const struct dlr_trusted_user *user)
{
    const char *name = gid == 0 ? "root" : user->name;
    const struct group *group;

    if (gid != 0 && (gid != user->gid || !*name))
        return false;
    group = getgrgid(gid);
    if (!group || !dlr_streq(group->gr_name, name))
        return false;
    for (char **one = group->gr_mem; *one; one++)
        if (!dlr_streq(*one, name) && !dlr_streq(*one, user->name))
            return false;
    return true;
}

/* Where there is an access list, the group's bits of a mode are its mask: the most that
 * any entry gives.
 */
static bool group_writes(const char *path, const struct stat *st,
                         const struct dlr_trusted_user *user)
{
    struct {
        struct posix_acl_xattr_header head;
        struct posix_acl_xattr_entry entry[ACL_MAX];
    } acl;
    ssize_t size = lgetxattr(path, "system.posix_acl_access", &acl, sizeof(acl));
    bool writes = size < 0 && errno == ERANGE;

    if (size < (ssize_t)sizeof(acl.head))
        return writes || !is_alone(st->st_gid, user);
    size = (size - (ssize_t)sizeof(acl.head)) / (ssize_t)sizeof(acl.entry[0]);
    for (ssize_t i = 0; i < size; i++) {
        unsigned tag = le16toh(acl.entry[i].e_tag), id = le32toh(acl.entry[i].e_id);

        if (!(le16toh(acl.entry[i].e_perm) & ACL_WRITE))
            continue;
        writes |= tag == ACL_USER && !is_trusted(id, user);
        writes |= tag == ACL_GROUP && !is_alone(id, user);
        writes |= tag == ACL_GROUP_OBJ && !is_alone(st->st_gid, user);
    }
    return writes;
}

static int check_dir(const char *path, const struct stat *st,
                     const struct dlr_trusted_user *user, struct dlr_err *err)
{
    if (!is_trusted(st->st_uid, user))
        return dlr_fail(
            err, -EPERM,
            "'%s', in which the job's state would be, is of uid %u: who can "
            "put another state in its place; name another "
            "--dlrover-state-dir",
            path, st->st_uid);
    if (st->st_mode & S_ISVTX)
        return 0;
    if ((st->st_mode & 002) || ((st->st_mode & 020) && group_writes(path, st, user)))
        return dlr_fail(err, -EPERM,
                        "'%s', in which the job's state would be, can be written by "
                        "others (mode %04o): take that away with chmod go-w or +t, or "
                        "name another --dlrover-state-dir",
                        path, st->st_mode & 07777);
    return 0;
}

static bool is_home(const struct stat *st, const struct dlr_trusted_user *user)
{
    struct stat home;

    return *user->home && st->st_uid == user->uid && !(st->st_mode & 002) &&
           stat(user->home, &home) == 0 && home.st_dev == st->st_dev &&
           home.st_ino == st->st_ino;
}

static int check_from(char *path, const struct dlr_trusted_user *user, unsigned links,
                      struct dlr_err *err);

/* Cuts the last part off; false at the root. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');

    if (!path[1])
        return false;
    slash[slash == path] = '\0';
    return true;
}

/* The directories on the way to where a link leads. */
static int check_link(const char *path, const struct stat *st,
                      const struct dlr_trusted_user *user, unsigned links,
                      struct dlr_err *err)
{
    char to[PATH_MAX], target[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof(to) - 1);

    if (!is_trusted(st->st_uid, user))
        return check_dir(path, st, user, err);
    if (n < 0 || links == 0)
        return dlr_fail(err, n < 0 ? -errno : -ELOOP, "cannot follow '%s': %s", path,
                        strerror(n < 0 ? errno : ELOOP));
    to[n] = '\0';
    if (to[0] == '/')
        n = dlr_format(target, sizeof(target), "%s", to);
    else
        n = dlr_format(target, sizeof(target), "%.*s/%s",
                       (int)(strrchr(path, '/') - path), path, to);
    if (n < 0)
        return dlr_fail(err, -ENAMETOOLONG, "'%s' leads to a path that is too long",
                        path);
    return check_from(target, user, links - 1, err);
}

/* path and what is above it, up to the user's home directory. */
static int check_from(char *path, const struct dlr_trusted_user *user, unsigned links,
                      struct dlr_err *err)
{
    struct stat st;
    int rc;

    do {
        if (lstat(path, &st) < 0)
            return dlr_fail(err, -errno, "cannot stat '%s': %s", path, strerror(errno));
        if (S_ISDIR(st.st_mode) && is_home(&st, user))
            return 0;
        rc = S_ISLNK(st.st_mode) ? check_link(path, &st, user, links, err)
                                 : check_dir(path, &st, user, err);
    } while (rc == 0 && cut(path));
    return rc;
}

int dlr_trusted_path(const char *path, const struct dlr_trusted_user *user,
                     struct dlr_err *err)
{
    char above[PATH_MAX];

    if (path[0] != '/')
        return dlr_fail(err, -EINVAL, "'%s' is no absolute path", path);
    if (dlr_format(above, sizeof(above), "%s", path) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the path '%.64s...' is too long", path);
    return cut(above) ? check_from(above, user, LINKS_MAX, err) : 0;
}
