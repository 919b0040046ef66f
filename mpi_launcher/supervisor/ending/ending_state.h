/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ENDING_ENDING_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ENDING_ENDING_STATE_H

#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/steps/steps.h"

#define DLR_SUP_RUNS 64 /* of a job at once that are waited for before a requeue */

struct dlr_sup_leave {
    int fd; /* tells of new files in the job's directory, -1: not watched */
    struct dlr_procid others[DLR_SUP_RUNS]; /* keepers of other runs */
    unsigned n;
    bool leads, waits, follows;
    bool off;        /* it does not come to it: the next tick has all go on */
    bool has_memory; /* there may be some: the next tick has all leave */
    int64_t until_ms;
    char why[256];
};

struct dlr_sup_term {
    struct dlr_proc ask;
    int out;         /* read end of its stdout */
    bool orphan;     /* the keeper is gone: its answer says what for */
    int64_t last_ms; /* SIGTERM came to a step; 0: never */
    int warning;     /* another signal did, and slurmctld is asked; 0: none */
    int64_t warned_ms;
    uint32_t warned_round; /* that "warning" came in */
};

struct dlr_sup_ending {
    struct dlr_sup_ending_env env;
    const struct dlr_sup_ending_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    struct dlr_policy *policy;
    struct dlr_proc helper; /* requeues the job */
    int helper_out;         /* read end of its stdout */
    struct dlr_sup_leave leave;
    struct dlr_sup_term term;
    int wanted_signal;
    bool script_lost; /* with its host: a requeue runs what is left of it */
    bool finished, requeue_asked, requeue_barred;
    bool for_good;   /* the helper goes on until slurmctld has answered */
    bool for_memory; /* the requeue is to give the job more of it */
    bool anyway;     /* whatever limits there are */
    bool no_memory;  /* it gets none */
    bool asking;     /* the helper asks whether it gets any, nothing else yet */
    int exit_code;
    json_t *row; /* of the journal's line that says so, where the end is kept */
};

/* What a callback of the loop returns. */
static inline int dlr_sup_ending_go_on(const struct dlr_sup_ending *ending)
{
    return dlr_sup_ending_over(ending) ? -1 : 0;
}

/* requeue.c: all runs of the job may be requeued now. */
void dlr_sup_requeue_now(struct dlr_sup_ending *ending, const char *why);
/* And the run is over, but not its script. */
void dlr_sup_requeue_rest(struct dlr_sup_ending *ending);
/* Slurmctld is asked whether the job can get more memory, before other runs end for it:
 * leave.has_memory when it can, or does not answer. False: that is not asked.
 */
bool dlr_sup_requeue_ask(struct dlr_sup_ending *ending);

/* farewell.c: agents end, and what is in memory goes. */
void dlr_sup_say_bye(struct dlr_sup_ending *ending);

/* joint_requeue.c: it does not come to a requeue. */
void dlr_joint_requeue_cancel(struct dlr_sup_ending *ending);

/* termination.c: what dlrover-slurm fate prints; NULL: it failed */
void dlr_sup_fate_told(struct dlr_sup_ending *ending, const char *text);

#endif
