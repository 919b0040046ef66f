/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/env.h"

#include <stddef.h>

#include "common/base/str.h"

const char *dlr_env_get(char *const env[], const char *name)
{
    for (size_t i = 0; env && env[i]; i++) {
        const char *rest = dlr_after(env[i], name);

        if (rest && *rest == '=')
            return rest + 1;
    }
    return NULL;
}
