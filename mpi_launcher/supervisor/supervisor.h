/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor as a whole: what it is told at its start, and its engines. Only the
 * files beside this one know it, which make the engines, answer them and save their
 * state. One thread, one reactor; the policy engine decides, the engines carry it out.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H

#include <jansson.h>

#include "common/config/job_config.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/wire/identity.h"

struct dlr_sup_will;

struct dlr_sup {
    /* fixed after the start */
    struct dlr_job_config conf;
    struct dlr_runinfo info;
    struct dlr_run_id id;
    uint32_t resume_round; /* where a former supervisor or incarnation stopped */
    unsigned resume_restarts;
    bool ended_before;   /* its code was told before a requeue: nothing is to be run */
    bool took_over;      /* a supervisor of this incarnation died before us */
    unsigned generation; /* supervisors of this incarnation, this one too */
    char address[DLR_TOPO_NAME + 8]; /* where agents connect */
    int state_fd;                    /* the keeper's memory file, -1 without keeper */
    int signal_fd;
    char **argv;      /* as started; NULL-terminated */
    bool script_lost; /* we are not on the batch host, whose srun and script are gone */
    int64_t deposed_look_ms;   /* when that was looked for */
    bool deposed;              /* the agents have a successor: we do nothing any more */
    unsigned nth;              /* take-overs before us: dlr_control's `follow` */
    struct dlr_sup_will *will; /* will.c; NULL: nobody gets one */
    bool will_is_old;          /* the state has changed since it was sent */
    json_t *succession;        /* succession.c: what the elected agent said; or NULL */

    /* the engines, low to high: each knows those before it */
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    const struct dlr_members *members; /* theirs */
    struct dlr_sup_steps *steps;
    struct dlr_sup_planning *planning;
    const struct dlr_step_plan *step; /* its */
    const struct dlr_plan *plan;      /* its, too: the one in force */
    struct dlr_sup_copies *copies;
    struct dlr_sup_versions *versions;
    struct dlr_sup_disk *disk;
    struct dlr_sup_rounds *rounds;
    struct dlr_sup_ending *ending;
    struct dlr_sup_watch *watch;
    struct dlr_sup_stacks *stacks;
    bool stacks_end; /* the round ends when they have come */
    struct dlr_policy *policy;
};

/* resume.c: which run this is, and what was left of it */
int dlr_sup_load_state(struct dlr_sup *s, struct dlr_err *err);

#endif
