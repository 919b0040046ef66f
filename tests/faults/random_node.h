/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of tests/faults/test_kill_random.c: a rank is a real program with the real
 * library, the data process is the real one, and the test is their agents. What it does
 * as supervisor is not here.
 */
#ifndef DLR_TESTS_FAULTS_RANDOM_NODE_H
#define DLR_TESTS_FAULTS_RANDOM_NODE_H

#include "ckpt/base/page.h"
#include "ckpt/slot/write.h"
#include "tests/support/data_rig.h"

enum fault { NOTHING, KILL_WORKER, KILL_DATA, KILL_NODE, FLIP, FAULTS };

struct node {
    int rank; /* its own; the other's copies come here */
    struct rig_data data;
    char path[96];
    int listener, conn, pidfd, orders, page_fd;
    struct dlr_page *page;
    struct dlr_slot *slots[2][2]; /* by rank */
    pid_t worker;
    uint64_t sending; /* request that copies its rank's snapshot */
    bool restored, sealed, copied, failed, data_dead;
};

extern struct world {
    struct node nodes[2];
    uint64_t seed, random_state;
    uint64_t id; /* of the last request to a data process */
    uint64_t slot_bytes;
    uint32_t round;
    struct dlr_version newest; /* committed, or restored by all */
    bool has;
} world;

/* A number below n, the next one that the seed gives. */
uint64_t random_below(uint64_t n);

/* A node of that rank, with a data process and no worker. */
void node_start(struct node *n, int rank);
void node_end(struct node *n);

/* Starts its rank in this round; it restores the newest version, and saves when told
 * to.
 */
void node_start_worker(struct node *n);
/* Kills it; fails the test when it has found something wrong before. */
void node_end_worker(struct node *n);

/* Whether the slot holds a snapshot, and of which version; node_whole: one that
 * verifies.
 */
bool node_sealed(struct dlr_slot *slot, struct dlr_version *ret);
bool node_whole(struct dlr_slot *slot, struct dlr_version *ret);
/* The slot of node n with a whole copy of rank's version v; -1. */
int node_find(struct node *n, int rank, struct dlr_version v);

/* Tells the data process of this round. */
void node_config(struct node *n);
/* Waits until the data process has done what it was told, or is dead. */
void node_settle(struct node *n);
/* Tells it a decision about a version, and waits likewise. */
void node_tell(struct node *n, enum dlr_local_type type, struct dlr_version v);
/* Starts another data process; lost: without what the memory held. */
void node_data_again(struct node *n, bool lost);

void node_strike(enum fault fault, struct node *n);

/* Takes what has come from workers and data processes, or waits for something until the
 * time is over.
 */
void nodes_pump(int64_t until_ns);

#endif
