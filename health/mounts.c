/* SPDX-License-Identifier: Apache-2.0 */
/* File systems that the kernel has made read-only, or found errors in. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

/* Those that are written to, of this node's own disks. */
static bool is_disk(const char *type)
{
    static const char *const types[] = {"ext2",  "ext3", "ext4", "xfs",
                                        "btrfs", "f2fs", "jfs"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (dlr_streq(types[i], type))
            return true;
    return false;
}

static bool has_option(const char *options, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = options; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, size) == 0 && (!at[size] || at[size] == ','))
            return true;
    }
    return false;
}

/* A line of mountinfo (proc(5)). Whoever mounts read-only makes the mount and its file
 * system so; the kernel that gives up on a disk makes only the file system so.
 */
static bool given_up(const char *line, char place[128])
{
    char mount[64], type[32], super[512];
    const char *tail = strstr(line, " - ");

    return tail && sscanf(line, "%*s %*s %*s %*s %127s %63[^, ]", place, mount) == 2 &&
           sscanf(tail, " - %31s %*s %511s", type, super) == 2 &&
           dlr_streq(mount, "rw") && is_disk(type) && has_option(super, "ro");
}

static unsigned look_at_mounts(char *text, struct dlr_health_result *ret)
{
    char *line, *rest = text, place[128];
    unsigned n = 0;

    for (; (line = strsep(&rest, "\n")); n += strstr(line, " - ") != NULL)
        if (given_up(line, place))
            dlr_health_add(ret, DLR_HEALTH_DRAIN, "the kernel has made '%s' read-only",
                           place);
    return n;
}

static void look_at_errors(const struct dlr_health_env *env,
                           struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t disks = {0};
    size_t n = dlr_health_glob(env, "/sys/fs/ext4/*/errors_count", &disks);
    uint64_t played;

    if (dlr_health_injected_count(env, "mounts.errors", &played) && played)
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "ext4 has recorded %" PRIu64 " errors on a disk, limit 0",
                       played);
    for (size_t i = 0; i < n; i++) {
        char dir[256];
        uint64_t errors;

        if (dlr_format(dir, sizeof(dir), "%s", dlr_health_path(env, &disks, i)) < 0 ||
            !dlr_health_read(env, &errors, "", dir) || !errors)
            continue;
        *strrchr(dir, '/') = '\0';
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "ext4 has recorded %" PRIu64 " errors on %s, limit 0", errors,
                       dlr_health_name(dir));
    }
}

void dlr_health_mounts(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/self/mountinfo");
    unsigned n = text ? look_at_mounts(text, ret) : 0;

    look_at_errors(env, ret);
    if (ret->reason[0])
        return;
    if (n)
        dlr_health_say(ret, DLR_HEALTH_OK, "%u mounts, none given up by the kernel", n);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/proc/self/mountinfo cannot be read");
}
