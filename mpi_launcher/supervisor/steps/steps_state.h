/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_STEPS_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_STEPS_STATE_H

#include "hwloc_topo/networks.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/steps/steps.h"

struct dlr_sup_rejoin;

struct dlr_sup_controller {
    enum dlr_controller_query what;
    struct dlr_proc ask;
    enum dlr_phase phase; /* of the policy when it was asked, and since when */
    int64_t phase_ms;
    int code; /* of the srun */
    char why[256];
    int64_t launch_ms; /* when that srun was started */
    pid_t queued;      /* it may wait for resources: dlr_sup_ask_launch(); 0: not */
    int64_t late_ms, again_ms, since_ms;
    int64_t back_ms;    /* it came back; 0 it was never away */
    bool start_retried; /* a start that it may have held up; until a task has started */
    unsigned waits;     /* for it, since a task has started */
};

/* The question for the switch tree. */
struct dlr_sup_network {
    struct dlr_proc ask;
    int out; /* its stdout, in memory */
    int64_t late_ms;
    bool told;
    char source[DLR_OPT_TEXT], note[DLR_TOPO_NOTE]; /* "" none */
};

struct dlr_sup_steps {
    struct dlr_sup_steps_env env;
    const struct dlr_sup_steps_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    const struct dlr_policy *policy;
    struct dlr_proc agents; /* the srun of their step, ours or another run's */
    bool agents_orphaned;   /* their srun is lost with its host, they are not */
    off_t agents_log_from;  /* its words in the log */
    bool agents_shared;     /* their step is the job's: it goes on after this run */
    struct dlr_procid agents_id; /* of its srun, then */
    int hosts_fd; /* the write end of the input of a step of our own, -1 */
    /* the run has ended: agents are waited for until then */
    int64_t shutdown_deadline_ms;
    struct dlr_proc flushing_srun; /* the srun of a round that has failed */
    int64_t flush_deadline_ms;
    struct dlr_sup_controller controller;
    struct dlr_sup_rejoin *rejoin;
    struct dlr_sup_network network;
};

/* What a callback of the loop returns. */
static inline int dlr_sup_steps_go_on(const struct dlr_sup_steps *steps)
{
    return steps->ops->over(steps->arg) ? -1 : 0;
}

/* agent_step.c: the agents' srun is there, ours or a former supervisor's. */
void dlr_sup_agents_watch(struct dlr_sup_steps *steps);

/* agent_step_errors.c */
void dlr_sup_agents_log(const struct dlr_sup_steps *steps, char *path, size_t size);
/* The agents' step has ended: leaves out those nodes, when it ended for them. */
void dlr_sup_agents_refused(struct dlr_sup_steps *steps);

/* shared_agent_step.c: an agent of this run on every node. */
int dlr_shared_agent_step_start(struct dlr_sup_steps *steps, struct dlr_err *err);
/* And on one node, by a step of its own. */
int dlr_shared_agent_step_start_on(struct dlr_sup_steps *steps, const char *node,
                                   struct dlr_proc *ret, struct dlr_err *err);
/* id is a former supervisor's agents_id as text. The job's record is not asked: its
 * file server may be the reason why that supervisor died.
 */
void dlr_shared_agent_step_adopt(struct dlr_sup_steps *steps, const char *id);
void dlr_shared_agent_step_close(
    struct dlr_sup_steps *steps); /* a step of our own may end */

/* rejoin.c: once the nodes are there; the engine ends. */
int dlr_sup_rejoin_start(struct dlr_sup_steps *steps, struct dlr_err *err);
void dlr_sup_rejoin_free(struct dlr_sup_steps *steps);
bool dlr_sup_rejoin_any(const struct dlr_sup_steps *steps); /* such a step goes on */
void dlr_sup_rejoin_end(struct dlr_sup_steps *steps);       /* ends these steps */

/* srun_flush.c: the former supervisor's has its limit here, too. */
void dlr_srun_flush_adopt(struct dlr_sup_steps *steps);

#endif
