/* SPDX-License-Identifier: Apache-2.0 */
/* Beats out, leases in; what happens when the lease runs out is told by its events. */
#ifndef DLR_MPI_LAUNCHER_AGENT_LEASE_H
#define DLR_MPI_LAUNCHER_AGENT_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/base/page.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/wire/heartbeat.h"

#define DLR_AGENT_LEASE_HELD INT64_MAX /* an end: until further word */

struct dlr_agent_lease; /* opaque */

/* What happened; arg is dlr_agent_lease_new()'s. None may be NULL. */
struct dlr_agent_lease_ops {
    /* A lease came. */
    void (*answered)(void *arg);
    /* None has come for half a dead-time: with each beat while that lasts. */
    void (*silent)(void *arg);
    /* It has run out: nothing of the round may go on here. */
    void (*over)(void *arg);
    /* It has changed: dlr_agent_lease_show() is due for each page. */
    void (*changed)(void *arg);
    /* A beat is due. */
    void (*beat)(void *arg);
    /* A beat that goes: true when it has gone by another way and need not go to the
     * supervisor as well.
     */
    bool (*elsewhere)(void *arg, const struct dlr_heartbeat *beat);
    /* Asked for it: the newest steps that the ranks here have begun. */
    void (*steps)(void *arg, uint64_t *ret_min, uint64_t *ret_max);
    /* Asked: how many tasks are left here. */
    unsigned (*tasks)(void *arg);
};

/* All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_lease *dlr_agent_lease_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self,
                                            const struct dlr_agent_round *round,
                                            const struct dlr_agent_lease_ops *ops,
                                            void *arg);
/* Beats from now on. */
int dlr_agent_lease_start(struct dlr_agent_lease *l, struct dlr_err *err);
void dlr_agent_lease_stop(struct dlr_agent_lease *l);
/* It is stopped. Accepts NULL, returns NULL. */
struct dlr_agent_lease *dlr_agent_lease_free(struct dlr_agent_lease *l);

/* As a welcome says; of another supervisor nothing is overdue. */
void dlr_agent_lease_welcome(struct dlr_agent_lease *l, int64_t dead_ms);
void dlr_agent_lease_take(struct dlr_agent_lease *l, const void *data, size_t size);
void dlr_agent_lease_beat(
    struct dlr_agent_lease *l); /* one now, beside those of the timer */
/* Writes the lease into a worker's page: the timer in the worker follows it. */
void dlr_agent_lease_show(const struct dlr_agent_lease *l, struct dlr_page *page);
/* The lease of an agent that died is ours: it ends when it would have, and is not made
 * longer by a word that comes after its end.
 */
void dlr_agent_lease_adopt(struct dlr_agent_lease *l, int64_t until_ns);
/* Whatever the supervisor says, not before until_ns. */
void dlr_agent_lease_extend(struct dlr_agent_lease *l, int64_t until_ns);
/* A task has ended: when the lease has run out, and this late reactor does not know it
 * yet, the task's own timer has killed it. "over" is told first then.
 */
void dlr_agent_lease_look(struct dlr_agent_lease *l);
/* A held lease ends, after grace_ms unless the supervisor says otherwise before. */
void dlr_agent_lease_unhold(struct dlr_agent_lease *l, int64_t grace_ms);

int64_t dlr_agent_lease_dead_ms(const struct dlr_agent_lease *l);
/* For how long none has come; without the time in which this agent itself was stopped.
 */
int64_t dlr_agent_lease_unheard_ms(const struct dlr_agent_lease *l);
int64_t dlr_agent_lease_silent_ms(const struct dlr_agent_lease *l);

#endif
