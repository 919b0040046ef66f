/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define PLAIN_MAX (16u << 10) /* readers that only split at commas take these */
#define DIGITS 9              /* of a number in brackets: more stay in its prefix */
#define RANGE_MAX 65536       /* names of one range that Slurm expands */

/* --- writing ---------------------------------------------------------------------- */

static size_t prefix_of(const char *name)
{
    size_t len = strlen(name), digits = 0;

    while (digits < len && digits < DIGITS &&
           isdigit((unsigned char)name[len - 1 - digits]))
        digits++;
    return len - digits;
}

/* Whether b is the name after a, with numbers written as wide as those of a range from
 * lo on.
 */
static bool follows(const char *a, const char *b, size_t prefix, int width)
{
    char text[DIGITS + 2];

    snprintf(text, sizeof(text), "%0*lu", width, strtoul(a + prefix, NULL, 10) + 1);
    return dlr_streq(text, b + prefix);
}

static bool same_prefix(const char *a, const char *b, size_t prefix)
{
    return b[prefix] && prefix_of(b) == prefix && strncmp(a, b, prefix) == 0;
}

/* "1-3" from names[i] on; the number of names in it. */
static unsigned write_range(const char *const *names, unsigned n, size_t prefix,
                            FILE *f)
{
    int width = (int)strlen(names[0] + prefix);
    unsigned len = 1;

    while (len < n && len < RANGE_MAX && same_prefix(names[0], names[len], prefix) &&
           follows(names[len - 1], names[len], prefix, width))
        len++;
    fputs(names[0] + prefix, f);
    if (len > 1)
        fprintf(f, "-%s", names[len - 1] + prefix);
    return len;
}

/* "n[7,1-3]" from names[0] on; the number of names in it. */
static unsigned write_group(const char *const *names, unsigned n, FILE *f)
{
    size_t prefix = prefix_of(names[0]);
    unsigned len = 0;

    if (!names[0][prefix] || n == 1 || !same_prefix(names[0], names[1], prefix)) {
        fputs(names[0], f);
        return 1;
    }
    fprintf(f, "%.*s", (int)prefix, names[0]);
    for (char sep = '['; len < n && same_prefix(names[0], names[len], prefix);
         sep = ',') {
        fputc(sep, f);
        len += write_range(names + len, n - len, prefix, f);
    }
    fputc(']', f);
    return len;
}

int dlr_hostlist_join(const char *const *names, unsigned n, char **ret)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0, plain = 0;
    DLR_AUTO_FCLOSE FILE *f = open_memstream(&text, &size);
    char *copy;

    for (unsigned i = 0; i < n; i++)
        plain += strlen(names[i]) + 1;
    for (unsigned i = 0; f && i < n;) {
        if (i)
            fputc(',', f);
        if (plain > PLAIN_MAX)
            i += write_group(names + i, n - i, f);
        else
            fputs(names[i++], f);
    }
    if (!f || fflush(f))
        return -ENOMEM;
    if (size > DLR_HOSTLIST_MAX)
        return -E2BIG;
    copy = strdup(text); /* the stream's end writes the pointer once more */
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

/* --- reading ---------------------------------------------------------------------- */

/* "1-3" of a bracket; false: it is something else. */
static bool read_range(struct dlr_hostlist *list)
{
    unsigned lo, hi;
    int first = 0, second = 0;

    if (!isdigit((unsigned char)*list->rest) ||
        sscanf(list->rest, "%9u%n", &lo, &first) != 1)
        return false;
    hi = lo;
    list->rest += first;
    if (*list->rest == '-') {
        if (!isdigit((unsigned char)list->rest[1]) ||
            sscanf(list->rest + 1, "%9u%n", &hi, &second) != 1 || hi < lo)
            return false;
        list->rest += 1 + second;
    }
    list->next = lo;
    list->last = hi;
    list->width = (unsigned)first;
    return true;
}

static bool next_number(struct dlr_hostlist *list, char *buf, size_t size)
{
    if (!list->width && !read_range(list))
        return false;
    if (dlr_format(buf, size, "%.*s%0*u", (int)list->prefix_len, list->prefix,
                   (int)list->width, list->next) < 0)
        return false;
    if (list->next++ < list->last)
        return true;
    list->width = 0;
    if (*list->rest == ']') {
        list->prefix = NULL;
        list->rest++;
        if (*list->rest == ',' && list->rest[1])
            list->rest++;
        return true;
    }
    if (*list->rest != ',')
        return false;
    list->rest++;
    return true;
}

bool dlr_hostlist_next(struct dlr_hostlist *list, char *buf, size_t size)
{
    size_t len;

    if (list->prefix)
        return next_number(list, buf, size);
    len = strcspn(list->rest, ",[");
    if (list->rest[len] == '[') {
        list->prefix = list->rest;
        list->prefix_len = len;
        list->rest += len + 1;
        return next_number(list, buf, size);
    }
    if (len == 0 || dlr_format(buf, size, "%.*s", (int)len, list->rest) < 0)
        return false;
    list->rest += len + (list->rest[len] == ',');
    return true;
}

bool dlr_hostlist_is_over(const struct dlr_hostlist *list)
{
    return !list->prefix && !*list->rest;
}
