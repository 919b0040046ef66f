/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ends: back into the queue with all runs of its job, or over; and SIGTERM,
 * which may mean either. The highest of the supervisor's engines: it says by its events
 * what others have to stop. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ENDING_ENDING_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ENDING_ENDING_H

#include <jansson.h>
#include <sys/types.h>

#include "common/config/job_config.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/step_plan/step_plan.h"

struct dlr_sup_ending; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_planning;
struct dlr_sup_steps;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_ending_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_steps *steps;
    const struct dlr_sup_planning *planning;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const struct dlr_step_plan *step;
    const bool *took_over; /* from a supervisor of this incarnation */
    const int64_t *started_ms;
    pid_t keeper;    /* who started us */
    bool has_keeper; /* and it is the run for others of the job; else we are */
};

/* What happened, and what others are asked; arg is dlr_sup_ending_new()'s. */
struct dlr_sup_ending_ops {
    /* The run is about to end, and nothing of it has been told. */
    void (*ends)(void *arg);
    /* It has ended, and that is told: the agents are about to hear it, too. */
    void (*ended)(void *arg);
    /* The next supervisor must know what has changed; lasting: so must the job's next
     * incarnation.
     */
    void (*changed)(void *arg, bool lasting);
    /* Asked: which rank failed first, on which node, and its last lines? NULL: none. */
    const char *(*last_lines)(void *arg, unsigned *ret_rank, unsigned *ret_node);
    /* Asked: have tasks that run been sent this signal now? */
    bool (*pass)(void *arg, int sig);
    /* Asked: how many rounds had it? */
    uint32_t (*rounds)(void *arg);
};

/* ops may be NULL where nothing of it is reached; ops and arg must live as long. NULL
 * when out of memory.
 */
struct dlr_sup_ending *dlr_sup_ending_new(const struct dlr_sup_ending_env *env,
                                          const struct dlr_sup_ending_ops *ops,
                                          void *arg);
/* Ends no process. Accepts NULL, returns NULL. */
struct dlr_sup_ending *dlr_sup_ending_free(struct dlr_sup_ending *ending);
/* The policy is there; it must live as long. */
void dlr_sup_ending_open(struct dlr_sup_ending *ending, struct dlr_policy *policy);

/* The run has ended, and this is its code. */
bool dlr_sup_ending_finished(const struct dlr_sup_ending *ending);
int dlr_sup_ending_code(const struct dlr_sup_ending *ending);
/* And nothing that is waited for is left of it. */
bool dlr_sup_ending_over(const struct dlr_sup_ending *ending);

/* It had ended with this code before this supervisor began: that is all that is left to
 * be told.
 */
void dlr_sup_ending_take(struct dlr_sup_ending *ending, unsigned code);
/* What the journal's line of the end has, for the next supervisor of this incarnation:
 * into state, and out of it. dlr_sup_end_tell() writes the line where the former one was
 * killed before it.
 */
void dlr_sup_end_state(const struct dlr_sup_ending *ending, json_t *state);
void dlr_sup_end_take(struct dlr_sup_ending *ending, const json_t *state);
void dlr_sup_end_tell(struct dlr_sup_ending *ending);
/* A signal has asked for the end. */
bool dlr_sup_ending_wanted(const struct dlr_sup_ending *ending);
/* The batch script is gone with its host: the end of the run has the job requeued. */
void dlr_sup_ending_script_lost(struct dlr_sup_ending *ending);

/* The policy wants the job back in the queue. */
void dlr_sup_requeue(struct dlr_sup_ending *ending, const char *why);
/* requeue.c: the next requeue is to give it more memory; anyway: also where an account's
 * limits may not let it begin again. False: it can get none, as a job without a batch
 * script.
 */
bool dlr_sup_ending_for_memory(struct dlr_sup_ending *ending, bool anyway);
/* Another supervisor acts: what we have asked slurmctld for is given up, and nothing is
 * asked any more.
 */
void dlr_sup_requeue_bar(struct dlr_sup_ending *ending);
/* Or the run over. why: NULL when there is nothing to say. */
void dlr_sup_finish(struct dlr_sup_ending *ending, int code, const char *why);

/* joint_requeue.c: another run of the job may want a requeue: from now on it is
 * noticed.
 */
void dlr_joint_requeue_start(struct dlr_sup_ending *ending);
void dlr_joint_requeue_tick(struct dlr_sup_ending *ending, int64_t now_ms);

/* termination.c: a signal that ends the run came to us. */
void dlr_sup_ending_signal(struct dlr_sup_ending *ending, int sig);
/* SIGTERM came to a step: every node has it, and says it. */
void dlr_sup_on_term(struct dlr_sup_ending *ending, unsigned node, const json_t *msg);
/* So did another signal, which a script or --signal sends before the job's time is over
 * or in its preemption: slurmctld is asked whether that is near.
 */
void dlr_sup_on_warned(struct dlr_sup_ending *ending, const json_t *msg);
void dlr_sup_warned(struct dlr_sup_ending *ending, int sig);
/* An agent that got it lets its tasks go on though it does not hear us, so nobody is
 * dead for that.
 */
bool dlr_sup_term_holds(const struct dlr_sup_ending *ending, int64_t now_ms);
/* Asks slurmctld what SIGTERM was sent for; the policy is told. */
void dlr_sup_ask_fate(struct dlr_sup_ending *ending);

#endif
