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

bool dlr_health_meminfo(const char *text, const char *key, uint64_t *ret_bytes)
{
    const char *at = text;
    uint64_t kib;

    while (at && !dlr_after(at, key)) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at || !dlr_health_number(dlr_after(at, key), &kib) || kib > UINT64_MAX / 1024)
        return false;
    *ret_bytes = kib * 1024;
    return true;
}

unsigned dlr_health_count_list(const char *s)
{
    unsigned n = 0;

    for (;;) {
        uint64_t lo, hi;

        if (!dlr_health_number(s, &lo))
            return 0;
        s += strspn(s, " \t0123456789");
        hi = lo;
        if (*s == '-') {
            if (!dlr_health_number(++s, &hi) || hi < lo)
                return 0;
            s += strspn(s, "0123456789");
        }
        n += (unsigned)(hi - lo + 1);
        if (*s != ',')
            return n;
        s++;
    }
}

unsigned dlr_health_cpus(const struct dlr_health_env *env, const char *which)
{
    char text[4096];

    return dlr_health_text(env, text, sizeof(text), "/sys/devices/system/cpu/%s", which)
               ? dlr_health_count_list(text)
               : 0;
}

bool dlr_health_text(const struct dlr_health_env *env, char *buf, size_t size,
                     const char *fmt, ...)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    text = n < 0 || (size_t)n >= sizeof(path) ? NULL : dlr_health_load(env, path);
    return text && dlr_format(buf, size, "%.*s", (int)strcspn(text, "\n"), text) == 0;
}

bool dlr_health_read(const struct dlr_health_env *env, uint64_t *ret_value,
                     const char *dir, const char *file)
{
    char text[64];

    return dlr_health_text(env, text, sizeof(text), "%s/%s", dir, file) &&
           dlr_health_number(text, ret_value);
}

size_t dlr_health_glob(const struct dlr_health_env *env, const char *pattern,
                       glob_t *ret_paths)
{
    char full[PATH_MAX];

    if (dlr_format(full, sizeof(full), "%s%s", env->root, pattern) < 0 ||
        glob(full, GLOB_BRACE, NULL, ret_paths) != 0)
        return 0;
    return ret_paths->gl_pathc;
}

const char *dlr_health_path(const struct dlr_health_env *env, const glob_t *paths,
                            size_t i)
{
    return paths->gl_pathv[i] + strlen(env->root);
}

const char *dlr_health_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

double dlr_health_days_up(const struct dlr_health_env *env)
{
    uint64_t seconds;

    if (!dlr_health_read(env, &seconds, "/proc", "uptime") || seconds < 86400)
        return 1;
    return (double)seconds / 86400;
}
