/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/process_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

/* Fields of proc(5) not asked for. */
#define EIGHT "%*s %*s %*s %*s %*s %*s %*s %*s"
#define NINE EIGHT " %*s"

/* What /proc says of pid; -ESRCH when there is nothing. */
static int read_stat(pid_t pid, char *ret_state, int *ret_parent,
                     unsigned long long *ret_start)
{
    DLR_AUTO_CLOSE int fd = -1;
    char path[64], text[1024], *p;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name before it may hold anything */
    if (!p || sscanf(p + 1, " %c %d " EIGHT " " NINE " %llu", ret_state, ret_parent,
                     ret_start) != 3)
        return -ESRCH;
    return 0;
}

pid_t dlr_procid_parent(pid_t pid)
{
    unsigned long long start;
    int parent, rc;
    char state;

    rc = read_stat(pid, &state, &parent, &start);
    return rc < 0 ? rc : parent;
}

int dlr_procid_state(pid_t pid, uint64_t *ret_start, char *ret_state)
{
    unsigned long long start;
    int parent, rc;

    rc = read_stat(pid, ret_state, &parent, &start);
    if (rc == 0)
        *ret_start = start;
    return rc;
}

int dlr_procid_of(pid_t pid, struct dlr_procid *ret)
{
    struct dlr_procid id = {.pid = pid};
    int parent, rc;
    char state;

    rc = read_stat(pid, &state, &parent, &id.start);
    if (rc < 0)
        return rc;
    if (state == 'Z' || state == 'X')
        return -ESRCH;
    if (gethostname(id.host, sizeof(id.host) - 1) < 0)
        return -errno;
    *ret = id;
    return 0;
}

bool dlr_procid_alive(const struct dlr_procid *id)
{
    struct dlr_procid now;

    return id->pid > 1 && dlr_procid_of(id->pid, &now) == 0 && now.start == id->start &&
           dlr_streq(now.host, id->host);
}

void dlr_procid_show(const struct dlr_procid *id, char text[DLR_PROCID_TEXT])
{
    snprintf(text, DLR_PROCID_TEXT, "%d %llu %s", (int)id->pid, id->start, id->host);
}

int dlr_procid_parse(const char *text, struct dlr_procid *ret)
{
    struct dlr_procid id = {0};
    int pid;

    if (sscanf(text, "%d %llu %64s", &pid, &id.start, id.host) != 3 || pid <= 1)
        return -EBADMSG;
    id.pid = pid;
    *ret = id;
    return 0;
}
