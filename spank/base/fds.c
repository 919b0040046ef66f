/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/base/fds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

int dlr_fds_close_on_exec(int first)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        unsigned fd;
        int flags;

        if (dlr_parse_uint(entry->d_name, 1u << 30, &fd) < 0 || (int)fd < first)
            continue;
        flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC))
            fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
    return 0;
}
