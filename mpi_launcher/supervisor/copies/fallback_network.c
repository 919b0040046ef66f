/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose fastest networks do not meet: copies take the one that the control plane
 * has.
 */
#include "mpi_launcher/supervisor/copies/fallback_network.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/peers.h"

void dlr_sup_on_unreached(struct dlr_sup_copies *copies, unsigned node,
                          const json_t *msg)
{
    const char *why = "";

    if (copies->fallback_network || copies->env.conf->net[0])
        return;
    dlr_msg_str(msg, "why", &why);
    copies->fallback_network = true;
    dlr_user_line(
        copies->env.io,
        "%s does not reach the others over the network that is fastest there "
        "(%s): copies go over that of the control plane; --dlrover-set=net=DEVICE "
        "names another",
        copies->members->list[node].node.name, why);
    dlr_sup_send_peers(copies->env.nodes);
    copies->ops->changed(copies->arg);
}

bool dlr_sup_common_net(const struct dlr_sup_copies *copies)
{
    return copies->fallback_network;
}

void dlr_sup_net_state(const struct dlr_sup_copies *copies, json_t *state)
{
    json_object_set_new(state, "fallback_network",
                        json_boolean(copies->fallback_network));
}

/* Agents of the round have changed already and do not change back. */
void dlr_sup_net_take(struct dlr_sup_copies *copies, const json_t *state)
{
    copies->fallback_network = json_is_true(json_object_get(state, "fallback_network"));
}
