/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the node's own socket: of slurmstepd, of a worker, or of what brings
 * stderr. Plain data: who accepts them keeps them.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_CONN_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/local/message.h"

enum dlr_agent_conn_kind {
    DLR_CONN_NEW,
    DLR_CONN_STEPD,
    DLR_CONN_WORKER,
    DLR_CONN_STDERR,
    DLR_CONN_STAY,  /* of a process that can stay */
    DLR_CONN_RELAY, /* of a task that stands for one */
    DLR_CONN_WARM   /* of a process that waits for a rank */
};

struct dlr_agent_conn {
    void *owner; /* who has accepted it */
    int fd;
    int pid; /* of the peer */
    enum dlr_agent_conn_kind kind;
    uint32_t round;
    int32_t rank;
    uint32_t world; /* of a worker: ranks of its program */
    bool waits;     /* its hello is not answered yet: tasks/rank_claims.c */
    bool parked;    /* of DLR_CONN_STAY: tasks/stay.c */
    unsigned kept;  /* base/kept.h */
};

/* False: it could not be sent. */
bool dlr_agent_local_send(const struct dlr_agent_conn *c,
                          const struct dlr_local_msg *msg, const int *fds,
                          unsigned nfds);

#endif
