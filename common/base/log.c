/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/str.h"

#define LINE_MAX_BYTES 1024

static void to_stderr(void *arg, enum dlr_log_level level, const char *text)
{
    fprintf(stderr, "dlr: %s\n", text);
}

static struct {
    dlr_log_fn fn;
    void *arg;
    enum dlr_log_level max;
} sink = {to_stderr, NULL, DLR_LOG_INFO};

static const char *const level_names[] = {
    [DLR_LOG_ERROR] = "error",
    [DLR_LOG_WARN] = "warn",
    [DLR_LOG_INFO] = "info",
    [DLR_LOG_DEBUG] = "debug",
};

void dlr_log_to(dlr_log_fn fn, void *arg, enum dlr_log_level max)
{
    sink.fn = fn ? fn : to_stderr;
    sink.arg = fn ? arg : NULL;
    sink.max = max;
}

int dlr_log_level_parse(const char *text)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++)
        if (dlr_streq(text, level_names[i]))
            return (int)i;
    return -EINVAL;
}

void dlr_log(enum dlr_log_level level, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES];
    va_list ap;

    if (level > sink.max)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dlr_plain(text); /* what others sent is quoted in here */
    sink.fn(sink.arg, level, text);
}
