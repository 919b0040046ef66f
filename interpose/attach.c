/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/attach.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/local/agent_socket.h"
#include "common/local/program_rank.h"

#define MPI_ATTACH_MS 5000 /* the agent may take to answer */
#define TELLS_CALLS 1

static int attach_named(const char *named, struct dlr_watch_map *map)
{
    DLR_AUTO_FREE char *words = strdup(named);
    char *ring = words ? strchr(words, ' ') : NULL;
    unsigned page_fd, ring_fd = 0;
    int rc;

    if (!words)
        return -ENOMEM;
    if (ring)
        *ring++ = '\0';
    rc = dlr_parse_uint(words, INT_MAX, &page_fd);
    if (rc == 0 && ring)
        rc = dlr_parse_uint(ring, INT_MAX, &ring_fd);
    return rc < 0
               ? rc
               : dlr_watch_map_open(map, (int)page_fd, ring ? (int)ring_fd : -1, NULL);
}

/* 0, with n descriptors of the answer, which are the caller's. */
static int ask(int sock, int64_t deadline_ms, unsigned round, int rank,
               int fds[DLR_LOCAL_FDS], unsigned *ret_n)
{
    DLR_AUTO_FREE struct dlr_local_msg *msg = malloc(sizeof(*msg));
    int rc;

    if (!msg)
        return -ENOMEM;
    dlr_local_init(msg, DLR_LOCAL_WATCH);
    msg->round = round;
    msg->rank = rank;
    msg->arg[0] = TELLS_CALLS;
    rc = dlr_local_send(sock, msg, NULL, 0);
    if (rc < 0)
        return rc;
    rc = dlr_agent_socket_answer(sock, deadline_ms, msg, fds, ret_n);
    if (rc <= 0)
        return rc < 0 ? rc : -ECONNRESET;
    return msg->type == DLR_LOCAL_WATCHED && *ret_n > 0 ? 0 : -ENOENT;
}

static int attach_agents(unsigned round, int rank, struct dlr_watch_map *map)
{
    const int64_t deadline_ms = dlr_now_ms() + MPI_ATTACH_MS;
    DLR_AUTO_CLOSE int sock = -1;
    int fds[DLR_LOCAL_FDS], rc;
    unsigned n = 0;

    rc = dlr_agent_socket_connect(MPI_ATTACH_MS, &sock, NULL);
    if (rc < 0)
        return rc;
    rc = ask(sock, deadline_ms, round, rank, fds, &n);
    if (rc == 0)
        rc = dlr_watch_map_open(map, fds[0], n > 1 ? fds[1] : -1, NULL);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    return rc;
}

int dlr_mpi_attach(struct dlr_watch_map *map)
{
    const char *named = getenv("DLROVER_WATCH_FDS"), *round = getenv("DLROVER_ROUND"),
               *socket = getenv("DLROVER_AGENT_SOCKET");
    unsigned number;
    int rank, world;

    if (named)
        return attach_named(named, map);
    if (!socket || !*socket || !round || dlr_parse_uint(round, UINT_MAX, &number) < 0 ||
        dlr_program_rank(&rank, &world, NULL) < 0)
        return -ENOENT;
    return attach_agents(number, rank, map);
}
