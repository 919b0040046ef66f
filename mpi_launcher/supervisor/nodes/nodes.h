/* SPDX-License-Identifier: Apache-2.0 */
/* The job's nodes: who they are, whose agent is heard, who has fallen silent. It knows
 * no engine but the supervisor's input and output, and says by its events what has
 * happened. Nodes are numbered as in the allocation's list. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_NODES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_NODES_H

#include <jansson.h>
#include <sys/types.h>

#include "common/config/job_config.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/wire/identity.h"

struct dlr_sup_nodes; /* opaque */
struct dlr_sup_io;

/* What it uses and only reads; all of it must live as long, and may be filled later. */
struct dlr_sup_nodes_env {
    struct dlr_sup_io *io;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const struct dlr_run_id *id;
    pid_t keeper; /* of this host's */
};

/* What happened, and what others are asked; arg is dlr_sup_nodes_new()'s. */
struct dlr_sup_nodes_ops {
    /* An agent's message, of a known node; but its hello and its beats. */
    void (*message)(void *arg, unsigned node, const json_t *msg);
    /* An agent has said hello and was welcomed. */
    void (*greeted)(void *arg, unsigned node);
    /* The node is there: for the first time, or again after a loss. */
    void (*up)(void *arg, unsigned node);
    /* A data process has another address; again: of a node that was there. */
    void (*moved)(void *arg, bool again);
    /* A beat tells a step that a round has done. */
    void (*progress)(void *arg, uint32_t round, uint64_t step, int64_t now_ms);
    /* Nothing was heard of the node for too long: it is about to be lost. */
    void (*silent)(void *arg, unsigned node);
    /* It is not heard any more, and that was told: now others go on without it. why: of
     * one that fell silent, else NULL.
     */
    void (*lost)(void *arg, unsigned node, const char *why, int64_t now_ms);
    /* It was lost before this run began, or before this supervisor of it. */
    void (*lost_before)(void *arg, unsigned node);
    /* The list of all members has changed, and agents were told. */
    void (*published)(void *arg);
    /* Puts what stands beside the members into a list of them. */
    void (*beside)(void *arg, json_t *msg);
    /* Asked: was the node given up, though it is heard? */
    bool (*given_up)(void *arg, unsigned node);
    /* Asked: is it barred from the run's step? */
    bool (*barred)(void *arg, unsigned node);
    /* Asked: is no node dead for its silence at present? */
    bool (*start_retried)(void *arg, int64_t now_ms);
    /* Asked: are the steps that the node tells those of a former turn? */
    bool (*behind)(void *arg, unsigned node);
    /* Asked: has the run ended? */
    bool (*over)(void *arg);
    /* Asked: which round is it? */
    uint32_t (*round)(void *arg);
    /* Asked: how many places does a round have? */
    unsigned (*places)(void *arg);
};

/* Without nodes. ops may be NULL where nothing of it is reached; ops and arg must live
 * as long. NULL when out of memory.
 */
struct dlr_sup_nodes *dlr_sup_nodes_new(const struct dlr_sup_nodes_env *env,
                                        const struct dlr_sup_nodes_ops *ops, void *arg);
struct dlr_sup_nodes *dlr_sup_nodes_free(struct dlr_sup_nodes *nodes); /* or NULL */

/* These are the job's; once. here: the name of this host, or NULL. */
int dlr_sup_nodes_open(struct dlr_sup_nodes *nodes, char *const *names, unsigned n,
                       const char *here, struct dlr_err *err);
/* The table of them, for everybody to read: the engine's, at the same place always. */
const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes);
/* This host's node name; "" when it is none of the job's. */
const char *dlr_sup_batch(const struct dlr_sup_nodes *nodes);

/* The key of our end of each connection: a former supervisor's, from what the keeper
 * holds, or a new one, which is left there (keeper_fd; -1: there is no keeper).
 */
int dlr_sup_identity_take(struct dlr_sup_nodes *nodes, int keeper_fd,
                          struct dlr_err *err);
int dlr_sup_identity_make(struct dlr_sup_nodes *nodes, int keeper_fd,
                          struct dlr_err *err);
/* NULL before; the engine's. */
const struct dlr_identity *dlr_sup_identity(const struct dlr_sup_nodes *nodes);

/* What others know of a node and the table keeps: */
void dlr_sup_node_set_path(struct dlr_sup_nodes *nodes, unsigned node,
                           const char *path); /* in the job's switch tree */
void dlr_sup_node_left(struct dlr_sup_nodes *nodes, unsigned node); /* not here */
void dlr_sup_node_set_apart(struct dlr_sup_nodes *nodes, unsigned node, bool apart);
void dlr_sup_node_set_stepd(struct dlr_sup_nodes *nodes, unsigned node, uint64_t stepd);
void dlr_sup_node_no_memory(struct dlr_sup_nodes *nodes, unsigned node, uint32_t round);
/* Another start failed there: how many have in a row. */
unsigned dlr_sup_node_unlaunched(struct dlr_sup_nodes *nodes, unsigned node);
void dlr_sup_forget_steps(struct dlr_sup_nodes *nodes); /* dlr_members_forget_steps() */

/* For the next supervisor: keys of connections, proven by a credential, and addresses
 * of data processes. A reference that is not to be changed: the same object until there
 * is another hello.
 */
json_t *dlr_sup_nodes_state(struct dlr_sup_nodes *nodes);
void dlr_sup_nodes_take(struct dlr_sup_nodes *nodes, const json_t *state);

#endif
