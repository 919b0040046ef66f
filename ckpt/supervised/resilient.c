/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/resilient.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckpt/supervised/lease.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/local/agent_socket.h"
#include "common/local/message.h"

#define ENVIRONMENT_MAX (8u << 20)

struct dlr_resilient {
    int sock;
    uint32_t round;
    int32_t rank;
    atomic_bool ended, gone;
    struct dlr_local_msg msg; /* scratch of who waits */
};

static int say(struct dlr_resilient *r, enum dlr_local_type type)
{
    dlr_local_init(&r->msg, type);
    r->msg.round = r->round;
    r->msg.rank = r->rank;
    return dlr_local_send(r->sock, &r->msg, NULL, 0);
}

/* The next message of this type; its descriptors are the caller's. */
static int await(struct dlr_resilient *r, enum dlr_local_type type,
                 int fds[DLR_LOCAL_FDS], unsigned *ret_nfds)
{
    for (;;) {
        int rc = dlr_local_recv(r->sock, &r->msg, fds, ret_nfds);

        if (rc > 0 && r->msg.type == type)
            return 0;
        for (unsigned i = 0; rc > 0 && i < *ret_nfds; i++)
            close(fds[i]);
        if (rc <= 0 && rc != -EINTR && rc != -EAGAIN) {
            atomic_store(&r->gone, true);
            return -ECONNRESET;
        }
    }
}

int dlr_resilient_wait(struct dlr_resilient *r, int timeout_ms)
{
    struct pollfd item = {.fd = r->sock, .events = POLLIN};
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    if (atomic_load(&r->ended))
        return 1;
    if (atomic_load(&r->gone))
        return -ECONNRESET;
    rc = poll(&item, 1, timeout_ms);
    if (rc <= 0)
        return rc < 0 && errno != EINTR ? -errno : 0;
    rc = await(r, DLR_LOCAL_PARK, fds, &nfds);
    for (unsigned i = 0; rc == 0 && i < nfds; i++)
        close(fds[i]);
    if (rc < 0)
        return rc;
    atomic_store(&r->ended, true);
    return 1;
}

/* --- in the next round ------------------------------------------------------------ */

/* What says where a task is. Everything else stays as the program has it. */
static bool is_of_round(const char *entry)
{
    static const char *const names[] = {
        "RANK=",       "WORLD_SIZE=",  "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=",
        "GROUP_RANK=", "MASTER_ADDR=", "MASTER_PORT=", "NODE_RANK=",
        "SLURM_",      "SLURMD_",      "DLROVER_",     NULL};

    for (const char *const *name = names; *name; name++)
        if (dlr_after(entry, *name))
            return true;
    return false;
}

static void take_environment(int fd, bool all)
{
    off_t size = lseek(fd, 0, SEEK_END);
    DLR_AUTO_FREE char *text =
        size > 0 && size <= ENVIRONMENT_MAX ? malloc((size_t)size + 1) : NULL;

    if (!text || pread(fd, text, (size_t)size, 0) != size)
        return;
    text[size] = '\0';
    for (char *entry = text; entry < text + size; entry += strlen(entry) + 1) {
        char *value = strchr(entry, '=');

        if (!value || (!all && !is_of_round(entry)))
            continue;
        *value = '\0';
        setenv(entry, value + 1, 1);
        *value = '=';
    }
}

/* The round has come: the task that stands for us says where we are in it. */
static int join(struct dlr_resilient *r, bool all)
{
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;

    if (await(r, DLR_LOCAL_JOIN, fds, &nfds) < 0)
        return -ECONNRESET;
    if (nfds == 3) {
        dup2(fds[0], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        take_environment(fds[2], all);
    }
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    r->round = r->msg.round;
    r->rank = r->msg.rank;
    return 0;
}

int dlr_resilient_next(struct dlr_resilient *r)
{
    if (!atomic_load(&r->ended))
        return -EAGAIN;
    fflush(NULL);
    dlr_lease_rest();
    if (say(r, DLR_LOCAL_PARKED) < 0 || join(r, false) < 0)
        return -ECONNRESET;
    atomic_store(&r->ended, false);
    return 0;
}

/* --- the first -------------------------------------------------------------------- */

static int say_first(struct dlr_resilient *r, enum dlr_local_type type)
{
    struct timeval none = {0};
    int rc = dlr_agent_socket_connect(DLR_CONNECT_MS, &r->sock, NULL);

    if (rc < 0)
        return rc;
    setsockopt(r->sock, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    rc = say(r, type);
    if (rc < 0)
        close(r->sock);
    return rc;
}

/* All threads that there are by now run where the task may that stands for us. */
static void take_cpus(pid_t task)
{
    DLR_AUTO_CLOSEDIR DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    cpu_set_t cpus;

    if (!threads || task <= 1 || sched_getaffinity(task, sizeof(cpus), &cpus) < 0)
        return;
    while ((entry = readdir(threads)))
        if (entry->d_name[0] != '.')
            sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof(cpus),
                              &cpus);
}

/* It has run ahead, and has no rank yet. */
static int open_warm(struct dlr_resilient *r)
{
    int rc;

    r->rank = -1;
    fflush(NULL); /* it is not of the round */
    rc = say_first(r, DLR_LOCAL_WARM);
    if (rc < 0)
        return rc;
    if (join(r, true) < 0) {
        close(r->sock);
        return -ECONNRESET;
    }
    take_cpus((pid_t)r->msg.arg[0]);
    unsetenv("DLROVER_WARM");
    return 0;
}

static int open_task(struct dlr_resilient *r)
{
    unsigned rank;

    if (!getenv("DLROVER_IN_PROCESS") || getenv("TORCHELASTIC_RUN_ID") ||
        dlr_parse_uint(getenv("DLROVER_ROUND"), UINT_MAX, &r->round) < 0 ||
        dlr_parse_uint(getenv("SLURM_PROCID"), INT_MAX, &rank) < 0)
        return -ENOTSUP;
    r->rank = (int32_t)rank;
    return say_first(r, DLR_LOCAL_STAY);
}

int dlr_resilient_open(struct dlr_resilient **ret_r)
{
    DLR_AUTO_FREE struct dlr_resilient *r = calloc(1, sizeof(*r));
    int rc;

    if (!r)
        return -ENOMEM;
    rc = getenv("DLROVER_WARM") ? open_warm(r) : open_task(r);
    if (rc < 0)
        return rc;
    *ret_r = DLR_STEAL(r);
    return 0;
}

void dlr_resilient_close(struct dlr_resilient *r)
{
    if (!r)
        return;
    close(r->sock);
    free(r);
}
