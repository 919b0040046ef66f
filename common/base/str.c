/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_WORD 32 /* a longer word is nobody's slip of a short one */
#define MAX_SLIPS 2 /* letters wrong, missing, too many or swapped */

bool dlr_streq(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

const char *dlr_after(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    return s && strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

const char *dlr_below(const char *path, const char *dir)
{
    const char *rest = dlr_after(path, dir);

    return rest && rest[0] == '/' && rest[1] ? rest + 1 : NULL;
}

int dlr_format(char *buf, size_t size, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(buf, size, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < size)
        return 0;
    if (size > 0)
        buf[0] = '\0';
    return -ENAMETOOLONG;
}

char *dlr_vformat_new(const char *fmt, va_list ap)
{
    char *text = NULL;

    return vasprintf(&text, fmt, ap) < 0 ? NULL : text;
}

char *dlr_format_new(const char *fmt, ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = dlr_vformat_new(fmt, ap);
    va_end(ap);
    return text;
}

/* Digits at *text; leaves *text behind them. strtoull would take signs, blanks and a
 * base.
 */
static int digits(const char **text, uint64_t *ret_value)
{
    const char *p = *text;
    uint64_t value = 0;

    if (!p || !isdigit((unsigned char)*p))
        return -EINVAL;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return -ERANGE;
    *text = p;
    *ret_value = value;
    return 0;
}

int dlr_parse_uint(const char *text, unsigned max, unsigned *ret_value)
{
    uint64_t value;
    int rc = digits(&text, &value);

    if (rc < 0)
        return rc;
    if (*text)
        return -EINVAL;
    if (value > max)
        return -ERANGE;
    *ret_value = (unsigned)value;
    return 0;
}

int dlr_parse_ports(const char *text, unsigned *ret_first, unsigned *ret_last)
{
    const char *dash = strchr(text, '-');
    char first[16];
    int rc;

    if (!dash) {
        rc = dlr_parse_uint(text, 65535, ret_first);
        *ret_last = *ret_first;
        return rc;
    }
    if (dlr_format(first, sizeof(first), "%.*s", (int)(dash - text), text) < 0)
        return -EINVAL;
    rc = dlr_parse_uint(first, 65535, ret_first);
    if (rc == 0)
        rc = dlr_parse_uint(dash + 1, 65535, ret_last);
    return rc == 0 && *ret_first > *ret_last ? -EINVAL : rc;
}

int dlr_parse_duration_ms(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        unsigned ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    uint64_t value;
    int rc = digits(&text, &value);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!dlr_streq(text, units[i].unit))
            continue;
        if (__builtin_mul_overflow(value, units[i].ms, &value) || value > INT32_MAX)
            return -ERANGE;
        *ret_ms = (int64_t)value;
        return 0;
    }
    return -EINVAL;
}

/* The power of two a size's unit stands for, -EINVAL for an unknown one. */
static int size_shift(const char *unit)
{
    static const char letters[] = "kmgtp";
    const char *letter;

    if (!*unit)
        return 0;
    letter = strchr(letters, tolower((unsigned char)*unit));
    if (letter)
        unit++;
    if (*unit && strcasecmp(unit, "b") != 0 && (!letter || strcasecmp(unit, "ib") != 0))
        return -EINVAL;
    return letter ? 10 * (int)(letter - letters + 1) : 0;
}

int dlr_parse_size(const char *text, uint64_t *ret_bytes)
{
    uint64_t value;
    int rc = digits(&text, &value);
    int shift;

    if (rc < 0)
        return rc;
    shift = size_shift(text);
    if (shift < 0)
        return shift;
    if (value > UINT64_MAX >> shift)
        return -ERANGE;
    *ret_bytes = value << shift;
    return 0;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned n = a < b ? a : b;

    return n < c ? n : c;
}

/* Letters to change, add, drop or swap to make b of a; both are short. */
static unsigned slips(const char *a, const char *b)
{
    unsigned d[MAX_WORD + 1][MAX_WORD + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX_WORD || nb > MAX_WORD)
        return MAX_WORD;
    for (size_t i = 0; i <= na; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1,
                            d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1, MAX_WORD);
        }
    return d[na][nb];
}

const char *dlr_nearest(const char *word, const char *const *names, size_t n)
{
    unsigned best = MAX_SLIPS + 1;
    const char *ret = NULL;

    for (size_t i = 0; i < n; i++) {
        unsigned far = slips(word, names[i]);

        if (strlen(word) >= 3 && dlr_after(names[i], word))
            far = 1; /* the beginning of the right word */
        if (far < best && far < strlen(word)) {
            best = far;
            ret = names[i];
        }
    }
    return ret;
}

void dlr_plain(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < ' ' || *p == 0x7f)
            *p = *p == '\n' || *p == '\t' ? ' ' : '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* U+0080 to U+009F */
            p[0] = p[1] = '?';
    }
}
