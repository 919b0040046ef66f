/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of a node: its own socket, to which slurmstepd and workers connect, the
 * tasks as processes, and which worker has which rank. What workers say of snapshots
 * goes to that engine.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"

/* an ended task's status, told by its slurmstepd, may take */
#define DLR_AGENT_EXIT_MS 1000

struct dlr_agent_snapshots;
struct dlr_agent_tasks; /* opaque */

/* All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_tasks *dlr_agent_tasks_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self,
                                            const struct dlr_agent_round *round,
                                            struct dlr_agent_snapshots *snapshots);
/* Closes the listening socket last of all: until then another agent sees that we are
 * not gone. Accepts NULL, returns NULL.
 */
struct dlr_agent_tasks *dlr_agent_tasks_free(struct dlr_agent_tasks *tasks);

/* fn is called before a task's end is told that nobody here has caused, once or twice. It
 * may have tasks killed.
 */
void dlr_agent_tasks_before_end(struct dlr_agent_tasks *tasks, void (*fn)(void *arg),
                                void *arg);
/* Listens in the memory directory. Errors as of dlr_local_listen(). */
int dlr_agent_tasks_start(struct dlr_agent_tasks *tasks, struct dlr_err *err);
/* Closes all connections, and watches no task any more. */
void dlr_agent_tasks_stop(struct dlr_agent_tasks *tasks);

/* Another round than the one so far: its workers are closed, and ended tasks of it
 * forgotten.
 */
void dlr_agent_tasks_round(struct dlr_agent_tasks *tasks);
/* To a supervisor that knows nothing yet: tasks, then ranks that wait. */
void dlr_agent_tasks_resend(struct dlr_agent_tasks *tasks);
void dlr_agent_claims_resend(struct dlr_agent_tasks *tasks);

/* --- for the agent that comes after this one: adopt.c --- */

/* Where its tasks and connections stand, the caller's; NULL and *ret_why: the next one
 * cannot go on with them, or (*ret_why too) out of memory.
 */
json_t *dlr_agent_tasks_note(const struct dlr_agent_tasks *tasks, const char **ret_why);
/* Goes on with what a former agent has noted, once the snapshots do; before
 * dlr_agent_tasks_start(). -EBADMSG, -ENOMEM: nothing of it is to be used.
 */
int dlr_agent_tasks_adopt(struct dlr_agent_tasks *tasks, const json_t *note);

/* --- killing --- */

/* Kills all tasks of rounds up to this one, now and when they appear late, until none
 * is left. spare_srun: its srun has their last output to write yet.
 */
void dlr_agent_tasks_kill(struct dlr_agent_tasks *tasks, uint32_t round,
                          bool spare_srun);
/* The same, but processes that can stay when a round ends (ckpt/resilient.h) have limit_ms
 * to park. The node is clean then, too.
 */
void dlr_agent_tasks_park(struct dlr_agent_tasks *tasks, uint32_t round,
                          int64_t limit_ms);
/* Processes of the program that run ahead here while the node has no ranks (a spare):
 * as the message "warm_up" says. -EBADMSG.
 */
int dlr_agent_tasks_warm_up(struct dlr_agent_tasks *tasks, const json_t *msg);
/* The supervisor wants to know where ranks of the round stand: stacks.c. -EBADMSG. */
int dlr_agent_tasks_take_stacks(struct dlr_agent_tasks *tasks, const json_t *msg);
/* Of all rounds; the srun is left alone as it was told last. */
void dlr_agent_tasks_kill_all(struct dlr_agent_tasks *tasks);
void dlr_agent_tasks_kill_with_srun(struct dlr_agent_tasks *tasks); /* not left alone */
/* Every round up to it is to be killed; -1: none. */
int64_t dlr_agent_tasks_kill_up_to_round(const struct dlr_agent_tasks *tasks);
unsigned dlr_agent_tasks_left(const struct dlr_agent_tasks *tasks);
/* Calls fn for each task that has not ended, of any round. */
void dlr_agent_tasks_each(const struct dlr_agent_tasks *tasks,
                          void (*fn)(void *arg, pid_t pid), void *arg);

/* --- who has which rank: rank_claims.c --- */

/* A turn has begun: those that wait are welcomed, or go on waiting. */
void dlr_agent_claims_turn(struct dlr_agent_tasks *tasks);
int dlr_agent_claims_ask(struct dlr_agent_tasks *tasks,
                         const json_t *msg); /* ask_ranks */
int dlr_agent_claims_refuse(struct dlr_agent_tasks *tasks,
                            const json_t *msg); /* refuse */

#endif
