/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/slot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

int dlr_store_name(int32_t rank, unsigned slot, char *buf, size_t size)
{
    return dlr_format(buf, size, "r%d.s%u", rank, slot);
}

/* Reads "r<rank>.s<k>" back; false for any other name. */
static bool parse_name(const char *name, int32_t *ret_rank, uint32_t *ret_slot)
{
    char again[64], rank[16];
    const char *dot = strchr(name, '.');
    unsigned r, k;

    if (name[0] != 'r' || !dot || dot[1] != 's' ||
        dlr_format(rank, sizeof(rank), "%.*s", (int)(dot - name - 1), name + 1) < 0 ||
        dlr_parse_uint(rank, INT32_MAX, &r) < 0 || dlr_parse_uint(dot + 2, 255, &k) < 0)
        return false;
    if (dlr_store_name((int32_t)r, k, again, sizeof(again)) < 0 ||
        !dlr_streq(again, name))
        return false;
    *ret_rank = (int32_t)r;
    *ret_slot = k;
    return true;
}

/* 1 when the file is a snapshot of key, 0 when it is something else, -EBADMSG when it
 * says to be one and is not sound.
 */
static int look(int dir, const char *name, uint64_t key, bool verify,
                struct dlr_store_item *item)
{
    DLR_AUTO_CLOSE int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct dlr_slot *slot;
    int rc = fd < 0 ? -errno : dlr_slot_map(fd, false, &slot, NULL);

    if (rc < 0)
        return rc == -ENOENT ? 0 : -EBADMSG;
    item->state = dlr_slot_state(slot);
    if (item->state == DLR_SLOT_SEALED || item->state == DLR_SLOT_COMMITTED) {
        rc = verify ? dlr_slot_verify(slot, NULL) : 0;
        if (rc == 0)
            rc = dlr_slot_info(slot, &item->info);
        if (rc == 0)
            rc = item->info.key != key           ? 0
                 : item->info.rank == item->rank ? 1
                                                 : -EBADMSG;
    }
    dlr_slot_unmap(slot);
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    const struct dlr_store_item *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static int append(struct dlr_store_item **items, unsigned *n,
                  const struct dlr_store_item *item)
{
    struct dlr_store_item *more = realloc(*items, (*n + (size_t)1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    more[(*n)++] = *item;
    *items = more;
    return 0;
}

int dlr_store_list(const char *dir, uint64_t key, bool verify,
                   struct dlr_store_item **ret_items, unsigned *ret_bad,
                   struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(dir);
    DLR_AUTO_FREE struct dlr_store_item *items = NULL;
    unsigned n = 0, bad = 0;

    if (!d && errno != ENOENT)
        return dlr_fail(err, -errno, "cannot open '%s': %m", dir);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        struct dlr_store_item item = {0};
        int rc;

        if (!parse_name(entry->d_name, &item.rank, &item.slot) ||
            item.slot == DLR_STORE_FETCHED) /* it goes with its round */
            continue;
        rc = look(dirfd(d), entry->d_name, key, verify, &item);
        if (rc < 0)
            bad++;
        if (rc > 0 && append(&items, &n, &item) < 0)
            return dlr_fail(err, -ENOMEM, "no memory to list '%s'", dir);
    }
    if (n > 0)
        qsort(items, n, sizeof(*items), by_rank);
    *ret_items = DLR_STEAL(items);
    if (ret_bad)
        *ret_bad = bad;
    return (int)n;
}

uint64_t dlr_store_used(int dirfd)
{
    DLR_AUTO_CLOSE int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
    uint64_t used = 0;
    struct stat st;

    if (!d)
        return 0;
    dlr_steal_fd(&fd);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d))
        if (fstatat(dirfd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            used += (uint64_t)st.st_blocks * 512;
    return used;
}

int dlr_store_remove(const char *dir, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *d = NULL;
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", dir);
    if (st.st_uid != geteuid())
        return dlr_fail(err, -EPERM, "'%s' is not ours", dir);
    d = fdopendir(fd);
    if (!d)
        return dlr_fail(err, -errno, "cannot read '%s': %m", dir);
    dlr_steal_fd(&fd);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        if (dlr_streq(entry->d_name, ".") || dlr_streq(entry->d_name, ".."))
            continue;
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_uid == geteuid() && unlinkat(dirfd(d), entry->d_name, 0) < 0 &&
            errno != ENOENT)
            return dlr_fail(err, -errno, "cannot remove '%s/%s': %m", dir,
                            entry->d_name);
    }
    if (rmdir(dir) < 0 && errno != ENOENT)
        return dlr_fail(err, -errno, "cannot remove '%s': %m", dir);
    return 0;
}
