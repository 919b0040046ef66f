/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/stacks/rank_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_TEXT 20 /* ",16777215-16777215" and its NUL */

/* The first range that ends at rank or later. */
static size_t find(const struct dlr_rank_set *set, uint32_t rank)
{
    size_t low = 0, high = set->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (set->ranges[middle].last < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(struct dlr_rank_set *set)
{
    size_t room = set->room ? 2 * set->room : 4;
    struct dlr_rank_range *ranges;

    if (set->n < set->room)
        return 0;
    ranges = reallocarray(set->ranges, room, sizeof(*ranges));
    if (!ranges)
        return -ENOMEM;
    set->ranges = ranges;
    set->room = room;
    return 0;
}

int dlr_rank_set_add(struct dlr_rank_set *set, uint32_t first, uint32_t last)
{
    size_t from = find(set, first ? first - 1 : 0), to = from;

    while (to < set->n && set->ranges[to].first <= last + 1) {
        if (set->ranges[to].first < first)
            first = set->ranges[to].first;
        if (set->ranges[to].last > last)
            last = set->ranges[to].last;
        to++;
    }
    if (to == from) {
        if (grow(set) < 0)
            return -ENOMEM;
        memmove(set->ranges + from + 1, set->ranges + from,
                (set->n - from) * sizeof(*set->ranges));
        set->n++;
    } else {
        memmove(set->ranges + from + 1, set->ranges + to,
                (set->n - to) * sizeof(*set->ranges));
        set->n -= to - from - 1;
    }
    set->ranges[from] = (struct dlr_rank_range){first, last};
    return 0;
}

int dlr_rank_set_add_all(struct dlr_rank_set *set, const struct dlr_rank_set *other)
{
    int rc = 0;

    for (size_t i = 0; i < other->n && rc == 0; i++)
        rc = dlr_rank_set_add(set, other->ranges[i].first, other->ranges[i].last);
    return rc;
}

/* The number at *at, which moves behind it; false when there is none below the end. */
static bool read_rank(const char **at, uint32_t *ret)
{
    const char *c = *at;
    uint32_t rank = 0;

    while (*c >= '0' && *c <= '9' && rank < DLR_RANK_SET_END)
        rank = rank * 10 + (uint32_t)(*c++ - '0');
    if (c == *at || rank >= DLR_RANK_SET_END)
        return false;
    *at = c;
    *ret = rank;
    return true;
}

int dlr_rank_set_parse(const char *text, struct dlr_rank_set *ret, struct dlr_err *err)
{
    struct dlr_rank_set set = {0};
    const char *at = text;
    uint32_t first, last;
    bool good = true;
    int rc = 0;

    while (rc == 0 && good) {
        good = read_rank(&at, &first);
        last = first;
        if (good && *at == '-') {
            at++;
            good = read_rank(&at, &last) && first <= last;
        }
        rc = good ? dlr_rank_set_add(&set, first, last) : 0;
        if (*at != ',')
            break;
        at++;
    }
    if (rc == 0 && good && *at == '\0') {
        *ret = set;
        return 0;
    }
    dlr_rank_set_done(&set);
    if (rc < 0)
        return dlr_fail(err, rc, "out of memory");
    return dlr_fail(err, -EINVAL, "'%.64s' is no list of ranks like 0-4,6", text);
}

size_t dlr_rank_set_count(const struct dlr_rank_set *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->n; i++)
        count += set->ranges[i].last - set->ranges[i].first + 1;
    return count;
}

bool dlr_rank_set_has(const struct dlr_rank_set *set, uint32_t rank)
{
    size_t i = find(set, rank);

    return i < set->n && set->ranges[i].first <= rank;
}

bool dlr_rank_set_equal(const struct dlr_rank_set *a, const struct dlr_rank_set *b)
{
    return a->n == b->n &&
           (a->n == 0 || memcmp(a->ranges, b->ranges, a->n * sizeof(*a->ranges)) == 0);
}

bool dlr_rank_set_text(const struct dlr_rank_set *set, char *buf, size_t size)
{
    char range[RANGE_TEXT];
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < set->n; i++) {
        uint32_t first = set->ranges[i].first, last = set->ranges[i].last;
        int len = snprintf(range, sizeof(range), first == last ? "%s%u" : "%s%u-%u",
                           i ? "," : "", first, last);

        /* room stays for what says that it is cut */
        if (used + (size_t)len + sizeof(",...") > size) {
            memcpy(buf + used, ",...", sizeof(",..."));
            return false;
        }
        memcpy(buf + used, range, (size_t)len + 1);
        used += (size_t)len;
    }
    return true;
}

void dlr_rank_set_done(struct dlr_rank_set *set)
{
    free(set->ranges);
    *set = (struct dlr_rank_set){0};
}
