/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

static FILE *open_new(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode ? 0600 : 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

    if (fd >= 0 && !out)
        close(fd);
    return out;
}

int dlr_cli_replace_file(const char *path, mode_t mode, dlr_cli_write_fn write,
                         void *arg, struct dlr_err *err)
{
    DLR_AUTO_FREE char *part = dlr_format_new("%s.part-%d", path, (int)getpid());
    FILE *out = part ? open_new(part, mode) : NULL;
    bool bad;
    int rc;

    if (!out)
        return dlr_fail(err, -errno, "cannot write '%.300s': %s", path,
                        strerror(errno));
    rc = write(arg, out, err);
    bad = ferror(out) != 0 || (mode && fchmod(fileno(out), mode) != 0);
    bad = fclose(out) != 0 || bad;
    if (rc == 0 && !bad && rename(part, path) == 0)
        return 0;
    if (rc == 0)
        rc = dlr_fail(err, -EIO, "cannot write '%.300s': %s", path, strerror(errno));
    unlink(part);
    return rc;
}
