/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps which copy of a snapshot, and how copies come to where they are needed:
 * before a round, while one runs, and again after a loss. It knows the nodes, the steps
 * and the plan, and no engine above them, and says by its events what has happened. One
 * thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_H

#include <jansson.h>

#include "ckpt/commit/commit.h"
#include "common/config/job_config.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/run/run_info.h"

struct dlr_sup_copies; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_planning;
struct dlr_sup_steps;
struct dlr_transfer;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_copies_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_steps *steps;
    struct dlr_sup_planning *planning;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const unsigned *generation; /* supervisors of this incarnation, this one too */
    const bool *took_over;      /* a supervisor of this incarnation died before us */
};

/* What happened, and what others are asked; arg is dlr_sup_copies_new()'s. */
struct dlr_sup_copies_ops {
    /* All transfers of a preparation have ended; rc below 0: one that the round needs
     * has failed, why says which.
     */
    void (*prepared)(void *arg, int rc, const char *why);
    /* The next supervisor must know what has changed. It is kept when this returns. */
    void (*changed)(void *arg);
    /* Asked: which round runs, or ran last? May copies of the plan's version be
     * elsewhere than at its ranks? Are nodes of a round that goes on still being heard?
     */
    uint32_t (*round)(void *arg);
    bool (*anywhere)(void *arg);
    bool (*adopting)(void *arg);
    /* Asked: is it the older version that stays in memory? */
    bool (*keeps)(void *arg, struct dlr_version v);
    /* Asked: are the transfers a list of writes, which is not for us to end? */
    bool (*writes)(void *arg);
    /* One of these has ended with rc and what the node says of it. Asked: 0, -errno, or
     * -EINPROGRESS when another one was asked for instead.
     */
    int (*written)(void *arg, struct dlr_transfer *t, int rc, const char *said);
    /* What is to be written was made of parity. */
    void (*made)(void *arg, const struct dlr_transfer *t);
};

/* ops may be NULL where nothing of it is reached; ops and arg must live as long. NULL
 * when out of memory.
 */
struct dlr_sup_copies *dlr_sup_copies_new(const struct dlr_sup_copies_env *env,
                                          const struct dlr_sup_copies_ops *ops,
                                          void *arg);
/* Accepts NULL, returns NULL. */
struct dlr_sup_copies *dlr_sup_copies_free(struct dlr_sup_copies *copies);
/* The policy, which is only read, and what decides on commits are there; both must live
 * as long.
 */
void dlr_sup_copies_open(struct dlr_sup_copies *copies, const struct dlr_policy *policy,
                         struct dlr_commit *commit);

/* For the next supervisor: since when something is unprotected; which network is used.
 */
void dlr_redundancy_degraded_state(const struct dlr_sup_copies *copies, json_t *state);
void dlr_redundancy_degraded_take(struct dlr_sup_copies *copies, const json_t *state);

#endif
