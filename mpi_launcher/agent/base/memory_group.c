/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/memory_group.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"

/* "0::/a/b" of version 2, "7:cpu,memory:/a/b" of version 1. */
static char *group_of(char *line, bool v2)
{
    char *group = strstr(line, ":/"), *memory = strstr(line, ":memory:");

    line[strcspn(line, "\n")] = '\0';
    if (!group || (v2 ? strncmp(line, "0::", 3) != 0 : !memory || memory > group))
        return NULL;
    return group[2] ? group + 1 : group + 2;
}

bool dlr_memory_group(const char *root, const char *process, bool v2, char *buf,
                      size_t size)
{
    char path[PATH_MAX], line[PATH_MAX];
    bool found = false;
    FILE *f;

    if (dlr_format(path, sizeof(path), "%s/proc/%s/cgroup", root, process) < 0)
        return false;
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        const char *group = group_of(line, v2);

        found = group && dlr_format(buf, size, "%s", group) == 0;
    }
    if (f)
        fclose(f);
    return found;
}

int dlr_memory_group_path(const char *root, bool v2, const char *group,
                          const char *name, char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/sys/fs/cgroup%s%s/%s", root, v2 ? "" : "/memory",
                      group, name);
}

static uint64_t read_counter(int fd)
{
    static const char name[] = "oom_kill ";
    char text[512];
    const char *at;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    if (n <= 0)
        return 0; /* the cgroup is gone */
    text[n] = '\0';
    at = strncmp(text, name, strlen(name)) == 0 ? text : strstr(text, "\noom_kill ");
    return at ? strtoull(at + strlen(name) + (*at == '\n'), NULL, 10) : 0;
}

void dlr_memory_kills_open(const char *root, pid_t pid, struct dlr_memory_kills *ret)
{
    static const char *const names[] = {"memory.oom_control", "memory.events"};
    char process[16], group[PATH_MAX], own[PATH_MAX], path[PATH_MAX];

    *ret = (struct dlr_memory_kills){.fd = -1};
    dlr_format(process, sizeof(process), "%d", (int)pid);
    for (int v2 = 0; v2 < 2 && ret->fd < 0; v2++)
        if (dlr_memory_group(root, process, v2, group, sizeof(group)) && group[0] &&
            !(dlr_memory_group(root, "self", v2, own, sizeof(own)) &&
              dlr_streq(own, group)) && /* ours: it is not for its step alone */
            dlr_memory_group_path(root, v2, group, names[v2], path, sizeof(path)) == 0)
            ret->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (ret->fd >= 0)
        ret->before = read_counter(ret->fd);
}

uint64_t dlr_memory_kills_close(struct dlr_memory_kills *kills)
{
    uint64_t now;

    if (kills->fd < 0)
        return 0;
    now = read_counter(kills->fd);
    close(kills->fd);
    kills->fd = -1;
    return now > kills->before ? now - kills->before : 0;
}
