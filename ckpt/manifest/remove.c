/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"

static int remove_one(int dirfd, const char *dir, const char *name, struct dlr_err *err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return dlr_fail(err, -errno, "cannot remove '%s/%s': %s", dir, name,
                    strerror(errno));
}

static int sync_dir(int dirfd, const char *dir, struct dlr_err *err)
{
    return fsync(dirfd) == 0
               ? 0
               : dlr_fail(err, -errno, "cannot sync '%s': %s", dir, strerror(errno));
}

int dlr_persist_remove(const char *dir, const struct dlr_plan_file *files, unsigned n,
                       bool manifests, dlr_persist_passed_fn passed, void *arg,
                       struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0, first = 0;

    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", dir, strerror(errno));
    for (unsigned i = 0; manifests && rc == 0 && i < n; i++) {
        char name[DLR_PERSIST_NAME];

        if (i > 0 && dlr_version_eq(files[i].copy.version, files[i - 1].copy.version))
            continue;
        dlr_persist_manifest(files[i].copy.version, name, sizeof(name));
        rc = remove_one(fd, dir, name, err);
    }
    if (manifests && rc == 0) /* none is left on the disk when its files go */
        rc = sync_dir(fd, dir, err);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < n; i++) {
        const char *slash = strrchr(files[i].path, '/');

        rc = remove_one(fd, dir, slash ? slash + 1 : files[i].path,
                        first == 0 ? err : NULL);
        first = first == 0 ? rc : first;
        if (passed)
            passed(arg, 1);
    }
    rc = sync_dir(fd, dir, first == 0 ? err : NULL);
    return first < 0 ? first : rc;
}
