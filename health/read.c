/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc and /sys, and the numbers in them. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "health/checks.h"

#define PROC_FILE_MAX (1u << 20)

char *dlr_health_load(const struct dlr_health_env *env, const char *path)
{
    char full[PATH_MAX], *text = NULL;
    size_t size;

    if (dlr_format(full, sizeof(full), "%s%s", env->root, path) < 0 ||
        dlr_file_load(AT_FDCWD, full, PROC_FILE_MAX, &text, &size, NULL) < 0)
        return NULL;
    return text;
}

bool dlr_health_number(const char *s, uint64_t *ret_value)
{
    uint64_t value = 0;

    s += strspn(s, " \t");
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
            return false;
    *ret_value = value;
    return true;
}

bool dlr_health_read(const struct dlr_health_env *env, uint64_t *ret_value,
                     const char *fmt, ...)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(path))
        return false;
    text = dlr_health_load(env, path);
    return text && dlr_health_number(text, ret_value);
}
