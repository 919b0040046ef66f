/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, and what its sources call of each other. */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_STATE_H

#include <czmq.h>

#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/tasks/tasks.h"

struct dlr_agent_tasks {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    struct dlr_agent_snapshots *snapshots;
    void (*before_end)(void *arg); /* or NULL */
    void *before_end_arg;
    int listen_fd;            /* -1: not */
    zlistx_t *conns;          /* struct dlr_agent_conn */
    zlistx_t *all;            /* struct task */
    int64_t kill_up_to_round; /* every round up to it is to be killed; -1 none */
    bool spare_srun;          /* its srun has their last output to write yet */
    int retry_timer;          /* -1: off */
    bool asked;               /* the supervisor wants to know which ranks are here */
    unsigned lost; /* workers that were welcomed in this turn, and have gone */
};

/* --- processes.c */
void dlr_agent_tasks_add(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *stepd,
                         int32_t rank, pid_t pid);
void dlr_agent_tasks_exit(struct dlr_agent_tasks *tasks, uint32_t round, int32_t rank,
                          int status);
/* The step of round has left the node. */
void dlr_agent_tasks_step_gone(struct dlr_agent_tasks *tasks,
                               const struct dlr_agent_conn *stepd);
/* Says "clean" for round when nothing of it is left; again when it was said before. */
void dlr_agent_tasks_settle(struct dlr_agent_tasks *tasks, uint32_t round);
/* Whether a slurmstepd of the round is connected: its tasks may be long in coming. */
void dlr_agent_tasks_send_stepd(struct dlr_agent_tasks *tasks, uint32_t round);
/* Forgets ended tasks of rounds before this one. */
void dlr_agent_tasks_forget(struct dlr_agent_tasks *tasks, uint32_t round);
void dlr_agent_tasks_drop(struct dlr_agent_tasks *tasks); /* all */

/* --- rank_claims.c */
void dlr_agent_claims_hello(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *c);
void dlr_agent_claims_gone(struct dlr_agent_tasks *tasks,
                           struct dlr_agent_conn *c); /* it closes */

/* --- sweep.c */
/* Kills every process of the run and of rounds up to this one, by the marks in its
 * environment; the srun that the supervisor started unless it is to be left alone. How
 * many there were: 0, nothing of them is left on this node. Reads /proc.
 */
unsigned dlr_agent_sweep(const struct dlr_run_id *run, uint32_t round, bool spare_srun);

#endif
