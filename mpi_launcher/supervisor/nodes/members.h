/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's table of nodes: who they are, how to reach their agents, when they
 * were heard last. Nodes are numbered as in the allocation's list.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_MEMBERS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_MEMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/wire/endpoint.h"

struct dlr_member {
    struct dlr_topo_node node;
    bool mapped; /* its path is of the job's tree: what its agent says is passed over */
    bool here;   /* its agent has said hello and was not lost since */
    struct dlr_route route; /* of that agent's connection */
    bool apart;             /* what the job's agents' step is told does not reach it */
    bool asleep;            /* it is about to be stopped, or is: the job is suspended */
    char key[DLR_KEY_TEXT]; /* the key that connection was made with */
    char boot[64];          /* boot id: a new one is a node that was rebooted */
    char addr[300];         /* "host:port" and key of the agent's peer socket */
    char peer_key[DLR_KEY_TEXT];
    char *data;      /* hex UCX address of its data process, NULL none */
    char *hosts;     /* addresses that it may call from, NULL: not told */
    uint32_t ticket; /* how many hellos it has said: see dlr_group_beat */
    unsigned cpus;
    unsigned unlaunched; /* starts of the agents' step that failed on it, in a row */
    uint64_t stepd;      /* 1 + round whose slurmstepd is connected there, 0: none */
    int64_t heard_ms;    /* CLOCK_BOOTTIME of its last beat or hello */
    uint32_t round;      /* it is in, by its beats */
    uint64_t step_max;   /* DLR_HEARTBEAT_NO_STEP: none */
    /* it had no room for snapshots in the round before this number */
    uint64_t no_memory;
};

struct dlr_members {
    struct dlr_member *list;
    unsigned n;
    unsigned mask_;                 /* private: of the two tables */
    int *names_, *routes_, *chain_; /* heads by hash, 1 + node; chain_: [2][n] */
};

int dlr_members_new(char *const *names, unsigned n, struct dlr_members *ret,
                    struct dlr_err *err);
void dlr_members_done(struct dlr_members *m);

/* Number of a node by name or by its agent's connection; -ENOENT. */
int dlr_members_find(const struct dlr_members *m, const char *name);
int dlr_members_by_route(const struct dlr_members *m, const struct dlr_route *route);

void dlr_members_set_route(struct dlr_members *m, unsigned node,
                           const struct dlr_route *route);

/* Takes a checked hello: fills the row. -EBADMSG names the field that is wrong. */
int dlr_members_hello(struct dlr_members *m, const json_t *msg,
                      const struct dlr_packet *packet, int64_t now_ms,
                      struct dlr_err *err);

/* Newest step any node of the round has told; DLR_HEARTBEAT_NO_STEP: none. */
uint64_t dlr_members_step(const struct dlr_members *m, uint32_t round);
/* Nobody has told any since. */
void dlr_members_forget_steps(struct dlr_members *m);

#endif
