/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt/bulk.h"
#include "ckpt/safetensors.h"
#include "ckpt/slot_meta.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"

/* Refused before it fills the disk; what is reserved for root does not count. */
static int check_room(int dirfd, const char *path, uint64_t bytes, struct dlr_err *err)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX] = ".";
    DLR_AUTO_CLOSE int fd = -1;
    struct statvfs fs;
    uint64_t room;

    if (slash &&
        dlr_format(dir, sizeof(dir), "%.*s", (int)(slash - path + 1), path) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the path of '%s' is too long", slash + 1);
    fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstatvfs(fd, &fs) < 0)
        return dlr_fail(err, -errno, "cannot look at '%s': %m", dir);
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room < bytes)
        return dlr_fail(err, -ENOSPC,
                        "'%s' has room for %" PRIu64 " of %" PRIu64 " bytes", dir, room,
                        bytes);
    return 0;
}

/* The chunks in [from, to) of the data against their sums. What was read for it is written one
 * piece after the other: what is before from has been.
 */
static int check_chunks(const void *arg, uint64_t from, uint64_t to,
                        struct dlr_err *err)
{
    dlr_slot_pass(arg, (uint32_t)(from / DLR_SLOT_CHUNK));
    for (; from < to; from += DLR_SLOT_CHUNK) {
        uint32_t i = (uint32_t)(from / DLR_SLOT_CHUNK), crc;
        size_t bytes;
        void *data;

        if (dlr_slot_chunk(arg, i, &data, &bytes, &crc) < 0 ||
            dlr_crc32c(0, data, bytes) != crc)
            return dlr_fail(err, -EBADMSG, "chunk %" PRIu32 " of the slot is corrupt",
                            i);
    }
    return 0;
}

int dlr_saved_write(const struct dlr_slot *slot, int dirfd, const char *path,
                    mode_t mode, const struct dlr_saved_how *how, struct dlr_err *err)
{
    DLR_AUTO_FREE char *header = NULL;
    bool read = dlr_slot_is_read(slot);
    struct dlr_bulk bulk = {.arg = slot,
                            .check = how->check || read ? check_chunks : NULL,
                            .threads = read ? 1 : 0,
                            .unit = DLR_SLOT_CHUNK,
                            .rate = how->rate,
                            .hurry = how->hurry};
    struct dlr_meta_head head;
    int rc = dlr_safetensors_header(slot, &header, &bulk.head_bytes, err);

    if (rc < 0)
        return rc;
    memcpy(&head, (char *)dlr_slot_base(slot) + DLR_SLOT_PAGE, sizeof(head));
    bulk.head = header;
    bulk.body = (char *)dlr_slot_base(slot) + head.data_off;
    bulk.body_bytes = head.data_bytes;
    rc = check_room(dirfd, path, bulk.head_bytes + bulk.body_bytes, err);
    return rc < 0 ? rc : dlr_bulk_replace(dirfd, path, mode, &bulk, err);
}

/* --- back ---------------------------------------------------------------------------------- */

static int read_first(int fd, void *buf, uint64_t bytes, struct dlr_err *err)
{
    int rc = dlr_read_at(fd, buf, bytes, 0);

    if (rc == -ENODATA)
        return dlr_fail(err, -EBADMSG, "it ends within %" PRIu64 " bytes", bytes);
    return rc < 0 ? dlr_fail(err, rc, "cannot read it: %s", strerror(-rc)) : 0;
}

/* *ret is the file's header as it stands. */
static int read_header(int fd, char **ret, uint64_t *ret_bytes, uint64_t *ret_file,
                       struct dlr_err *err)
{
    DLR_AUTO_FREE char *header = NULL;
    unsigned char begin[sizeof(uint64_t)];
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot look at it: %m");
    if (!S_ISREG(st.st_mode))
        return dlr_fail(err, -EBADMSG, "not a regular file");
    *ret_file = (uint64_t)st.st_size;
    rc = read_first(fd, begin, sizeof(begin), err);
    if (rc == 0)
        rc = dlr_safetensors_length(begin, *ret_file, ret_bytes, err);
    if (rc < 0)
        return rc;
    header = malloc(*ret_bytes);
    if (!header)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = read_first(fd, header, *ret_bytes, err);
    if (rc == 0)
        *ret = DLR_STEAL(header);
    return rc;
}

/* What others read of the header must be what the meta block says. */
static int compare(const struct dlr_slot *slot, const char *header, uint64_t bytes,
                   uint64_t file, struct dlr_err *err)
{
    DLR_AUTO_FREE char *again = NULL;
    struct dlr_slot_info info;
    uint64_t n = 0;
    int rc = dlr_safetensors_header(slot, &again, &n, err);

    if (rc < 0)
        return rc;
    if (n != bytes || memcmp(again, header, bytes) != 0)
        return dlr_fail(err, -EBADMSG, "the header is corrupt");
    if (dlr_slot_info(slot, &info) < 0 || file != bytes + info.data_bytes)
        return dlr_fail(err, -EBADMSG, "the file has %" PRIu64 " bytes, not %" PRIu64,
                        file, bytes + info.data_bytes);
    return 0;
}

int dlr_saved_map(int fd, struct dlr_slot **ret, struct dlr_err *err)
{
    DLR_AUTO_FREE char *header = NULL;
    DLR_AUTO_FREE void *meta = NULL;
    struct dlr_slot *slot = NULL;
    uint64_t bytes = 0, file = 0;
    size_t meta_bytes = 0;
    int rc = read_header(fd, &header, &bytes, &file, err);

    if (rc == 0)
        rc = dlr_safetensors_meta(header, bytes, &meta, &meta_bytes, err);
    if (rc == 0)
        rc = dlr_slot_join(meta, meta_bytes, fd, bytes, &slot, err);
    if (rc < 0)
        return rc;
    rc = compare(slot, header, bytes, file, err);
    if (rc < 0)
        dlr_slot_unmap(slot);
    else
        *ret = slot;
    return rc;
}
