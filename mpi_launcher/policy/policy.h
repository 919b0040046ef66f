/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine: events and time in, actions (actions.h) out. No sockets, no
 * clocks, no Slurm, so that the supervisor drives it with real events and a test
 * (later: the simulator) with any.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_POLICY_H
#define DLR_MPI_LAUNCHER_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/restart_budget.h"

struct dlr_policy;

int dlr_policy_new(const struct dlr_policy_conf *conf, const struct dlr_policy_ops *ops,
                   void *arg, struct dlr_policy **ret, struct dlr_err *err);
struct dlr_policy *dlr_policy_free(struct dlr_policy *p);

/* What outlives a supervisor and a requeue: used restarts and the number of the next
 * round.
 */
void dlr_policy_resume(struct dlr_policy *p, uint32_t next_round, unsigned restarts,
                       int64_t now_ms);

/* After dlr_policy_resume(): the former supervisor of this incarnation died, so
 * processes of its newest round may be left. They are ended before anything else is
 * begun.
 */
void dlr_policy_take_over(struct dlr_policy *p, const char *why);

/* Instead of dlr_policy_start(), after dlr_policy_resume(): the newest round runs on,
 * its members are those nodes and its agents go on, too; launch_ms: when it was
 * launched. Nodes count as not seen until they are up.
 */
void dlr_policy_adopt(struct dlr_policy *p, const unsigned char *member,
                      int64_t launch_ms, int64_t now_ms);
/* It turned out that it does not, or not everywhere: it is ended when all nodes are
 * seen.
 */
void dlr_policy_adopt_failed(struct dlr_policy *p, const char *why, int64_t now_ms);

/* Nobody watches a part of the round any more: an agent that knew it is gone. */
void dlr_policy_watch_lost(struct dlr_policy *p, uint32_t round, const char *why,
                           int64_t now_ms);

/* Before dlr_policy_start(): the node was lost in an earlier run of the job; not waited
 * for. Before dlr_policy_agents_gone(): its agent could not be started.
 */
void dlr_policy_lost_before(struct dlr_policy *p, unsigned node);

/* Events. now_ms: CLOCK_BOOTTIME in milliseconds, never going back. */
void dlr_policy_start(struct dlr_policy *p, int64_t now_ms);
void dlr_policy_node_up(struct dlr_policy *p, unsigned node, int64_t now_ms);
void dlr_policy_node_dead(struct dlr_policy *p, unsigned node, const char *why,
                          int64_t now_ms);
/* The agent step ended: it is started again, at most a few times. */
void dlr_policy_agents_gone(struct dlr_policy *p, int64_t now_ms);

/* The rendezvous has ended and its plan is not to be taken: one waits for what the next
 * needs, limit_ms at most, and meets again.
 */
void dlr_policy_hold(struct dlr_policy *p, int64_t now_ms, int64_t limit_ms);
void dlr_policy_replan(struct dlr_policy *p, int64_t now_ms);
/* The rendezvous ended: 0 with a plan, whose member[i] says that node i has a place;
 * -ENOSPC: too few healthy nodes; another error: it failed.
 */
void dlr_policy_planned(struct dlr_policy *p, int rc, const unsigned char *member,
                        const char *why, int64_t now_ms);
void dlr_policy_prepared(struct dlr_policy *p, int rc, const char *why, int64_t now_ms);
/* A task ended, not with 0. Told again while the round ends: this one was the first. */
void dlr_policy_worker_exit(struct dlr_policy *p, uint32_t round, int rank,
                            int wait_status, int64_t now_ms);
/* A task that ended so says by its code that the run is to stop: it is told whenever it
 * is heard, and counts before all others of its round.
 */
bool dlr_policy_stops(const struct dlr_policy *p, int wait_status);
/* A node that lives has killed its tasks, because the supervisor was not heard there.
 */
void dlr_policy_lease_expired(struct dlr_policy *p, uint32_t round, const char *why,
                              int64_t now_ms);
/* Slurm's own process of the round has died on a node, and its tasks with it. Costs no
 * restart, a few times: what comes again and again is the program's doing after all.
 */
void dlr_policy_step_lost(struct dlr_policy *p, uint32_t round, const char *why,
                          int64_t now_ms);
/* It is proven that the program will never go on by itself. Costs a restart. place is
 * equal when it is the same hang again, where why has the time.
 */
void dlr_policy_hang(struct dlr_policy *p, uint32_t round, const char *why,
                     const char *place, int64_t now_ms);
void dlr_policy_restore_failed(struct dlr_policy *p, uint32_t round, const char *why,
                               int64_t now_ms);
/* The program does not want what there is: no other copy would do, and to begin anew
 * would lose it. The run ends.
 */
void dlr_policy_restore_refused(struct dlr_policy *p, uint32_t round, const char *why,
                                int64_t now_ms);
