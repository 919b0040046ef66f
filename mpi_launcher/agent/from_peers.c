/* SPDX-License-Identifier: Apache-2.0 */
/* What other agents send: beats of the group and their leases, or what agents without a
 * supervisor say.
 */
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/wire/group_beats.h"

void dlr_agent_from_peer(void *arg, const struct dlr_packet *packet)
{
    struct dlr_agent *a = arg;

    if (dlr_group_beats_is(packet->data, packet->size))
        dlr_agent_group_take(a->group, packet);
    else
        dlr_agent_on_peer(a->succession, packet);
}

/* The collector of our group answers a beat. */
static bool is_of_group(struct dlr_agent *a, const char *node,
                        const struct dlr_packet *p)
{
    if (!dlr_agent_group_is_by(a->group, node))
        return false;
    if (dlr_heartbeat_is(p->data, p->size)) {
        dlr_agent_group_answered(a->group);
        dlr_agent_lease_take(a->lease, p->data, p->size);
    } else if (dlr_group_leases_is(p->data, p->size)) {
        dlr_agent_group_refused(a->group);
        dlr_agent_lease_beat(a->lease);
    } else {
        return false;
    }
    return true;
}

void dlr_agent_from_answer(void *arg, const char *node, const struct dlr_packet *packet)
{
    struct dlr_agent *a = arg;

    if (!is_of_group(a, node, packet))
        dlr_agent_on_peer_answer(a->succession, node, packet);
}

bool dlr_agent_by_group(void *arg, const struct dlr_heartbeat *beat)
{
    struct dlr_agent *a = arg;

    return dlr_agent_group_send(a->group, beat);
}
