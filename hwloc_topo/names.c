/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_topo/names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares the numbers at a[*i] and b[*j] of any length and steps over them. */
static int cmp_numbers(const char *a, size_t n, size_t *i, const char *b, size_t m,
                       size_t *j)
{
    size_t a0, b0;
    int by_digit;

    while (*i < n && a[*i] == '0')
        (*i)++;
    while (*j < m && b[*j] == '0')
        (*j)++;
    a0 = *i;
    b0 = *j;
    while (*i < n && is_digit(a[*i]))
        (*i)++;
    while (*j < m && is_digit(b[*j]))
        (*j)++;
    if (*i - a0 != *j - b0)
        return *i - a0 < *j - b0 ? -1 : 1;
    by_digit = memcmp(a + a0, b + b0, *i - a0);
    return by_digit;
}

int dlr_topo_name_cmp(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, j = 0;
    int rc;

    while (i < n && j < m) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            rc = cmp_numbers(a, n, &i, b, m, &j);
            if (rc)
                return rc;
            continue;
        }
        if (a[i] != b[j])
            return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
        i++;
        j++;
    }
    if (i < n || j < m)
        return i < n ? 1 : -1;
    rc = memcmp(a, b, n < m ? n : m);
    if (rc)
        return rc;
    return n < m ? -1 : n > m;
}

size_t dlr_topo_above(const struct dlr_topo_node *node)
{
    size_t path = strlen(node->path), name = strlen(node->name);
    const char *dot;

    if (name && path > name && node->path[path - name - 1] == '.' &&
        dlr_streq(node->path + path - name, node->name))
        return path - name - 1;
    if (dlr_streq(node->path, node->name))
        return 0;
    dot = strrchr(node->path, '.');
    return dot ? (size_t)(dot - node->path) : 0;
}

static size_t component(const char *path, size_t n)
{
    const char *dot = memchr(path, '.', n);

    return dot ? (size_t)(dot - path) : n;
}

int dlr_topo_path_cmp(const char *a, size_t n, const char *b, size_t m)
{
    while (n && m) {
        size_t i = component(a, n), j = component(b, m);
        int rc = dlr_topo_name_cmp(a, i, b, j);

        if (rc)
            return rc;
        i += i < n;
        j += j < m;
        a += i;
        n -= i;
        b += j;
        m -= j;
    }
    return n ? 1 : m ? -1 : 0;
}

/* --- lists ------------------------------------------------------------------------ */

struct expand {
    dlr_topo_name_fn fn;
    void *arg;
    unsigned count;
};

static int emit(struct expand *x, const char *head, size_t nhead, const char *body,
                const char *tail, size_t ntail)
{
    char name[DLR_TOPO_NAME];

    if (++x->count > DLR_TOPO_EXPAND_MAX)
        return -EBADMSG;
    if (dlr_format(name, sizeof(name), "%.*s%s%.*s", (int)nhead, head, body, (int)ntail,
                   tail) < 0 ||
        !name[0])
        return -EBADMSG;
    return x->fn(name, x->arg);
}

/* Reads digits at *p; *ret_width is how many there were. */
static int read_number(const char **p, const char *end, unsigned *ret_value,
                       int *ret_width)
{
    unsigned long value = 0;
    const char *start = *p;

    while (*p < end && is_digit(**p) && *p - start < 9)
        value = value * 10 + (unsigned)(*(*p)++ - '0');
    if (*p == start || (*p < end && is_digit(**p)))
        return -EBADMSG;
    *ret_value = (unsigned)value;
    *ret_width = (int)(*p - start);
    return 0;
}

/* One "lo" or "lo-hi" between brackets. */
static int expand_range(struct expand *x, const char **p, const char *close,
                        const char *head, size_t nhead, const char *tail, size_t ntail)
{
    unsigned lo, hi, i;
    int width, ignored, rc;
    char body[16];

    rc = read_number(p, close, &lo, &width);
    hi = lo;
    if (rc == 0 && *p < close && **p == '-') {
        (*p)++;
        rc = read_number(p, close, &hi, &ignored);
    }
    if (rc < 0 || hi < lo || (*p < close && **p != ','))
        return -EBADMSG;
    if (*p < close && ++*p == close)
        return -EBADMSG;
    for (i = lo; i <= hi; i++) {
        if (dlr_format(body, sizeof(body), "%0*u", width, i) < 0)
            return -EBADMSG;
        rc = emit(x, head, nhead, body, tail, ntail);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* One item of the list; at most one pair of brackets. */
static int expand_item(struct expand *x, const char *item, size_t size)
{
    const char *open = memchr(item, '[', size), *close = memchr(item, ']', size);
    const char *end = item + size, *p;
    int rc = 0;

    if (!open && !close)
        return emit(x, item, size, "", "", 0);
    if (!open || !close || close < open + 2 ||
        memchr(open + 1, '[', (size_t)(end - open - 1)) ||
        memchr(close + 1, ']', (size_t)(end - close - 1)))
        return -EBADMSG;
    for (p = open + 1; rc == 0 && p < close;)
        rc = expand_range(x, &p, close, item, (size_t)(open - item), close + 1,
                          (size_t)(end - close - 1));
    return rc;
}

int dlr_topo_expand(const char *list, size_t size, dlr_topo_name_fn fn, void *arg)
{
    struct expand x = {fn, arg, 0};
    size_t start = 0, i;
    int depth = 0, rc;

    for (i = 0; i <= size; i++) {
        if (i < size && list[i] == '[')
            depth++;
        if (i < size && list[i] == ']')
            depth--;
        if (i < size && (list[i] != ',' || depth > 0))
            continue;
        rc = expand_item(&x, list + start, i - start);
        if (rc < 0)
            return rc;
        start = i + 1;
    }
    return 0;
}
