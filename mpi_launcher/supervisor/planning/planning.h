/* SPDX-License-Identifier: Apache-2.0 */
/* The step's plan (step_of_run.h), the plan that the round has (plan_in_force.h), the
 * places of its ranks (places.h), and how the next plan comes about: the nodes meet in
 * an MPI program, or their agents report. It knows the nodes and the steps and no
 * engine above them, and says by its events what has come of it. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_PLANNING_H

#include <jansson.h>

#include "common/config/job_config.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/run/run_info.h"

struct dlr_sup_planning; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_steps;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_planning_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_steps *steps;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
};

/* What happened, and what others are asked; arg is dlr_sup_planning_new()'s. */
struct dlr_sup_planning_ops {
    /* Asked: what else must the plan know? Borrowed, until it is read. */
    void (*want)(void *arg, struct dlr_plan_want *ret);
    /* A rendezvous has ended: the plan, which is taken over in each case; rc below 0:
     * there is none, why says why.
     */
    void (*planned)(void *arg, int rc, struct dlr_plan *plan, const char *why);
    /* What the nodes hold that have told it: dlr_sup_gather(). Borrowed. */
    void (*reported)(void *arg, const struct dlr_plan_report *reports, unsigned n);
    /* The seats of the plan in force are kept for the next one. */
    void (*kept)(void *arg);
    /* The step has another number of places, or the same ones again: who keeps copies
     * is chosen anew. -EINVAL, -ENOMEM: they cannot be kept so.
     */
    int (*replanned)(void *arg, struct dlr_err *err);
    /* The plan in force has other seats: dlr_sup_plan_seat(). -ENOMEM. */
    int (*reseated)(void *arg, const unsigned *tasks, const unsigned *ranks);
    /* Puts what stands beside a place into its row: who keeps its copies. */
    void (*beside)(void *arg, unsigned place, json_t *row);
    /* Puts what all of its copies together survive into the plan's, when that is not
     * what was told last.
     */
    void (*survives)(void *arg, json_t *row);
    /* Asked: the id of a request to agents. */
    uint64_t (*request)(void *arg);
    /* Asked: which round is it? When did the present phase begin? */
    uint32_t (*round)(void *arg);
    int64_t (*since)(void *arg);
    /* Asked: is there a version to restore? */
    bool (*restores)(void *arg);
};

/* ops may be NULL where nothing of it is reached; ops and arg must live as long. NULL
 * when out of memory.
 */
struct dlr_sup_planning *dlr_sup_planning_new(const struct dlr_sup_planning_env *env,
                                              const struct dlr_sup_planning_ops *ops,
                                              void *arg);
/* Ends no process. Accepts NULL, returns NULL. */
struct dlr_sup_planning *dlr_sup_planning_free(struct dlr_sup_planning *planning);

/* The step of the agents begins. Until the first rendezvous it shows how long the start
 * of a step takes here.
 */
void dlr_sup_agents_begin(struct dlr_sup_planning *planning);
/* "planned" is told when it has ended, unless it is stopped, or the phase's limit is
 * over.
 */
void dlr_sup_rendezvous(struct dlr_sup_planning *planning, bool with_mpi);
/* The switch tree, which one has waited for, is known or it is not. */
void dlr_sup_rendezvous_resume(struct dlr_sup_planning *planning);
void dlr_sup_rendezvous_stop(struct dlr_sup_planning *planning);
void dlr_sup_rendezvous_tick(struct dlr_sup_planning *planning, int64_t now_ms);
/* The one by MPI is late, and slurmctld answers: it goes on, and the agents report
 * beside it. Whoever is first has the plan.
 */
void dlr_sup_rendezvous_late(struct dlr_sup_planning *planning);

/* All candidates are asked what they hold: "reported". */
void dlr_sup_gather(struct dlr_sup_planning *planning);
void dlr_sup_gather_stop(
    struct dlr_sup_planning *planning); /* reports are none's now */
void dlr_sup_gather_lost(struct dlr_sup_planning *planning, unsigned node);
void dlr_sup_gather_report(struct dlr_sup_planning *planning, unsigned node,
                           const json_t *msg);

#endif
