/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/env.h"

#include <stddef.h>

#include "common/base/str.h"

const char *dlr_env_value(const char *entry, const char *name)
{
    const char *rest = dlr_after(entry, name);

    return rest && *rest == '=' ? rest + 1 : NULL;
}

const char *dlr_env_get(char *const env[], const char *name)
{
    for (size_t i = 0; env && env[i]; i++) {
        const char *value = dlr_env_value(env[i], name);

        if (value)
            return value;
    }
    return NULL;
}
