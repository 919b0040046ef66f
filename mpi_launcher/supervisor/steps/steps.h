/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's steps as the supervisor has them: the one that its agents run in, sruns that
 * end, commands, and whether slurmctld is there. It knows the nodes and no engine above
 * them, and says by its events what has happened. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_STEPS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_STEPS_H

#include <jansson.h>

#include "common/config/job_config.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/run/run_info.h"

struct dlr_sup_steps; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_steps_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const struct dlr_run_id *id;
    const char *address; /* where agents connect */
};

/* What slurmctld is asked for: without an answer it is away, else this has failed by
 * itself.
 */
enum dlr_controller_query {
    DLR_QUERY_NOTHING,
    DLR_QUERY_AGENTS,     /* the agents' step ended before any was there */
    DLR_QUERY_RENDEZVOUS, /* the rendezvous is late */
    DLR_QUERY_PLAN,       /* the rendezvous made none */
    DLR_QUERY_STEP,       /* the workers' srun ended and had started nothing */
    DLR_QUERY_LAUNCH,     /* or did not end */
    DLR_QUERY_REQUEUE,    /* was not taken */
    DLR_QUERY_AGAIN,      /* it was away */
};

/* What happened, and what others are asked; arg is dlr_sup_steps_new()'s. */
struct dlr_sup_steps_ops {
    /* The agents' step has ended: before its nodes are told as left. */
    void (*ended)(void *arg);
    /* Its agent cannot be started: the node is about to be given up. */
    void (*refused)(void *arg, unsigned node);
    /* It has no agent any more, since the step has ended. */
    void (*left)(void *arg, unsigned node);
    /* None has, and slurmctld may be asked for another step. */
    void (*gone)(void *arg);
    /* The srun of a round that has failed has ended by itself, or was let go. */
    void (*flushed)(void *arg);
    /* slurmctld answers: this failed by itself. Never of DLR_QUERY_AGAIN. */
    void (*failed)(void *arg, enum dlr_controller_query what, int code,
                   const char *why);
    /* Or it did so because slurmctld is away. */
    void (*away)(void *arg, enum dlr_controller_query what, const char *why);
    /* slurmctld, which was waited for, answers again. */
    void (*back)(void *arg);
    /* The switch tree is known, or it is not. */
    void (*mapped)(void *arg);
    /* Asked: slurmctld says that the round's step waits for resources, or that it does
     * not. True: the round has more time now.
     */
    bool (*queued)(void *arg, bool queued);
    /* Asked: when did the present phase begin? */
    int64_t (*since)(void *arg);
    /* Asked: does the node take no part in any round? */
    bool (*barred)(void *arg, unsigned node);
    /* Asked: has the run ended? And is nothing left of it that is waited for? */
    bool (*finished)(void *arg);
    bool (*over)(void *arg);
};

/* Without steps. ops may be NULL where nothing of it is reached; ops and arg must live
 * as long. NULL when out of memory.
 */
struct dlr_sup_steps *dlr_sup_steps_new(const struct dlr_sup_steps_env *env,
                                        const struct dlr_sup_steps_ops *ops, void *arg);
/* Ends no process. Accepts NULL, returns NULL. */
struct dlr_sup_steps *dlr_sup_steps_free(struct dlr_sup_steps *steps);
/* The job's nodes are there, and the policy, which is only read and must live as long.
 */
int dlr_sup_steps_open(struct dlr_sup_steps *steps, const struct dlr_policy *policy,
                       struct dlr_err *err);

/* Is the node one for the next step? */
bool dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node);
/* Something goes on that the end of the run waits for. */
bool dlr_sup_steps_busy(const struct dlr_sup_steps *steps);

/* For the next supervisor: whose sruns go on. The agents' and the one that may end by
 * itself; dlr_sup_steps_adopt() when the loop is there.
 */
void dlr_sup_steps_state(const struct dlr_sup_steps *steps, json_t *state);
void dlr_sup_steps_take(struct dlr_sup_steps *steps, const json_t *state);
void dlr_sup_steps_adopt(struct dlr_sup_steps *steps);
/* The srun of the agents' step is lost with its host, its agents are there. */
void dlr_sup_steps_orphaned(struct dlr_sup_steps *steps);

#endif
