/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/resilient.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckpt/supervised/agent_socket.h"
#include "ckpt/supervised/lease.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
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

int dlr_resilient_open(struct dlr_resilient **ret_r)
{
    DLR_AUTO_FREE struct dlr_resilient *r = calloc(1, sizeof(*r));
    struct timeval none = {0};
    unsigned rank;
    int rc;

    if (!r)
        return -ENOMEM;
    if (!getenv("DLROVER_IN_PROCESS") || getenv("TORCHELASTIC_RUN_ID") ||
        dlr_parse_uint(getenv("DLROVER_ROUND"), UINT_MAX, &r->round) < 0 ||
        dlr_parse_uint(getenv("SLURM_PROCID"), INT_MAX, &rank) < 0)
        return -ENOTSUP;
    r->rank = (int32_t)rank;
    rc = dlr_agent_socket_connect(DLR_CONNECT_MS, &r->sock, NULL);
    if (rc == 0) {
        setsockopt(r->sock, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
        rc = say(r, DLR_LOCAL_STAY);
        if (rc < 0)
            close(r->sock);
    }
    if (rc < 0)
        return rc;
    *ret_r = DLR_STEAL(r);
    return 0;
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

static void take_environment(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    DLR_AUTO_FREE char *text =
        size > 0 && size <= ENVIRONMENT_MAX ? malloc((size_t)size + 1) : NULL;

    if (!text || pread(fd, text, (size_t)size, 0) != size)
        return;
    text[size] = '\0';
    for (char *entry = text; entry < text + size; entry += strlen(entry) + 1) {
        char *value = strchr(entry, '=');

        if (!value || !is_of_round(entry))
            continue;
        *value = '\0';
        setenv(entry, value + 1, 1);
        *value = '=';
    }
}

int dlr_resilient_next(struct dlr_resilient *r)
{
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    if (!atomic_load(&r->ended))
        return -EAGAIN;
    fflush(NULL);
    dlr_lease_rest();
    rc = say(r, DLR_LOCAL_PARKED);
    if (rc == 0)
        rc = await(r, DLR_LOCAL_JOIN, fds, &nfds);
    if (rc < 0)
        return -ECONNRESET;
    if (nfds == 3) {
        dup2(fds[0], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        take_environment(fds[2]);
    }
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    r->round = r->msg.round;
    atomic_store(&r->ended, false);
    return 0;
}

void dlr_resilient_close(struct dlr_resilient *r)
{
    if (!r)
        return;
    close(r->sock);
    free(r);
}
