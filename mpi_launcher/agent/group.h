/* SPDX-License-Identifier: Apache-2.0 */
/* Beats that go by the collector of the node's group, and what a collector does: it
 * passes on the newest beat of each node that sends it some with its own, and gives each
 * the lease of the answer. Nobody tells an agent that it is a collector. Whoever gets no
 * leases by it beats to the supervisor, as in a small job.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_GROUP_H
#define DLR_MPI_LAUNCHER_AGENT_GROUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/wire/heartbeat.h"

struct dlr_agent_group; /* opaque */

/* base and self must live as long. NULL: out of memory. */
struct dlr_agent_group *dlr_agent_group_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self);
/* Accepts NULL, returns NULL. */
struct dlr_agent_group *dlr_agent_group_free(struct dlr_agent_group *g);

/* --- this node's own beats --------------------------------------------------------- */

/* What a welcome says of its group: an object, or NULL when it has none. -EBADMSG: it
 * beats to the supervisor alone.
 */
int dlr_agent_group_welcome(struct dlr_agent_group *g, const json_t *group);
/* Sends a beat to the collector if that is its way; true: the supervisor need not have
 * it as well.
 */
bool dlr_agent_group_send(struct dlr_agent_group *g, const struct dlr_heartbeat *beat);
/* This node is the collector of its group. */
bool dlr_agent_group_is_by(const struct dlr_agent_group *g, const char *node);
/* The collector has given a lease, or says that it cannot: a beat is due to the
 * supervisor at once.
 */
void dlr_agent_group_answered(struct dlr_agent_group *g);
void dlr_agent_group_refused(struct dlr_agent_group *g);

/* --- the others' -------------------------------------------------------------------- */

/* A peer sent this: it begins as dlr_group_beats_is() says. */
void dlr_agent_group_take(struct dlr_agent_group *g, const struct dlr_packet *packet);
/* A beat of this node's own is due: theirs go, too. */
void dlr_agent_group_flush(struct dlr_agent_group *g);
/* The supervisor's answer: it begins as dlr_group_leases_is() says. */
void dlr_agent_group_leases(struct dlr_agent_group *g, const void *data, size_t size);
/* The supervisor does not know this node: it will not take their beats either. */
void dlr_agent_group_refuse_all(struct dlr_agent_group *g);

#endif
