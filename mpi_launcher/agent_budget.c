/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent_budget.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/opt.h"
#include "common/str.h"

#define MB 1e6

static void take_least(uint64_t found, uint64_t *least)
{
    if (found > 0 && (*least == 0 || found < *least))
        *least = found;
}

/* The number at the start of a file, such as memory.max; 0 for "max" and for what is not there. */
static uint64_t read_number(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return 0;
    if (fscanf(f, "%llu", &n) != 1)
        n = 0;
    fclose(f);
    return n;
}

static uint64_t total(const char *root)
{
    char path[PATH_MAX], line[128];
    unsigned long long kb = 0;
    FILE *f;

    if (dlr_format(path, sizeof(path), "%s/proc/meminfo", root) < 0)
        return 0;
    f = fopen(path, "re");
    while (f && kb == 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemTotal: %llu kB", &kb) != 1)
            kb = 0;
    if (f)
        fclose(f);
    return (uint64_t)kb << 10;
}

/* The limits of a cgroup and of those above it. */
static void climb(const char *root, const char *top, char *group, const char *file,
                  uint64_t *least)
{
    char path[PATH_MAX];

    for (;;) {
        char *slash;

        if (dlr_format(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, top, group,
                       file) == 0)
            take_least(read_number(path), least);
        slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

uint64_t dlr_budget_node(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t least = total(root);
    FILE *f;

    if (dlr_format(path, sizeof(path), "%s/proc/self/cgroup", root) < 0)
        return least;
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *group = strstr(line, ":/"), *memory = strstr(line, ":memory:");

        line[strcspn(line, "\n")] = '\0';
        if (group && strncmp(line, "0::", 3) == 0)
            climb(root, "", group + 1, "memory.max", &least);
        else if (group && memory && memory < group)
            climb(root, "/memory", group + 1, "memory.limit_in_bytes", &least);
    }
    if (f)
        fclose(f);
    return least;
}

int dlr_budget_check(const struct dlr_budget *budget, int32_t rank, unsigned slots,
                     uint64_t bytes, unsigned others, uint64_t all_others,
                     struct dlr_err *err)
{
    uint64_t limit = dlr_opt_share(budget->option, budget->node), sum;

    if (!__builtin_mul_overflow(bytes, (uint64_t)slots, &sum) &&
        !__builtin_add_overflow(sum, all_others, &sum) && sum <= limit)
        return 0;
    return dlr_fail(
        err, -EDQUOT,
        "snapshots do not fit: %u x %.1f MB for rank %" PRId32
        " and %.1f MB for %u others here are %.1f MB, --dlrover-ckpt-mem=%s of "
        "the %.1f MB that the job has on this node allows %.1f MB",
        slots, (double)bytes / MB, rank, (double)all_others / MB, others,
        ((double)bytes * slots + (double)all_others) / MB, budget->option,
        (double)budget->node / MB, (double)limit / MB);
}
