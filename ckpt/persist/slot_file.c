/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/persist/slot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/persist/bulk_write.h"
#include "ckpt/persist/safetensors.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define HEADS_MAX (64u << 20) /* bytes of headers that are kept */

/* One of the slots while it is written. */
struct part {
    struct dlr_slot_file_part *saved;
    atomic_bool bad;
};

/* Refused before it fills the disk; what is reserved for root does not count, what is
 * written over does.
 */
static int check_room(int dirfd, const char *path, uint64_t bytes, const char *over,
                      struct dlr_err *err)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX] = ".";
    DLR_AUTO_CLOSE int fd = -1;
    struct statvfs fs;
    struct stat old;
    uint64_t room;

    if (slash &&
        dlr_format(dir, sizeof(dir), "%.*s", (int)(slash - path + 1), path) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the path of '%s' is too long", slash + 1);
    fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstatvfs(fd, &fs) < 0)
        return dlr_fail(err, -errno, "cannot look at '%s': %m", dir);
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (over && fstatat(fd, over, &old, AT_SYMLINK_NOFOLLOW) == 0)
        room += (uint64_t)old.st_blocks * 512;
    if (room < bytes)
        return dlr_fail(err, -ENOSPC,
                        "'%s' has room for %" PRIu64 " of %" PRIu64 " bytes", dir, room,
                        bytes);
    return 0;
}

/* The blocks in [from, to) of the data against their sums. What was read for it is
 * written one piece after the other: what is before from has been.
 */
static int check_blocks(const void *arg, uint64_t from, uint64_t to,
                        struct dlr_err *err)
{
    struct part *p = (struct part *)arg;

    dlr_slot_pass(p->saved->slot, (uint32_t)(from / DLR_SLOT_BLOCK));
    for (; from < to; from += DLR_SLOT_BLOCK) {
        uint32_t i = (uint32_t)(from / DLR_SLOT_BLOCK), crc;
        size_t bytes;
        void *data;

        if (dlr_slot_block(p->saved->slot, i, &data, &bytes, &crc) < 0 ||
            dlr_crc32c(0, data, bytes) != crc) {
            atomic_store(&p->bad, true);
            return dlr_fail(err, -EBADMSG, "block %" PRIu32 " of the slot is corrupt",
                            i);
        }
    }
    return 0;
}

static struct dlr_slice slice_of(const struct dlr_safetensors_part *p)
{
    struct dlr_slice s = {.at = p->at, .bytes = p->info.data_bytes};

    s.room = p->data_off + dlr_align_up(s.bytes, DLR_SLOT_PAGE);
    memcpy(&s.crc, (const char *)p->meta + p->bytes - sizeof(s.crc), sizeof(s.crc));
    return s;
}

/* All that one write needs to know of its n slots. */
struct work {
    struct dlr_safetensors_part *form;
    struct dlr_bulk_write_part *bulk;
    struct part *parts;
};

static void work_done(struct work *w)
{
    free(w->form);
    free(w->bulk);
    free(w->parts);
}

static int work_init(struct work *w, struct dlr_slot_file_part *parts, unsigned n)
{
    w->form = calloc(n, sizeof(*w->form));
    w->bulk = calloc(n, sizeof(*w->bulk));
    w->parts = calloc(n, sizeof(*w->parts));
    if (!w->form || !w->bulk || !w->parts)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        parts[i].bad = false;
        w->parts[i].saved = &parts[i];
        dlr_slot_meta(parts[i].slot, &w->form[i].meta, &w->form[i].bytes);
        w->form[i].most = dlr_slot_bytes(parts[i].slot);
    }
    return 0;
}

/* Once there is a header: which memory goes behind it. */
static void place(struct work *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct dlr_safetensors_part *p = &w->form[i];

        w->bulk[i].data =
            (const char *)dlr_slot_base(w->parts[i].saved->slot) + p->data_off;
        w->bulk[i].bytes = p->info.data_bytes;
        w->bulk[i].arg = &w->parts[i];
        w->parts[i].saved->slice = slice_of(p);
    }
}

static bool any_is_read(const struct work *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (dlr_slot_is_read(w->parts[i].saved->slot))
            return true;
    return false;
}

static int write_parts(struct work *w, unsigned n, int dirfd, const char *path,
                       mode_t mode, const struct dlr_slot_file_how *how,
                       struct dlr_err *err)
{
    DLR_AUTO_FREE char *header = NULL;
    bool read = any_is_read(w, n);
    struct dlr_bulk_write_write bulk = {.parts = w->bulk,
                                        .nparts = n,
                                        .check =
                                            how->check || read ? check_blocks : NULL,
                                        .threads = read ? 1 : 0,
                                        .unit = DLR_SLOT_BLOCK,
                                        .rate = how->rate,
                                        .hurry = how->hurry,
                                        .over = how->over};
    unsigned bad = n;
    int rc = dlr_safetensors_header(w->form, n, &header, &bulk.head_bytes, &bad, err);

    if (bad < n)
        w->parts[bad].bad = true;
    if (rc < 0)
        return rc;
    place(w, n);
    bulk.head = header;
    rc = check_room(dirfd, path, dlr_bulk_write_bytes(&bulk), how->over, err);
    return rc < 0 ? rc : dlr_bulk_write_replace(dirfd, path, mode, &bulk, err);
}

