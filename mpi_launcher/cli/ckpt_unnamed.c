/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/ckpt_unnamed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/persist/slot_file.h"
#include "ckpt/standalone/files.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

struct list {
    struct dlr_plan_file *files;
    unsigned n;
};

static int open_dir(const char *dir, struct dlr_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? dlr_fail(err, -errno, "cannot open '%s': %s", dir, strerror(errno))
                  : fd;
}

/* What the head of a rank's file says; false: there is none that can be read. */
static bool look(int dirfd, int rank, uint64_t step, struct dlr_plan_file *ret)
{
    struct dlr_slot_info info;
    struct dlr_slot *slot;
    const void *meta;
    struct stat st;
    size_t bytes;

    if (stat(ret->path, &st) < 0 ||
        dlr_standalone_map(dirfd, rank, step, &slot, &info, NULL) < 0)
        return false;
    dlr_slot_meta(slot, &meta, &bytes);
    ret->copy.world = info.world;
    ret->copy.layout = info.layout;
    ret->copy.bytes = ret->slice.room = dlr_slot_bytes(slot);
    ret->slice.bytes = info.data_bytes;
    ret->slice.at = (uint64_t)st.st_size - info.data_bytes; /* they end the file */
    memcpy(&ret->slice.crc, (const char *)meta + bytes - sizeof(ret->slice.crc),
           sizeof(ret->slice.crc));
    dlr_slot_unmap(slot);
    return true;
}

static int describe(int dirfd, const char *dir, int rank, uint64_t step,
                    struct dlr_plan_file *ret)
{
    char name[64];
    int rc = dlr_standalone_name(rank, step, name, sizeof(name));

    *ret = (struct dlr_plan_file){.copy = {.rank = rank, .version = {0, step}}};
    if (rc == 0)
        rc = dlr_format(ret->path, sizeof(ret->path), "%s/%s", dir, name);
    if (rc == 0 && !look(dirfd, rank, step, ret))
        ret->slice.at = UINT64_MAX;
    return rc;
}

/* How many ranks made the version whose files are these: as the first that can be read
 * says, or as many as there must be.
 */
static int count_ranks(int dirfd, const char *dir,
                       const struct dlr_standalone_file *files, int n,
                       uint32_t *ret_world)
{
    uint32_t world = (uint32_t)files[n - 1].rank + 1;

    for (int i = 0; i < n; i++) {
        struct dlr_plan_file f;
        int rc = describe(dirfd, dir, files[i].rank, files[i].step, &f);

        if (rc < 0)
            return rc;
        if (f.copy.world == 0)
            continue;
        world = f.copy.world;
        break;
    }
    *ret_world = world;
    return 0;
}

/* Files of two starts make no version (ckpt/standalone/lineage.h). */
static bool is_of_another(int dirfd, int rank, uint64_t step)
{
    struct dlr_standalone_head first, own;

    return dlr_standalone_head(dirfd, 0, step, &first) == 0 &&
           dlr_standalone_head(dirfd, rank, step, &own) == 0 && own.line != first.line;
}

static int add_version(int dirfd, const char *dir,
                       const struct dlr_standalone_file *files, int n,
                       struct list *list)
{
    struct dlr_plan_file *more;
    uint32_t world = 0;
    int rc = count_ranks(dirfd, dir, files, n, &world);

    if (rc < 0)
        return rc;
    if (world > DLR_PLAN_RANKS_MAX)
        return -EBADMSG;
    more = realloc(list->files, (list->n + (size_t)world) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    list->files = more;
    for (uint32_t rank = 0; rc == 0 && rank < world; rank++) {
        struct dlr_plan_file *f = &more[list->n + rank];

        rc = describe(dirfd, dir, (int)rank, files[0].step, f);
        f->copy.world = world;
        if (is_of_another(dirfd, (int)rank, files[0].step))
            f->slice.at = UINT64_MAX;
    }
    list->n += rc == 0 ? world : 0;
    return rc;
}

int dlr_cli_named_load(const char *dir, struct dlr_plan_file **ret_files,
                       unsigned *ret_n, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open_dir(dir, err);
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    struct list list = {0};
    int n = fd < 0 ? fd : dlr_standalone_scan(fd, &files, err), rc = 0;

    if (n < 0)
        return n;
    if (n == 0)
        return dlr_fail(err, -ENOENT,
                        "'%s' has no manifest, and no file of a program without a job",
                        dir);
    for (int i = 0, end; rc == 0 && i < n; i = end) {
        for (end = i + 1; end < n && files[end].step == files[i].step; end++)
            ;
        rc = add_version(fd, dir, files + i, end - i, &list);
    }
    if (rc < 0) {
        free(list.files);
        return dlr_fail(err, rc, "cannot list '%s': %s", dir, strerror(-rc));
    }
    *ret_files = list.files;
    *ret_n = list.n;
    return 0;
}

unsigned dlr_cli_named_absent(const struct dlr_plan_file *files, unsigned n)
{
    unsigned absent = 0;

    for (unsigned i = 0; i < n; i++)
        absent += access(files[i].path, F_OK) < 0;
    return absent;
}

unsigned dlr_cli_named_count(const char *dir)
{
    DLR_AUTO_CLOSE int fd = open_dir(dir, NULL);
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int n = fd < 0 ? 0 : dlr_standalone_scan(fd, &files, NULL);

    return n > 0 ? (unsigned)n : 0;
}
