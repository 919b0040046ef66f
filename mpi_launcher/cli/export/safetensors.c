/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/persist/slot_file.h"
#include "ckpt/restore/whole.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

struct files {
    const struct dlr_plan_file *list;
    unsigned n;
    struct dlr_slot_file_heads *heads;
};

/* The file of another rank, whose parts are compared with their checksums as they are
 * taken.
 */
static int open_other(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    const struct files *files = arg;
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_err why;
    unsigned i = 0;
    int rc;

    while (i < files->n && files->list[i].copy.rank != rank)
        i++;
    if (i == files->n)
        return dlr_fail(err, -ENOENT, "rank %d has no file", rank);
    fd = open(files->list[i].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", files->list[i].path);
    rc = dlr_slot_file_map_by(files->heads, fd, rank, ret, &why);
    return rc < 0 ? dlr_fail(err, rc, "'%s': %s", files->list[i].path, why.text) : 0;
}

int dlr_cli_export(const struct dlr_plan_file *files, unsigned n, unsigned i,
                   const struct dlr_slot *slot, struct dlr_slot_file_heads *heads,
                   const char *output, struct dlr_err *err)
{
    const struct dlr_slot_file_how how = {0}; /* compared just now */
    const struct dlr_plan_copy *copy = &files[i].copy;
    struct files all = {files, n, heads};
    struct dlr_slot_file_part part = {0};
    struct dlr_slot *whole = NULL;
    char path[PATH_MAX];
    int rc = dlr_format(path, sizeof(path), "%s/rank-%" PRId32 ".safetensors", output,
                        copy->rank);

    if (rc < 0)
        return dlr_fail(err, rc, "the path is too long");
    rc = dlr_slot_whole(slot, open_other, &all, &whole, err);
    part.slot = rc > 0 ? whole : slot;
    if (rc >= 0)
        rc = dlr_slot_file_write(&part, 1, AT_FDCWD, path, 0666, &how, err);
    dlr_slot_unmap(whole);
    return rc;
}
