/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/open_files.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>

static struct rlimit before;

unsigned dlr_open_files_raise(void)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return 0;
    if (now.rlim_cur < now.rlim_max) {
        struct rlimit more = {now.rlim_max, now.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
            before = now;
            now = more;
        }
    }
    return now.rlim_cur < INT_MAX ? (unsigned)now.rlim_cur : INT_MAX;
}

void dlr_open_files_restore(void)
{
    if (before.rlim_max)
        (void)!setrlimit(RLIMIT_NOFILE, &before);
}

int dlr_open_files_check(unsigned limit, unsigned connections, struct dlr_err *err)
{
    unsigned need = connections + DLR_OPEN_FILES_OWN;

    if (limit >= need)
        return 0;
    return dlr_fail(err, -EMFILE,
                    "%u open files are allowed here (ulimit -Hn) and %u nodes need %u: "
                    "the limit must be raised on the host of the batch script",
                    limit, connections, need);
}
