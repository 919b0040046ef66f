/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/str.h"

#define BRIEF_MS (18 * 3600 * 1000ll)

void dlr_cli_clean(char *text)
{
    for (char *c = text; *c; c++)
        if (*c == '\r')
            *c = ' ';
    dlr_plain(text);
}

void dlr_cli_span(int64_t ms, char *buf, size_t size)
{
    long long s;

    if (ms < 0)
        ms = 0;
    s = ms / 1000;
    if (ms < 10000)
        snprintf(buf, size, "%.2f s", ms / 1000.0);
    else if (s < 60)
        snprintf(buf, size, "%.1f s", ms / 1000.0);
    else if (s < 3600)
        snprintf(buf, size, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, size, "%lld h %lld min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, size, "%lld d %lld h", s / 86400, s / 3600 % 24);
}

/* Years whose nanoseconds fit 64 bits. */
static bool is_sane(const struct tm *tm)
{
    return tm->tm_year >= 1970 - 1900 && tm->tm_year < 2200 - 1900;
}

int dlr_cli_time_parse(const char *text, int64_t *ret_ms)
{
    struct tm tm = {0};
    unsigned ms = 0;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (!end || !is_sane(&tm))
        return -EINVAL;
    if (*end == '.') {
        char digits[4] = "";

        if (strlen(end) < 5)
            return -EINVAL;
        memcpy(digits, end + 1, 3);
        if (dlr_parse_uint(digits, 999, &ms) < 0)
            return -EINVAL;
        end += 4;
    }
    if (!dlr_streq(end, "Z"))
        return -EINVAL;
    *ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return 0;
}

int dlr_cli_since_parse(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    static const char *const forms[] = {
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
        "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};
    time_t now = now_ms / 1000;
    int64_t span;

    if (dlr_parse_duration_ms(text, &span) == 0) {
        *ret_ms = now_ms - span;
        return 0;
    }
    if (dlr_cli_time_parse(text, ret_ms) == 0)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct tm tm = {0};
        const char *end;

        if (forms[i][1] == 'H')
            localtime_r(&now, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_isdst = -1;
        end = strptime(text, forms[i], &tm);
        if (!end || !is_sane(&tm) || (*end && !dlr_streq(end, "Z")))
            continue;
        *ret_ms = (int64_t)(*end ? timegm(&tm) : mktime(&tm)) * 1000;
        return 0;
    }
    return -EINVAL;
}

void dlr_cli_time_text(int64_t ms, char *buf, size_t size)
{
    time_t s = ms / 1000;
    char day[32] = "";
    struct tm tm;

    if (localtime_r(&s, &tm))
        strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(buf, size, "%s.%03d", day, (int)(ms % 1000));
}

void dlr_cli_time_brief(int64_t ms, int64_t now_ms, char *buf, size_t size)
{
    bool near = ms > now_ms - BRIEF_MS && ms < now_ms + BRIEF_MS;
    time_t s = ms / 1000;
    struct tm tm;

    buf[0] = '\0';
    if (localtime_r(&s, &tm))
        strftime(buf, size, near ? "%H:%M:%S" : "%m-%d %H:%M", &tm);
}

/* "4-5" from place *i of the list on, which is left behind them. */
static int put_run(const json_t *list, size_t *i, const char *sep, char *buf,
                   size_t size)
{
    json_int_t first = json_integer_value(json_array_get(list, *i)), last = first;

    while (++*i < json_array_size(list) &&
           json_integer_value(json_array_get(list, *i)) == last + 1)
        last++;
    if (last > first)
        return snprintf(buf, size, "%s%lld-%lld", sep, (long long)first,
                        (long long)last);
    return snprintf(buf, size, "%s%lld", sep, (long long)first);
}

void dlr_cli_ranks(const json_t *list, int64_t first, int64_t tasks, char *buf,
                   size_t size)
{
    size_t used = 0;

    if (tasks > 1 && !json_array_size(list))
        snprintf(buf, size, "%lld-%lld", (long long)first,
                 (long long)(first + tasks - 1));
    else if (!json_array_size(list))
        snprintf(buf, size, "%lld", (long long)first);
    for (size_t i = 0; i < json_array_size(list);) {
        char one[64];
        size_t n = put_run(list, &i, used ? "," : "", one, sizeof(one));

        if (used + n + sizeof(",...") > size) {
            snprintf(buf + used, size - used, ",...");
            return;
        }
        memcpy(buf + used, one, n + 1);
        used += n;
    }
}

int64_t dlr_cli_now_ms(void)
{
    return dlr_wall_ns() / 1000000;
}
