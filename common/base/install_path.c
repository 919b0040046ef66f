/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/install_path.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/str.h"

int dlr_process_keep_secrets(void)
{
    return prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;
}

int dlr_process_keep_code(void)
{
    return mlockall(MCL_CURRENT) < 0 ? -errno : 0;
}

int dlr_install_path_sibling(const char *name, char *buf, size_t size)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash;

    if (n < 0)
        return -errno;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (!slash)
        return -ENOENT;
    *slash = '\0';
    return dlr_format(buf, size, "%s/%s", exe, name);
}
