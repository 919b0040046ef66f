/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_STATE_H

#include "mpi_launcher/policy/rendezvous_time.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/planning/planning.h"

/* Reports from agents, without MPI. */
struct dlr_sup_gather {
    bool active, for_plan;
    uint64_t id;
    unsigned char *asked; /* [nnodes] 1: its answer is still out */
    struct dlr_plan_report *reports;
    unsigned n;
};

/* The program that the nodes meet in. */
struct dlr_sup_meeting {
    struct dlr_proc srun;
    int out; /* read end of its stdout, -1 none */
    int log; /* what its srun says, in memory; -1 none */
    char *text;
    size_t size;
    bool eof, ended;
};

struct dlr_sup_planning {
    struct dlr_sup_planning_env env;
    const struct dlr_sup_planning_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    struct dlr_sup_meeting mpi;
    struct dlr_meet_time usual[2]; /* of rounds that begin anew, that restore */
    struct dlr_sup_gather gather;
    struct dlr_stepplan step;
    struct dlr_plan plan; /* in force; world 0: none yet */
};

/* With a version to restore every node verifies what it has first: that takes longer.
 */
static inline struct dlr_meet_time *dlr_sup_meet_time(struct dlr_sup_planning *planning)
{
    return &planning->usual[planning->ops->restores(planning->arg)];
}

/* gather.c: all candidates are asked; for_plan: a plan is made of it */
void dlr_sup_gather_start(struct dlr_sup_planning *planning, bool for_plan);
void dlr_sup_gather_drop(struct dlr_sup_planning *planning); /* its memory */

/* rendezvous.c */
int dlr_sup_mpi_start(struct dlr_sup_planning *planning, struct dlr_err *err);

/* rendezvous_log.c: what srun says of it. Puts it into its file, closes it. */
void dlr_sup_rendezvous_log(struct dlr_sup_planning *planning);
/* It failed because Slurm has removed the job's mount namespace: no step can be started
 * in this allocation any more.
 */
bool dlr_sup_container_gone(const struct dlr_sup_planning *planning);

#endif
