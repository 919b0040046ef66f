/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/persist/safetensors.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/standalone/launch_id.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define ASIDE ".aside" /* and, but for what an older library set aside, -NUMBER */

#define HEAD_AT sizeof(uint64_t) /* in a file: behind the length of its header */
#define HEAD_TEXT (sizeof(DLR_SAFETENSORS_BEGIN) - 1)

int dlr_standalone_name(int rank, uint64_t step, char *buf, size_t size)
{
    return dlr_format(buf, size, "r%d-%" PRIu64 DLR_SLOT_FILE_SUFFIX, rank, step);
}

/* Reads a name back; false for any other file. */
static bool parse_name(const char *name, int *ret_rank, uint64_t *ret_step)
{
    char again[NAME_MAX + 1];

    if (sscanf(name, "r%d-%" SCNu64 DLR_SLOT_FILE_SUFFIX, ret_rank, ret_step) != 2 ||
        *ret_rank < 0)
        return false;
    return dlr_standalone_name(*ret_rank, *ret_step, again, sizeof(again)) == 0 &&
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
    const struct dlr_standalone_file *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? 1 : -1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int dlr_standalone_scan(int dirfd, struct dlr_standalone_file **ret_files,
                        struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    unsigned n = 0, room = 0;

    if (!dir)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct dlr_standalone_file file;

        if (!parse_name(entry->d_name, &file.rank, &file.step))
            continue;
        if (n == room) {
            struct dlr_standalone_file *more =
                realloc(files, (room + 64u) * sizeof(*files));

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

int dlr_standalone_complete(int dirfd, int world, uint64_t **ret_steps,
                            struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = dlr_standalone_scan(dirfd, &files, err), out = 0;

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

bool dlr_standalone_all(int dirfd, uint32_t world, uint64_t step)
{
    char name[NAME_MAX + 1];

    for (uint32_t rank = 0; rank < world; rank++)
        if (dlr_standalone_name((int)rank, step, name, sizeof(name)) < 0 ||
            faccessat(dirfd, name, R_OK, 0) < 0)
            return false;
    return true;
}

int dlr_standalone_map(int dirfd, int rank, uint64_t step, struct dlr_slot **ret,
                       struct dlr_slot_info *ret_info, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_slot *slot;
    struct dlr_err why;
    char name[NAME_MAX + 1];
    int rc = dlr_standalone_name(rank, step, name, sizeof(name));

    if (rc < 0)
        return dlr_fail(err, rc, "no such name");
    fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", name);
    rc = dlr_slot_file_map(fd, rank, &slot, &why);
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

int dlr_standalone_check(int dirfd, int rank, uint64_t step,
                         const struct dlr_alive *alive, struct dlr_slot_info *ret_info,
                         struct dlr_err *err)
{
    struct dlr_slot *slot;
    struct dlr_err why;
    int rc = dlr_standalone_map(dirfd, rank, step, &slot, ret_info, err);

    if (rc < 0)
        return rc;
    rc = dlr_slot_verify_alive(slot, alive, &why);
    dlr_slot_unmap(slot);
    return rc < 0 ? dlr_fail(err, rc, "rank %d's file of step %" PRIu64 ": %s", rank,
                             step, why.text)
                  : 0;
}

/* --- heads ------------------------------------------------------------------------ */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_hex(const char *text, void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ((unsigned char *)to)[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

int dlr_standalone_head(int dirfd, int rank, uint64_t step,
                        struct dlr_standalone_head *ret)
{
    char name[NAME_MAX + 1], text[HEAD_TEXT + 2 * sizeof(struct dlr_meta_head)];
    struct dlr_meta_head head;
    DLR_AUTO_CLOSE int fd = -1;
    int rc = dlr_standalone_name(rank, step, name, sizeof(name));

    if (rc == 0)
        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (rc < 0 || fd < 0)
        return rc < 0 ? rc : -errno;
    rc = dlr_is_file(fd) ? dlr_read_at(fd, text, sizeof(text), HEAD_AT) : -EBADMSG;
    if (rc < 0)
        return rc == -ENODATA ? -EBADMSG : rc;
    if (memcmp(text, DLR_SAFETENSORS_BEGIN, HEAD_TEXT) != 0 ||
        !take_hex(text + HEAD_TEXT, &head, sizeof(head)) ||
        head.crc != dlr_crc32c(0, &head, offsetof(struct dlr_meta_head, crc)) ||
        head.magic != DLR_META_MAGIC || head.rank != rank || head.step != step)
        return -EBADMSG;
    *ret = (struct dlr_standalone_head){head.key, head.wall_ns, head.world, ""};
    if (memchr(head.program, '\0', sizeof(head.program)) &&
        dlr_standalone_is_plain(head.program))
        memcpy(ret->program, head.program, sizeof(ret->program));
    return 0;
}

bool dlr_standalone_same(int dirfd, uint64_t step, struct dlr_standalone_head *ret)
{
    struct dlr_standalone_head first, other;

    if (dlr_standalone_head(dirfd, 0, step, &first) < 0)
        return false;
    for (uint32_t rank = 1; rank < first.world; rank++)
        if (dlr_standalone_head(dirfd, (int)rank, step, &other) < 0 ||
            other.line != first.line || other.world != first.world)
            return false;
    *ret = first;
    return true;
}

/* --- what goes -------------------------------------------------------------------- */

/* Reads the name of a file that was set aside. */
static bool parse_aside(const char *name, struct dlr_standalone_file *ret,
                        unsigned *ret_number)
{
    const char *end = strstr(name, ASIDE);
    char file[NAME_MAX + 1], again[NAME_MAX + 1];

    if (!end || dlr_format(file, sizeof(file), "%.*s", (int)(end - name), name) < 0 ||
        !parse_name(file, &ret->rank, &ret->step))
        return false;
    *ret_number = 0;
    if (dlr_streq(end, ASIDE))
        return true;
    return sscanf(end, ASIDE "-%9u", ret_number) == 1 &&
           dlr_format(again, sizeof(again), "%s" ASIDE "-%u", file, *ret_number) == 0 &&
           dlr_streq(again, name);
}

struct aside {
    struct dlr_standalone_file file;
    unsigned number;
    char name[64];
};

static int last_first(const void *a, const void *b)
{
    const struct aside *x = a, *y = b;

    if (x->file.rank != y->file.rank)
        return x->file.rank < y->file.rank ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? 1 : -1;
    return (x->file.step < y->file.step) - (x->file.step > y->file.step);
}

/* All that was set aside, rank by rank, of each the last first. */
static int scan_aside(int dirfd, struct aside **ret, struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);
    DLR_AUTO_FREE struct aside *list = NULL;
    unsigned n = 0;

    if (!dir)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct aside one;
        struct aside *more;

        if (!parse_aside(entry->d_name, &one.file, &one.number) ||
            dlr_format(one.name, sizeof(one.name), "%s", entry->d_name) < 0)
            continue;
        more = realloc(list, (n + 1u) * sizeof(*list));
        if (!more)
            return dlr_fail(err, -ENOMEM, "no memory");
        list = more;
        list[n++] = one;
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), last_first);
    *ret = DLR_STEAL(list);
    return (int)n;
}

static int next_number(int dirfd, unsigned *ret, struct dlr_err *err)
{
    DLR_AUTO_FREE struct aside *list = NULL;
    int n = scan_aside(dirfd, &list, err);

    *ret = 1;
    for (int i = 0; list && i < n; i++)
        if (list[i].number >= *ret)
            *ret = list[i].number + 1;
    return n < 0 ? n : 0;
}

static bool is_of(const struct dlr_standalone_which *which,
                  const struct dlr_standalone_file *file, int dirfd)
{
    struct dlr_standalone_head head;

    if (which->rank >= 0 && file->rank != which->rank &&
        (which->beyond == 0 || file->rank < which->beyond))
        return false;
    if (file->step < which->from || file->step >= which->to)
        return false;
    if (which->of_lines)
        return dlr_standalone_head(dirfd, file->rank, file->step, &head) == 0 &&
               (head.line == which->line || head.line == which->parent);
    if (!which->others || dlr_standalone_head(dirfd, file->rank, file->step, &head) < 0)
        return true;
    for (unsigned i = 0; i < DLR_STANDALONE_KIN && which->kin[i]; i++)
        if (which->kin[i] == head.line)
            return false;
    return head.line != which->line || head.wall_ns < which->since_ns;
}

/* Does one thing with each file of which. */
static int each(int dirfd, const struct dlr_standalone_which *which,
                int (*f)(int dirfd, const char *name, unsigned number),
                const char *what, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int n = dlr_standalone_scan(dirfd, &files, err), rc;
    unsigned number = 0;
    bool any = false;

    for (int i = 0; files && i < n; i++) {
        char name[NAME_MAX + 1];

        if (!is_of(which, &files[i], dirfd))
            continue;
        if (!any && next_number(dirfd, &number, err) < 0)
            return -EIO;
        any = true;
        dlr_standalone_name(files[i].rank, files[i].step, name, sizeof(name));
        rc = f(dirfd, name, number);
        if (rc < 0 && rc != -ENOENT)
            return dlr_fail(err, rc, "cannot %s '%s': %s", what, name, strerror(-rc));
    }
    if (any && fsync(dirfd) < 0)
        return dlr_fail(err, -errno, "cannot sync the directory: %m");
    return n < 0 ? n : 0;
}

static int rename_aside(int dirfd, const char *name, unsigned number)
{
    char other[NAME_MAX + 1];

    dlr_format(other, sizeof(other), "%s" ASIDE "-%u", name, number);
    return renameat(dirfd, name, dirfd, other) < 0 ? -errno : 0;
}

/* Under both names until another takes the first one: a crash between leaves it
 * restorable.
 */
static int link_aside(int dirfd, const char *name, unsigned number)
{
    char other[NAME_MAX + 1];

    dlr_format(other, sizeof(other), "%s" ASIDE "-%u", name, number);
    if (linkat(dirfd, name, dirfd, other, 0) == 0)
        return 0;
    return errno == ENOENT ? -ENOENT : rename_aside(dirfd, name, number);
}

static int unlink_one(int dirfd, const char *name, unsigned number)
{
    return unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
}

int dlr_standalone_set_aside(int dirfd, const struct dlr_standalone_which *which,
                             struct dlr_err *err)
{
    return each(dirfd, which, rename_aside, "set aside", err);
}

int dlr_standalone_link_aside(int dirfd, int rank, uint64_t step, struct dlr_err *err)
{
    const struct dlr_standalone_which which = {
        .rank = rank, .from = step, .to = step + 1};
    char name[NAME_MAX + 1];

    if (dlr_standalone_name(rank, step, name, sizeof(name)) < 0 ||
        faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return each(dirfd, &which, link_aside, "set aside", err);
}

int dlr_standalone_remove(int dirfd, const struct dlr_standalone_which *which,
                          struct dlr_err *err)
{
    return each(dirfd, which, unlink_one, "remove", err);
}

void dlr_standalone_over_name(int rank, char *buf, size_t size)
{
    dlr_format(buf, size, ".r%d-over", rank); /* dlr_standalone_sweep() knows it */
}

/* It takes the place of one that has gone so before. */
static int retire_one(int dirfd, const char *name, unsigned number)
{
    char over[NAME_MAX + 1];
    uint64_t step;
    int rank;

    if (!parse_name(name, &rank, &step))
        return -EINVAL;
    dlr_standalone_over_name(rank, over, sizeof(over));
    if (renameat(dirfd, name, dirfd, over) == 0)
        return 0;
    return errno == ENOENT ? -ENOENT : unlink_one(dirfd, name, number);
}

int dlr_standalone_retire(int dirfd, int rank, uint64_t from, uint64_t to,
                          struct dlr_err *err)
{
    const struct dlr_standalone_which which = {.rank = rank, .from = from, .to = to};

    return each(dirfd, &which, retire_one, "remove", err);
}

void dlr_standalone_forget_over(int dirfd, int rank)
{
    char name[NAME_MAX + 1];

    dlr_standalone_over_name(rank, name, sizeof(name));
    unlinkat(dirfd, name, 0);
}

/* The file of a rank from beyond on, which does not come again to write over it. */
static bool is_over_beyond(const char *name, int beyond)
{
    char over[NAME_MAX + 1];
    int rank;

    if (sscanf(name, ".r%9d-over", &rank) != 1 || rank < beyond)
        return false;
    dlr_standalone_over_name(rank, over, sizeof(over));
    return dlr_streq(name, over);
}

static int forget_beyond(int dirfd, int beyond, struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);

    if (!dir)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (is_over_beyond(entry->d_name, beyond) &&
            unlinkat(dirfd, entry->d_name, 0) < 0 && errno != ENOENT)
            return dlr_fail(err, -errno, "cannot remove '%s': %m", entry->d_name);
    return 0;
}

int dlr_standalone_prune(int dirfd, int rank, int beyond, unsigned keep,
                         struct dlr_err *err)
{
    DLR_AUTO_FREE struct aside *list = NULL;
    int n = scan_aside(dirfd, &list, err), of = -1;
    unsigned seen = 0;

    for (int i = 0; list && i < n; i++) {
        int r = list[i].file.rank;

        seen = r == of ? seen + 1 : 1;
        of = r;
        if (seen <= keep || (r != rank && (beyond == 0 || r < beyond)))
            continue;
        if (unlinkat(dirfd, list[i].name, 0) < 0 && errno != ENOENT)
            return dlr_fail(err, -errno, "cannot remove '%s': %m", list[i].name);
    }
    if (n >= 0 && beyond > 0)
        n = forget_beyond(dirfd, beyond, err);
    return n < 0 ? n : 0;
}

int dlr_standalone_sweep(int dirfd, int rank, struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *dir = open_again(dirfd, err);
    char half[32];

    if (!dir || dlr_format(half, sizeof(half), ".r%d-", rank) < 0)
        return -EIO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (dlr_after(entry->d_name, half) && unlinkat(dirfd, entry->d_name, 0) < 0 &&
            errno != ENOENT)
            return dlr_fail(err, -errno, "cannot remove '%s': %m", entry->d_name);
    return 0;
}
