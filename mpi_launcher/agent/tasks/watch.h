/* SPDX-License-Identifier: Apache-2.0 */
/* The watch pages of a node's ranks (watch/page.h): made when a component of a rank
 * first asks, one for each rank and round, shared by all its components, gone with the
 * round.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_WATCH_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_WATCH_H

#include <jansson.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/base/round.h"
#include "watch/look.h"

#define DLR_AGENT_WATCH_PAGES 512 /* of a node; more ranks are not watched */
#define DLR_AGENT_WATCH_RINGS 64  /* of a node; more have none */

struct dlr_agent_tasks;
struct dlr_agent_watch; /* opaque */

/* Both must live as long. NULL: out of memory. */
struct dlr_agent_watch *dlr_agent_watch_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_round *round);
/* Accepts NULL, returns NULL. */
struct dlr_agent_watch *dlr_agent_watch_free(struct dlr_agent_watch *watch);

/* A component asks for its rank's page: it gets it, or hears why not. */
void dlr_agent_watch_open(struct dlr_agent_watch *watch, const struct dlr_agent_conn *c,
                          const struct dlr_local_msg *msg);
/* Another round begins: no page is left. */
void dlr_agent_watch_round(struct dlr_agent_watch *watch);

/* The first and the last step that a rank's page tells; UINT64_MAX: none does. */
void dlr_agent_watch_steps(const struct dlr_agent_watch *watch, uint64_t *ret_min,
                           uint64_t *ret_max);

/* For the agent that comes after this one (tasks/adopt.c): which pages there are, the
 * caller's; NULL and *ret_why: not all could be kept, or (*ret_why too) out of memory.
 */
json_t *dlr_agent_watch_note(const struct dlr_agent_watch *watch, const char **ret_why);
/* Has what a former agent has noted. -EBADMSG, -ENOMEM, -errno. */
int dlr_agent_watch_adopt(struct dlr_agent_watch *watch, const json_t *note);

/* --- of the tasks' engine, which keeps them --- */

/* Looks at all ranks of this node now: those that the round has here, and those that
 * have a page, each once. A rank without a page has data NONE. Reads /proc. *ret_looks
 * is on the heap and the caller's, NULL with *ret_n = 0. -ENOMEM.
 */
int dlr_agent_tasks_look(const struct dlr_agent_tasks *tasks,
                         struct dlr_look **ret_looks, unsigned *ret_n);
/* The same, to the supervisor: what it has asked with id. */
void dlr_agent_tasks_tell_looks(struct dlr_agent_tasks *tasks, uint64_t id);
/* As dlr_agent_watch_steps(). */
void dlr_agent_tasks_steps(const struct dlr_agent_tasks *tasks, uint64_t *ret_min,
                           uint64_t *ret_max);

#endif
