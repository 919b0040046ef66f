/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of the user's step: each is launched from the plan in force, watched and
 * ended; one of a former supervisor goes on. It knows all engines but the run's end,
 * and says by its events what that must know. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_ROUNDS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_ROUNDS_H

#include <jansson.h>

#include "common/config/job_config.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/step_plan/step_plan.h"

struct dlr_sup_rounds; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_steps;
struct dlr_sup_planning;
struct dlr_sup_copies;
struct dlr_sup_versions;
struct dlr_sup_disk;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_rounds_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_steps *steps;
    struct dlr_sup_planning *planning;
    struct dlr_sup_copies *copies;
    struct dlr_sup_versions *versions;
    struct dlr_sup_disk *disk;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const struct dlr_step_plan *step;
    const struct dlr_plan *plan; /* in force */
    const uint32_t *resume_round;
    const bool *took_over; /* a supervisor of this incarnation died before us */
    const int *state_fd;   /* the keeper's memory file, -1 without keeper */
};

/* What happened, and what others are asked; arg is dlr_sup_rounds_new()'s. */
struct dlr_sup_rounds_ops {
    /* The next supervisor must know what has changed; lasting: so must the job's next
     * incarnation. It is kept when this returns.
     */
    void (*changed)(void *arg, bool lasting);
    /* Asked: has the run ended? And is nothing left of it that is waited for? */
    bool (*finished)(void *arg);
    bool (*over)(void *arg);
};

/* None runs. ops may be NULL where nothing of it is reached; ops and arg must live as
 * long. NULL when out of memory.
 */
struct dlr_sup_rounds *dlr_sup_rounds_new(const struct dlr_sup_rounds_env *env,
                                          const struct dlr_sup_rounds_ops *ops,
                                          void *arg);
/* Ends no process. Accepts NULL, returns NULL. */
struct dlr_sup_rounds *dlr_sup_rounds_free(struct dlr_sup_rounds *rounds);
/* The policy is there: it is told what happens, and must live as long. */
void dlr_sup_rounds_open(struct dlr_sup_rounds *rounds, struct dlr_policy *policy);
void dlr_sup_rounds_start(struct dlr_sup_rounds *rounds, int64_t now_ms); /* the run */

/* rounds.c: which round runs, or ran last. */
uint32_t dlr_sup_running_round(const struct dlr_sup_rounds *rounds);
/* Copies of the plan's version may not be where its ranks are. */
bool dlr_sup_anywhere(const struct dlr_sup_rounds *rounds);
/* A phase of the policy begins, now: then. When did the present one? */
int64_t dlr_sup_phase_begins(struct dlr_sup_rounds *rounds);
int64_t dlr_sup_phase_ms(const struct dlr_sup_rounds *rounds);

/* launch.c: launched, and ended: the agents end its tasks, and say so. */
void dlr_sup_launch(struct dlr_sup_rounds *rounds, uint32_t round);
void dlr_sup_end_round(struct dlr_sup_rounds *rounds, uint32_t round,
                       enum dlr_cause cause, const char *why);
/* Another cause than the one told at its end, which was its work. */
void dlr_sup_explain_end(struct dlr_sup_rounds *rounds, uint32_t round,
                         enum dlr_cause cause, const char *why);
