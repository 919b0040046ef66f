/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_STATE_H

#include "mpi_launcher/policy/rendezvous_time.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/steps/steps.h"

/* Reports from agents, without MPI. */
struct dlr_sup_gather {
    bool active, for_plan;
    uint64_t id;
    unsigned char *asked; /* [nnodes] 1: its answer is still out */
    struct dlr_plan_report *reports;
    unsigned n;
};

/* The program that the nodes meet in. */
struct dlr_sup_mpi_rendezvous {
    struct dlr_proc srun;
    int out; /* read end of its stdout, -1 none */
    int log; /* what its srun says, in memory; -1 none */
    char *text;
    size_t size;
    bool eof, ended;
    bool network; /* it measures the network, which takes seconds */
};

struct dlr_sup_planning {
    struct dlr_sup_planning_env env;
    const struct dlr_sup_planning_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    struct dlr_sup_mpi_rendezvous mpi;
    int64_t agents_ms; /* when the agents' step began; 0: no rendezvous since is due */
    struct dlr_rendezvous_time usual[2]; /* of rounds that begin anew, that restore */
    struct dlr_sup_gather gather;
    bool held, held_mpi; /* a rendezvous waits for the switch tree */
    bool by_met;         /* agents report without MPI, for they have met */
    /* step_of_run.c */
    int argc, srun_words; /* the user's srun; those before the program, 0: unknown */
    char **argv;
    struct dlr_step_plan step;
    const char **prefer; /* [step.nprefer] their names */
    unsigned full_places, full_world;
    int *shown; /* [nshown], NULL: not asked for yet */
    unsigned nshown;
    /* plan_in_force.c */
    struct dlr_plan plan;                 /* world 0: there was none yet */
    struct dlr_plan_former_place *former; /* and what the next one must know: */
    unsigned nformer;
    unsigned split;            /* groups on several leaves, as told last */
    struct dlr_plan_out *full; /* they had no room for what they were to restore */
    unsigned nfull;
    /* the nodes by every check before the first round of an allocation: due, and was */
    bool check_all, checked;
    /* [nnodes] 1: health checks left it out; NULL: none */
    unsigned char *failed_checks;
    /* places.c */
    /* as the program told them; nplaces 0: it did not */
    struct dlr_plan_world placement;
    struct dlr_plan_world worlds[DLR_PLAN_WORLDS_MAX]; /* former rounds' */
    unsigned nworlds;
};

/* With a version to restore every node verifies what it has first: that takes longer.
 */
static inline struct dlr_rendezvous_time *
dlr_sup_rendezvous_time(struct dlr_sup_planning *planning)
{
    return &planning->usual[planning->ops->restores(planning->arg)];
}

/* step_of_run.c: the same step once more, for so many places: each keeps its share of
 * tasks. Their ends: what the engine's end frees.
 */
int dlr_sup_replan_step(struct dlr_sup_planning *planning, unsigned nplaces,
                        struct dlr_err *err);
void dlr_sup_step_done(struct dlr_sup_planning *planning);
void dlr_sup_plan_done(struct dlr_sup_planning *planning);
void dlr_sup_places_done(struct dlr_sup_planning *planning);

/* plan_in_force.c: for the next plan; borrowed */
void dlr_sup_fill_want(struct dlr_sup_planning *planning, struct dlr_plan_want *want);
/* places.c: the plan in force has its ranks so. The step is about to have others: those
 * that it has are among the former ones.
 */
int dlr_sup_place_ranks(struct dlr_sup_planning *planning, const unsigned *tasks,
                        const unsigned *ranks);
void dlr_sup_places_remember(struct dlr_sup_planning *planning);

/* gather.c: all candidates are asked; for_plan: a plan is made of it */
void dlr_sup_gather_start(struct dlr_sup_planning *planning, bool for_plan);
void dlr_sup_gather_drop(struct dlr_sup_planning *planning); /* its memory */

/* rendezvous.c */
int dlr_sup_mpi_start(struct dlr_sup_planning *planning, struct dlr_err *err);

/* met.c: it is the first rendezvous of a later run of the job, whose nodes have met by MPI
 * before; a plan of that program is there
 */
bool dlr_sup_met_before(struct dlr_sup_planning *planning);
void dlr_sup_met(struct dlr_sup_planning *planning, const struct dlr_plan *plan);

/* links.c: whether the next one measures the network, and how long rounds of that may
 * begin, 0 if not; what came of it, out of what the program has printed, into the file
 * of links and the journal
 */
int64_t dlr_sup_network_ms(const struct dlr_sup_planning *planning);
void dlr_sup_tell_links(const struct dlr_sup_planning *planning);

/* rendezvous_log.c: what srun says of it. Puts it into its file, closes it. */
void dlr_sup_rendezvous_log(struct dlr_sup_planning *planning);
/* It failed because Slurm has removed the job's mount namespace: no step can be started
 * in this allocation any more.
 */
bool dlr_sup_container_gone(const struct dlr_sup_planning *planning);

#endif
