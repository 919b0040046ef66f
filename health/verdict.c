/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts, their names and their reasons. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "health/checks.h"

static const char *const names[] = {
    [DLR_HEALTH_OK] = "ok",       [DLR_HEALTH_SKIP] = "skip",
    [DLR_HEALTH_WARN] = "warn",   [DLR_HEALTH_FAIL] = "fail",
    [DLR_HEALTH_DRAIN] = "drain",
};

const char *dlr_health_verdict_name(enum dlr_health_verdict v)
{
    return names[v];
}

const char *dlr_health_level_name(enum dlr_health_level level)
{
    return level == DLR_HEALTH_QUICK ? "quick" : "full";
}

int dlr_health_verdict_parse(const char *name)
{
    int v;

    for (v = DLR_HEALTH_OK; v <= DLR_HEALTH_DRAIN; v++)
        if (dlr_streq(names[v], name))
            return v;
    return -EINVAL;
}

enum dlr_health_verdict dlr_health_worst(const struct dlr_health_result *r, size_t n)
{
    enum dlr_health_verdict worst = DLR_HEALTH_OK;
    size_t i;

    for (i = 0; i < n; i++)
        if (r[i].verdict != DLR_HEALTH_SKIP && r[i].verdict > worst)
            worst = r[i].verdict;
    return worst;
}

__attribute__((format(printf, 3, 0))) static void
say(struct dlr_health_result *ret, size_t at, const char *fmt, va_list ap)
{
    vsnprintf(ret->reason + at, sizeof(ret->reason) - at, fmt, ap);
    for (char *p = ret->reason; *p;
         p++) /* it travels as JSON, a path can be any bytes */
        if (*p < ' ' || *p > '~')
            *p = '?';
}

void dlr_health_say(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...)
{
    va_list ap;

    ret->verdict = verdict;
    va_start(ap, fmt);
    say(ret, 0, fmt, ap);
    va_end(ap);
}

void dlr_health_add(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...)
{
    size_t at = strlen(ret->reason);
    va_list ap;

    if (at && verdict < ret->verdict)
        return;
    if (verdict > ret->verdict)
        at = 0;
    if (at && dlr_format(ret->reason + at, sizeof(ret->reason) - at, "; ") < 0)
        return;
    at += at ? strlen("; ") : 0;
    ret->verdict = verdict;
    va_start(ap, fmt);
    say(ret, at, fmt, ap);
    va_end(ap);
}
