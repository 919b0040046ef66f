/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of a node: ranks and their slots, saves, copies that are fetched or
 * made anew. The engine knows no tasks, no lease and no election, and says by its
 * events what has happened. Its parts: ranks.h, save.h, fetch.h, orders.h.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SNAPSHOTS_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SNAPSHOTS_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/base/page.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"

struct dlr_agent_data;
struct dlr_agent_snapshots; /* opaque */

/* What happened; arg is dlr_agent_snapshots_new()'s. None may be NULL. */
struct dlr_agent_snapshots_ops {
    /* A rank's slots are there (0), or cannot be had: before the supervisor hears of
     * it.
     */
    void (*reserved)(void *arg, int32_t rank, int rc, const char *why);
    /* A worker's page was made: it has no lease yet. */
    void (*page)(void *arg, struct dlr_page *page);
    /* Asked: to call fn for the process of each task here. */
    void (*tasks)(void *arg, void (*fn)(void *fn_arg, pid_t pid), void *fn_arg);
};

/* Looks at the node's CPUs, once. All that it is given must live as long. NULL: out of
 * memory.
 */
struct dlr_agent_snapshots *
dlr_agent_snapshots_new(struct dlr_agent_base *base, const struct dlr_agent_self *self,
                        const struct dlr_agent_round *round,
                        struct dlr_agent_data *data,
                        const struct dlr_agent_snapshots_ops *ops, void *arg);
/* Unmaps all; files stay as they are. Accepts NULL, returns NULL. */
struct dlr_agent_snapshots *dlr_agent_snapshots_free(struct dlr_agent_snapshots *s);

/* --- rounds --- */

/* Another round than the one so far: what that one had open is void, and what was
 * fetched for it goes; then, when its workers have gone, the ranks of the new one.
 */
void dlr_agent_snapshots_leave(struct dlr_agent_snapshots *s);
void dlr_agent_ranks_round(struct dlr_agent_snapshots *s);
/* A new turn of the round: ranks whose workers are there and stay here are kept. */
void dlr_agent_snapshots_turn(struct dlr_agent_snapshots *s);
/* Every rank has restored. */
void dlr_agent_ranks_go(struct dlr_agent_snapshots *s);
/* To a supervisor that may not have heard it. */
void dlr_agent_ranks_resend(struct dlr_agent_snapshots *s);

/* --- for the agent that comes after this one: adopt.c --- */

/* Where ranks and saves stand, the caller's; NULL and *ret_why: the next one cannot go
 * on with them, or (*ret_why too) out of memory.
 */
json_t *dlr_agent_snapshots_note(const struct dlr_agent_snapshots *s,
                                 const char **ret_why);
/* Goes on with what a former agent has noted; the round is the one it was in. Workers
 * come with dlr_agent_ranks_adopt(). -EBADMSG, -ENOMEM.
 */
int dlr_agent_snapshots_adopt(struct dlr_agent_snapshots *s, const json_t *note);

/* --- what the data process says: as of dlr_agent_data_ops --- */

void dlr_agent_snapshots_data_ready(struct dlr_agent_snapshots *s);
void dlr_agent_snapshots_data_gone(struct dlr_agent_snapshots *s, const char *why);
void dlr_agent_snapshots_data_refused(struct dlr_agent_snapshots *s, const char *why);
void dlr_agent_snapshots_reserved(struct dlr_agent_snapshots *s, int32_t rank,
                                  uint64_t slot, int rc, const char *why);
void dlr_agent_scrub_bad(struct dlr_agent_snapshots *s, const struct dlr_local_msg *m);
/* A rank's own slot may be whole again, and is marked like others. */
void dlr_agent_scrub_copied(struct dlr_agent_snapshots *s, int32_t rank);
/* It goes to CPUs beside its devices that no task here is bound to, as
 * dlr_topo_beside() has it; where there are none it may use all of ours. msg gets their
 * list as "cpus", "" for all.
 */
void dlr_agent_helpers_uses(struct dlr_agent_snapshots *s, json_t *msg);

/* --- with every beat --- */

/* --dlrover-set=pace=auto: how fast copies go. */
void dlr_agent_pace_look(struct dlr_agent_snapshots *s);
/* The newest step that the first and the last rank here have begun; DLR_PAGE_NEVER:
 * none has.
 */
void dlr_agent_ranks_steps(const struct dlr_agent_snapshots *s, uint64_t *ret_min,
                           uint64_t *ret_max);
/* Calls fn for each worker's page: the lease has changed. */
void dlr_agent_ranks_pages(struct dlr_agent_snapshots *s,
                           void (*fn)(void *arg, struct dlr_page *page), void *arg);

#endif
