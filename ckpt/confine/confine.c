/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/confine/confine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/base/install_path.h"

static int no_new_privileges(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int no_core(void)
{
    const struct rlimit none = {0, 0};

    return setrlimit(RLIMIT_CORE, &none) < 0 ? -errno : 0;
}

void dlr_confine(const struct dlr_confine *c, char *ret, size_t size)
{
    const struct {
        const char *name;
        int rc;
    } steps[] = {
        {"memory closed to others", dlr_process_keep_secrets()},
        {"no core file", no_core()},
        {"no new privileges", no_new_privileges()},
        {"files", dlr_confine_files(c)},
        {"system calls", dlr_confine_calls(c)},
    };
    size_t used = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        int n = steps[i].rc < 0 && used < size
                    ? snprintf(ret + used, size - used, "%s%s (%s)", used ? ", " : "",
                               steps[i].name, strerror(-steps[i].rc))
                    : 0;

        used += n > 0 ? (size_t)n : 0;
    }
}