/* What the program did that ended the last round; NULL when it was something else. */
const char *dlr_policy_failure(const struct dlr_policy *p);
/* Instead of a plan: the run ends. */
void dlr_policy_give_up(struct dlr_policy *p, const char *why);
/* Nor this one: more memory would do, and only a requeued job can get it.
 * dlr_policy_requeue_cancel(): it gets none.
 */
void dlr_policy_starves(struct dlr_policy *p, const char *why);
/* A task of the round has started. When srun ends in two rounds in a row and had
 * started none, no third is begun: it would be refused, too. A code of 0 is the run's
 * only where one has.
 */
void dlr_policy_started(struct dlr_policy *p, uint32_t round);
/* A rank of the round has told a step; a version of that step was committed. */
void dlr_policy_stepped(struct dlr_policy *p, uint32_t round);
void dlr_policy_committed(struct dlr_policy *p, uint64_t step);
/* How the program failed last, for who asks whether it did so at its start. */
struct dlr_restart_budget_failure dlr_policy_failed_how(const struct dlr_policy *p);
void dlr_policy_step_ended(struct dlr_policy *p, uint32_t round, int code,
                           int64_t now_ms);
/* With 0, and not all tasks are known to have started: Slurm ends a step that it could not
 * start as a whole, and srun then says 0. Success if no task is told to have failed.
 */
void dlr_policy_step_ended_early(struct dlr_policy *p, uint32_t round, int64_t now_ms);
/* Tasks of the round are missing: its time to start them is over. Costs no restart; of
 * two rounds in a row it ends the run.
 */
void dlr_policy_launch_late(struct dlr_policy *p, uint32_t round, const char *why,
                            int64_t now_ms);
/* slurmctld has not made the step until now: its time begins. */
void dlr_policy_queued(struct dlr_policy *p, int64_t now_ms);
void dlr_policy_clean(struct dlr_policy *p, unsigned node, uint32_t round,
                      int64_t now_ms);
void dlr_policy_signal(struct dlr_policy *p, int sig, int64_t now_ms);
/* SIGTERM has come to the tasks; wanted: to us, who have passed it on, and they have
 * limit_ms. They are left alone; when they have ended the run has, too, or goes back
 * into the queue when the job was preempted. Nothing is charged and nothing is tried
 * again.
 */
void dlr_policy_sigterm(struct dlr_policy *p, bool wanted, int64_t limit_ms,
                        int64_t now_ms);
/* Was --signal's for the job's end? An end waits for: it was, as SIGTERM; or not (0). */
void dlr_policy_warning_asked(struct dlr_policy *p);
void dlr_policy_warned(struct dlr_policy *p, int sig, int64_t now_ms);
/* True of SIGTERM to the tasks of round when those that run now have begun after it. */
bool dlr_policy_sigterm_before(const struct dlr_policy *p, int64_t round);
void dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms);
bool dlr_policy_has_sigterm(
    const struct dlr_policy *p); /* the run ends for it, or has */
void dlr_policy_persisted(struct dlr_policy *p, int64_t now_ms);
/* Another run of the job has it requeued: this one ends its round, persists and is
 * ready to be taken back, too. dlr_policy_requeue_cancel(): it was not requeued after
 * all.
 */
void dlr_policy_requeue_with_job(struct dlr_policy *p, int64_t now_ms);
void dlr_policy_requeue_cancel(struct dlr_policy *p, int64_t now_ms);
/* While it is to be requeued: another limit, for those that are waited for. No event:
 * ops may call it.
 */
void dlr_policy_requeue_limit(struct dlr_policy *p, int64_t deadline_ms);
void dlr_policy_requeue_failed(struct dlr_policy *p, const char *why);
/* What failed (the start of agents or of a round, a rendezvous, a requeue) did so
 * because slurmctld is away: costs nothing, is begun again when it is back.
 */
void dlr_policy_controller_away(struct dlr_policy *p, const char *why, int64_t now_ms);
void dlr_policy_controller_back(struct dlr_policy *p, int64_t now_ms);
void dlr_policy_tick(struct dlr_policy *p, int64_t now_ms);

/* When dlr_policy_tick() must be called; INT64_MAX when no limit runs. */
int64_t dlr_policy_deadline_ms(const struct dlr_policy *p);

enum dlr_phase dlr_policy_phase(const struct dlr_policy *p);
uint32_t dlr_policy_round(const struct dlr_policy *p);    /* of the plan in force */
unsigned dlr_policy_restarts(const struct dlr_policy *p); /* that count */
unsigned dlr_policy_alive(const struct dlr_policy *p);    /* nodes that are up */
bool dlr_policy_is_alive(const struct dlr_policy *p, unsigned node);
bool dlr_policy_is_lost(const struct dlr_policy *p,
                        unsigned node); /* dead or never came */

#endif
