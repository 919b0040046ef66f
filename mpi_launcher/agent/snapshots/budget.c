/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/snapshots/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/config/opt.h"
#include "mpi_launcher/agent/base/memory_group.h"

#define MB 1e6

/* What one cgroup, or the node, has. */
struct level {
    uint64_t limit, used; /* limit 0: none */
};

static void take_least(const struct level *l, struct dlr_budget *least)
{
    uint64_t apart = l->used + l->limit / DLR_BUDGET_SPARE;
    uint64_t left = l->limit > apart ? l->limit - apart : 0;

    if (l->limit == 0)
        return;
    if (least->node == 0 || l->limit < least->node)
        least->node = l->limit;
    if (left < least->free)
        least->free = left;
}

/* The numbers that follow the names in a file of "name number" lines, added up; a name
 * may be "" in a file that is one number. 0 for "max" and for what is not there.
 */
static uint64_t read_sum(const char *path, const char *const *names, size_t n)
{
    FILE *f = fopen(path, "re");
    uint64_t sum = 0;
    char line[128];

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        for (size_t i = 0; i < n; i++) {
            size_t len = strlen(names[i]);

            if (strncmp(line, names[i], len) == 0 &&
                (len == 0 || line[len] == ' ' || line[len] == ':'))
                sum += strtoull(line + len + (len > 0), NULL, 10);
        }
    }
    fclose(f);
    return sum;
}

static uint64_t read_number(const char *path)
{
    static const char *const whole[] = {""};

    return read_sum(path, whole, 1);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void look_node(const char *root, struct dlr_budget *least)
{
    static const char *const total[] = {"MemTotal"}, *const available[] = {
                                                         "MemAvailable"};
    char path[PATH_MAX];
    struct level l;

    if (dlr_format(path, sizeof(path), "%s/proc/meminfo", root) < 0)
        return;
    l.limit = read_sum(path, total, 1) << 10;
    l.used = less(l.limit, read_sum(path, available, 1) << 10);
    take_least(&l, least);
}

/* The names of a cgroup's files. */
struct names {
    bool v2;
    const char *limit, *used;
    /* in memory.stat: pages of files, which are given up first */
    const char *const cache[2];
};

static const struct names versions[] = {
    {true, "memory.max", "memory.current", {"inactive_file", "active_file"}},
    {false,
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

static void look_group(const char *root, const struct names *names, const char *group,
                       struct dlr_budget *least)
{
    char path[PATH_MAX];
    struct level l;

    if (dlr_memory_group_path(root, names->v2, group, names->limit, path,
                              sizeof(path)) < 0)
        return;
    l.limit = read_number(path);
    if (dlr_memory_group_path(root, names->v2, group, names->used, path, sizeof(path)) <
        0)
        return;
    l.used = read_number(path);
    if (dlr_memory_group_path(root, names->v2, group, "memory.stat", path,
                              sizeof(path)) < 0)
        return;
    l.used = less(l.used, read_sum(path, names->cache, 2));
    take_least(&l, least);
}

/* A cgroup and those above it. */
static void climb(const char *root, const struct names *names, char *group,
                  struct dlr_budget *least)
{
    for (;;) {
        char *slash;

        look_group(root, names, group, least);
        slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

void dlr_budget_look(const char *root, struct dlr_budget *ret)
{
    char group[PATH_MAX];

    ret->node = 0;
    ret->free = UINT64_MAX;
    look_node(root, ret);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        if (dlr_memory_group(root, "self", versions[i].v2, group, sizeof(group)))
            climb(root, &versions[i], group, ret);
}

int dlr_budget_check(const struct dlr_budget *budget, int32_t rank, unsigned slots,
                     uint64_t bytes, unsigned others, uint64_t all_others,
                     struct dlr_err *err)
{
    uint64_t limit = dlr_opt_share(budget->option, budget->node), sum;
    bool counted = !__builtin_mul_overflow(bytes, (uint64_t)slots, &sum) &&
                   !__builtin_add_overflow(sum, all_others, &sum);
    double all = ((double)bytes * slots + (double)all_others) / MB;

    if (!counted || sum > limit)
        return dlr_fail(
            err, -EDQUOT,
            "snapshots do not fit: %u x %.1f MB for rank %" PRId32
            " and %.1f MB for %u others here are %.1f MB, --dlrover-set=ckpt-mem=%s of "
            "the %.1f MB that the job has on this node allows %.1f MB",
            slots, (double)bytes / MB, rank, (double)all_others / MB, others, all,
            budget->option, (double)budget->node / MB, (double)limit / MB);
    if (__builtin_add_overflow(sum, budget->awaited, &sum))
        sum = UINT64_MAX;
    if (less(sum, budget->there) > budget->free)
        return dlr_fail(
            err, -EDQUOT,
            "snapshots do not fit beside the programs: %u x %.1f MB for rank %" PRId32
            ", %.1f MB for %u others here and %.1f MB to come are %.1f MB, %.1f MB of "
            "that "
            "are there, %.1f MB of the job's or the node's memory are free",
            slots, (double)bytes / MB, rank, (double)all_others / MB, others,
            (double)budget->awaited / MB, all + (double)budget->awaited / MB,
            (double)budget->there / MB, (double)budget->free / MB);
    return 0;
}
