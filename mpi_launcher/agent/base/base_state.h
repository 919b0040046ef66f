/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_BASE_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_BASE_STATE_H

#include <netinet/in.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/wire/peer_list.h"
#include "mpi_launcher/wire/zmq_types.h"

struct dlr_agent_timer;
struct dlr_agent_watched;

struct dlr_agent_base {
    const struct dlr_agent_base_ops *ops; /* never NULL */
    void *arg;
    zloop_t *loop;
    struct dlr_agent_timer *timers; /* those that have not ended */
    struct dlr_agent_watched *watched;
    struct dlr_kept *kept; /* NULL: nobody keeps anything */
    bool changed;          /* what ops->note() notes has */
    int64_t note_from_ms;  /* not before this */
    int note_timer;
    bool leaving, ending;          /* the end has been ordered; has come */
    struct dlr_client *supervisor; /* NULL: not connected */
    struct dlr_server *server;     /* NULL: nobody can connect */
    struct {
        const struct dlr_identity *id;
        struct sockaddr_in control; /* the supervisor's host */
        char addr[DLR_AGENT_ADDR];  /* our own; "": not open */
        struct dlr_peer_list list;
    } peers;
    /* Connections that are none of ours: */
    uint64_t auth_failures,
        auth_failures_reported; /* to the node's own socket; of all, told */
    int64_t auth_failures_ms;   /* when */
};

/* Ends all timers that are left. */
void dlr_agent_timers_free(struct dlr_agent_base *base);
/* Of what is watched still: the loop is gone. */
void dlr_agent_watched_free(struct dlr_agent_base *base);

#endif
