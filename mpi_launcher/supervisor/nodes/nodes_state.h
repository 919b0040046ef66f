/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_NODES_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_NODES_STATE_H

#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"

struct dlr_sup_peers;

struct dlr_sup_nodes {
    struct dlr_sup_nodes_env env;
    const struct dlr_sup_nodes_ops *ops; /* never NULL */
    void *arg;
    struct dlr_identity *identity;
    struct dlr_members members;
    char batch[DLR_TOPO_NAME];
    struct dlr_sup_peers *peers; /* peers.c; NULL before the first hello */
    struct {
        json_t *peers;   /* of dlr_sup_nodes_state(), NULL: not yet, */
        uint64_t hellos; /* as it was when there had been so many */
    } kept;
    bool lost_saved; /* there is a file that names lost nodes */
    /* since then so many unauthenticated peers were asked who they are */
    int64_t asked_ms;
    unsigned asked;
    int64_t tick_ms;  /* the last look at who is silent */
    int64_t awake_ms; /* since then a node of a suspended job is awake; 0: none is */
    uint64_t auth_failures,
        auth_failures_reported; /* who said hello without being one of us */
    int64_t auth_failures_ms;   /* the journal was told last */
    struct {
        unsigned nodes;    /* lost in all of the run */
        double node_s;     /* what training nodes had run before, in seconds of one, */
        int64_t since_ms;  /* since when they run now */
        unsigned training; /* so many */
    } losses;
};

/* peers.c: the engine ends */
void dlr_sup_peers_stop(struct dlr_sup_nodes *nodes);

#endif
