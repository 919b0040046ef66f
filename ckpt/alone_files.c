/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/alone_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "ckpt/saved.h"
#include "common/cleanup.h"
#include "common/str.h"

#define ASIDE ".aside"

int dlr_alone_name(int rank, uint64_t step, char *buf, size_t size)
{
    return dlr_format(buf, size, "r%d-%" PRIu64 DLR_SAVED_SUFFIX, rank, step);
}

/* Reads a name back; false for any other file. */
static bool parse_name(const char *name, int *ret_rank, uint64_t *ret_step)
{
    char again[NAME_MAX + 1];

    if (sscanf(name, "r%d-%" SCNu64 DLR_SAVED_SUFFIX, ret_rank, ret_step) != 2 ||
        *ret_rank < 0)
        return false;
    return dlr_alone_name(*ret_rank, *ret_step, again, sizeof(again)) == 0 &&
           dlr_streq(again, name);
}

static DIR *open_again(int dirfd, struct dlr_err *err)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        dlr_fail(err, -errno, "cannot read the directory: %m");
        if (fd >= 0)
            close(fd);
    }
    return dir;
}

static int newest_first(const void *a, const void *b)
{
    const struct dlr_alone_file *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? 1 : -1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int dlr_alone_scan(int dirfd, struct dlr_alone_file **ret_files, struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);
    DLR_AUTO_FREE struct dlr_alone_file *files = NULL;
    unsigned n = 0, room = 0;

    if (!dir)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct dlr_alone_file file;

        if (!parse_name(entry->d_name, &file.rank, &file.step))
            continue;
        if (n == room) {
            struct dlr_alone_file *more = realloc(files, (room + 64u) * sizeof(*files));

            if (!more)
                return dlr_fail(err, -ENOMEM, "no memory");
            files = more;
            room += 64;
        }
        files[n++] = file;
    }
    if (n > 0)
        qsort(files, n, sizeof(*files), newest_first);
    *ret_files = DLR_STEAL(files);
    return (int)n;
}

int dlr_alone_complete(int dirfd, int world, uint64_t **ret_steps, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_alone_file *files = NULL;
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = dlr_alone_scan(dirfd, &files, err), out = 0;

    if (n <= 0)
        return n;
    steps = calloc((size_t)n, sizeof(*steps));
    if (!steps)
        return dlr_fail(err, -ENOMEM, "no memory");
    for (int i = 0, end; i < n; i = end) {
        int found = 0;

        for (end = i; end < n && files[end].step == files[i].step; end++)
            found += files[end].rank < world;
        if (found >= world)
            steps[out++] = files[i].step;
    }
    *ret_steps = DLR_STEAL(steps);
    return out;
}

bool dlr_alone_all(int dirfd, uint32_t world, uint64_t step)
{
    char name[NAME_MAX + 1];

    for (uint32_t rank = 0; rank < world; rank++)
        if (dlr_alone_name((int)rank, step, name, sizeof(name)) < 0 ||
            faccessat(dirfd, name, R_OK, 0) < 0)
            return false;
    return true;
}

int dlr_alone_map(int dirfd, int rank, uint64_t step, struct dlr_slot **ret,
                  struct dlr_slot_info *ret_info, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_slot *slot;
    struct dlr_err why;
    char name[NAME_MAX + 1];
    int rc = dlr_alone_name(rank, step, name, sizeof(name));

    if (rc < 0)
        return dlr_fail(err, rc, "no such name");
    fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", name);
    rc = dlr_saved_map(fd, rank, &slot, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "'%s': %s", name, why.text);
    rc = dlr_slot_info(slot, ret_info);
    if (rc < 0 || ret_info->rank != rank || ret_info->version.step != step)
        rc = dlr_fail(&why, -EBADMSG, "its head is corrupt or of another snapshot");
    if (rc < 0 || !ret)
        slot = dlr_slot_unmap(slot);
    if (rc < 0)
        return dlr_fail(err, rc, "'%s': %s", name, why.text);
    if (ret)
        *ret = slot;
    return 0;
}

int dlr_alone_check(int dirfd, int rank, uint64_t step, const struct dlr_alive *alive,
                    struct dlr_slot_info *ret_info, struct dlr_err *err)
{
    struct dlr_slot *slot;
    struct dlr_err why;
    int rc = dlr_alone_map(dirfd, rank, step, &slot, ret_info, err);

    if (rc < 0)
        return rc;
    rc = dlr_slot_verify_alive(slot, alive, &why);
    dlr_slot_unmap(slot);
    return rc < 0 ? dlr_fail(err, rc, "rank %d's file of step %" PRIu64 ": %s", rank,
                             step, why.text)
                  : 0;
}

int dlr_alone_set_aside(int dirfd, int rank, uint64_t from, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_alone_file *files = NULL;
    int n = dlr_alone_scan(dirfd, &files, err);
    bool any = false;

    if (!files)
        return n; /* -errno or 0 */
    for (int i = 0; i < n && files[i].step >= from; i++) {
        char name[NAME_MAX + 1], other[NAME_MAX + 1];

        if (rank >= 0 && files[i].rank != rank)
            continue;
        dlr_alone_name(files[i].rank, files[i].step, name, sizeof(name));
        dlr_format(other, sizeof(other), "%s" ASIDE, name);
        if (renameat(dirfd, name, dirfd, other) == 0)
            any = true;
        else if (errno != ENOENT)
            return dlr_fail(err, -errno, "cannot set '%s' aside: %m", name);
    }
    if (any && fsync(dirfd) < 0)
        return dlr_fail(err, -errno, "cannot sync the directory: %m");
    return 0;
}

static bool is_aside(const char *name)
{
    char file[NAME_MAX + 1];
    uint64_t step;
    size_t n = strlen(name);
    int rank;

    return n > strlen(ASIDE) && dlr_streq(name + n - strlen(ASIDE), ASIDE) &&
           dlr_format(file, sizeof(file), "%.*s", (int)(n - strlen(ASIDE)), name) ==
               0 &&
           parse_name(file, &rank, &step);
}

int dlr_alone_remove(int dirfd, int rank, int world, uint64_t from, uint64_t to,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);
    char half[32];

    if (!dir || dlr_format(half, sizeof(half), ".r%d-", rank) < 0)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        const char *name = entry->d_name;
        uint64_t step;
        int r;
        bool mine = parse_name(name, &r, &step) && step >= from && step < to &&
                    (r == rank || (rank == 0 && r >= world));

        mine = mine || dlr_after(name, half) || (rank == 0 && is_aside(name));
        if (mine && unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
            return dlr_fail(err, -errno, "cannot remove '%s': %m", name);
    }
    return 0;
}