int64_t dlr_sup_launched_ms(const struct dlr_sup_rounds *rounds); /* when it was */
/* Nothing of the round that has ended is left. */
void dlr_sup_tell_cleared(struct dlr_sup_rounds *rounds);
/* A signal for its srun. False: no task of it is there, or not all have been yet. */
bool dlr_sup_signal_tasks(struct dlr_sup_rounds *rounds, int sig);
bool dlr_sup_pass_signal(struct dlr_sup_rounds *rounds, int sig);
void dlr_sup_let_workers_go(struct dlr_sup_rounds *rounds);
void dlr_sup_on_task(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
void dlr_sup_on_orphaned(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg);
/* stay.c: a node is clean; so many of its processes are parked. */
void dlr_sup_on_parked(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
/* When the run began, under its first supervisor. Borrowed: the address stays. */
const int64_t *dlr_sup_started_ms(const struct dlr_sup_rounds *rounds);

/* failure.c: who failed first, and what it has said. */
void dlr_sup_on_exit(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
void dlr_sup_on_stderr(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
void dlr_sup_tell_failure(struct dlr_sup_rounds *rounds); /* of the round that ended */
void dlr_sup_no_failure(struct dlr_sup_rounds *rounds);   /* it is nobody's */
/* Its last lines of stderr, borrowed. NULL: none has failed, or it has said nothing. */
const char *dlr_sup_last_words(const struct dlr_sup_rounds *rounds, unsigned *ret_rank,
                               unsigned *ret_node);

/* progress.c: the first step, then a line now and then; and the limit of the start. */
void dlr_sup_progress(struct dlr_sup_rounds *rounds, int64_t now_ms);

/* launch_limit.c: Slurm's own process of a round is there, or has gone. */
void dlr_sup_on_stepd(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
/* slurmctld's word, asked because no task has started: it has, or has not yet, made the
 * step. True: the round's time to start begins now.
 */
bool dlr_sup_launch_queued(struct dlr_sup_rounds *rounds, bool queued);

/* restore.c: all ranks of a round have loaded, or not, or not in time. */
void dlr_sup_on_restored(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg);
void dlr_sup_restore_tick(struct dlr_sup_rounds *rounds, int64_t now_ms);
bool dlr_sup_has_restored(
    const struct dlr_sup_rounds *rounds); /* all had, so it began */

/* node_orders.c: nodes, partners and addresses of the round; said again when an address
 * has changed.
 */
void dlr_sup_tell_round(struct dlr_sup_rounds *rounds, uint32_t round);
int dlr_sup_new_token(struct dlr_sup_rounds *rounds); /* -EIO: there is no randomness */

/* ranks.c: who is there of the program's ranks, where these are not Slurm's tasks, or
 * not where the plan has them, or start again inside the round.
 */
void dlr_sup_ranks_round(struct dlr_sup_rounds *rounds); /* another one is prepared */
void dlr_sup_on_ranks(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
void dlr_sup_on_turned(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);
void dlr_sup_ranks_welcome(struct dlr_sup_rounds *rounds,
                           unsigned node); /* it asks again there */
/* What the node says of snapshots is of a former turn. */
bool dlr_sup_ranks_behind(const struct dlr_sup_rounds *rounds, unsigned node);
void dlr_sup_ranks_tick(struct dlr_sup_rounds *rounds, int64_t now_ms);

/* node_names.c: nodes in the program's arguments. Whether it can run where the plan
 * says; if not, why: a word is a node that is lost.
 */
bool dlr_sup_names_fit(struct dlr_sup_rounds *rounds, const struct dlr_plan *plan,
                       char *why, size_t size);
/* srun's arguments with numbers for the job's nodes, the same after a requeue: free().
 * NULL when out of memory.
 */
char **dlr_sup_names_numbered(struct dlr_sup_rounds *rounds);

/* stdin.c: before anything is read from it; for the next supervisor, and from the
 * former one.
 */
void dlr_sup_stdin_start(struct dlr_sup_rounds *rounds);
void dlr_sup_stdin_state(const struct dlr_sup_rounds *rounds, json_t *state);
void dlr_sup_stdin_take(struct dlr_sup_rounds *rounds, const json_t *state);

/* adopt.c: for the next supervisor, and from the former one: the srun, and the round
 * that runs. Both are taken once the engine of the steps has taken its own.
 */
void dlr_sup_workers_state(const struct dlr_sup_rounds *rounds, json_t *state);
void dlr_sup_round_state(const struct dlr_sup_rounds *rounds, json_t *state);
void dlr_sup_round_take(struct dlr_sup_rounds *rounds, const json_t *state);
/* A round may go on: it ran, and its srun and its agents are there. Then it does, or is
 * ended, once the policy is there; bell_fd: the keeper's, of ended children.
 */
bool dlr_sup_adopt_wanted(const struct dlr_sup_rounds *rounds);
void dlr_sup_rounds_take_over(struct dlr_sup_rounds *rounds, int bell_fd,
                              const char *why);
/* Not all nodes of it have told yet where they stand. */
bool dlr_sup_adopting(const struct dlr_sup_rounds *rounds);
void dlr_sup_adopt_failed(struct dlr_sup_rounds *rounds, const char *why);
void dlr_sup_adopt_moved(struct dlr_sup_rounds *rounds); /* a data process is new */
void dlr_sup_adopt_tick(struct dlr_sup_rounds *rounds, int64_t now_ms);
void dlr_sup_on_round_state(struct dlr_sup_rounds *rounds, unsigned node,
                            const json_t *msg);

#endif