int dlr_slot_file_write(struct dlr_slot_file_part *parts, unsigned n, int dirfd,
                        const char *path, mode_t mode,
                        const struct dlr_slot_file_how *how, struct dlr_err *err)
{
    DLR_CLEANUP(work_done) struct work w = {0};
    int rc = work_init(&w, parts, n);

    if (rc < 0)
        return dlr_fail(err, rc, "out of memory");
    rc = write_parts(&w, n, dirfd, path, mode, how, err);
    for (unsigned i = 0; i < n; i++)
        parts[i].bad = rc < 0 && w.parts[i].bad;
    return rc;
}

/* --- back ------------------------------------------------------------------------- */

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

/* What others read of the header must be what the meta blocks say. */
static int compare(struct dlr_safetensors_part *parts, unsigned n, const char *header,
                   uint64_t bytes, uint64_t file, struct dlr_err *err)
{
    const struct dlr_safetensors_part *last = &parts[n - 1];
    DLR_AUTO_FREE char *again = NULL;
    uint64_t want = 0;
    int rc = dlr_safetensors_header(parts, n, &again, &want, NULL, err);

    if (rc < 0)
        return rc;
    if (want != bytes || memcmp(again, header, bytes) != 0)
        return dlr_fail(err, -EBADMSG, "the header is corrupt");
    want = last->at + last->info.data_bytes;
    if (file != want)
        return dlr_fail(err, -EBADMSG, "the file has %" PRIu64 " bytes, not %" PRIu64,
                        file, want);
    return 0;
}

static int join(int fd, const struct dlr_safetensors_part *parts, unsigned n,
                int32_t rank, struct dlr_slot **ret, struct dlr_err *err)
{
    for (unsigned i = 0; i < n; i++)
        if (rank < 0 || parts[i].info.rank == rank)
            return dlr_slot_join(parts[i].meta, parts[i].bytes, fd, parts[i].at, ret,
                                 err);
    return dlr_fail(err, -EBADMSG, "rank %" PRId32 " is not in it", rank);
}

/* --- heads ------------------------------------------------------------------------ */

struct dlr_slot_file_head {
    struct stat st; /* of the file then */
    struct dlr_safetensors_part *parts;
    unsigned n;
    uint64_t bytes; /* the header's; the parts take less */
    struct dlr_slot_file_head *older;
};

static struct dlr_slot_file_head *free_head(struct dlr_slot_file_head *h)
{
    if (h)
        free(h->parts);
    free(h);
    return NULL;
}

static void free_heads(struct dlr_slot_file_head **h)
{
    free_head(*h);
}

static int read_head(int fd, struct dlr_slot_file_head *h, struct dlr_err *err)
{
    DLR_AUTO_FREE char *header = NULL;
    uint64_t file = 0;
    int rc;

    if (fstat(fd, &h->st) < 0)
        return dlr_fail(err, -errno, "cannot look at it: %m");
    rc = read_header(fd, &header, &h->bytes, &file, err);
    if (rc == 0)
        rc = dlr_safetensors_parts(header, h->bytes, &h->parts, &h->n, err);
    return rc < 0 ? rc : compare(h->parts, h->n, header, h->bytes, file, err);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static const struct dlr_slot_file_head *
find_head(const struct dlr_slot_file_heads *heads, int fd)
{
    const struct dlr_slot_file_head *h = heads->newest;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return NULL;
    while (h && !is_same(&h->st, &st))
        h = h->older;
    return h;
}

/* The oldest go, but never the one that is being used. */
static void keep_head(struct dlr_slot_file_heads *heads, struct dlr_slot_file_head *h)
{
    struct dlr_slot_file_head **last;

    h->older = heads->newest;
    heads->newest = h;
    heads->bytes += h->bytes;
    while (heads->bytes > HEADS_MAX && heads->newest->older) {
        for (last = &heads->newest; (*last)->older;)
            last = &(*last)->older;
        heads->bytes -= (*last)->bytes;
        *last = free_head(*last);
    }
}

void dlr_slot_file_heads_done(struct dlr_slot_file_heads *heads)
{
    while (heads->newest) {
        struct dlr_slot_file_head *h = heads->newest;

        heads->newest = h->older;
        free_head(h);
    }
    heads->bytes = 0;
}

int dlr_slot_file_map_by(struct dlr_slot_file_heads *heads, int fd, int32_t rank,
                         struct dlr_slot **ret, struct dlr_err *err)
{
    const struct dlr_slot_file_head *known = heads ? find_head(heads, fd) : NULL;
    DLR_CLEANUP(free_heads) struct dlr_slot_file_head *own = NULL;
    int rc;

    if (known)
        return join(fd, known->parts, known->n, rank, ret, err);
    own = calloc(1, sizeof(*own));
    if (!own)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = read_head(fd, own, err);
    if (rc < 0)
        return rc;
    rc = join(fd, own->parts, own->n, rank, ret, err);
    if (heads)
        keep_head(heads, DLR_STEAL(own));
    return rc;
}

int dlr_slot_file_map(int fd, int32_t rank, struct dlr_slot **ret, struct dlr_err *err)
{
    return dlr_slot_file_map_by(NULL, fd, rank, ret, err);
}
