/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose fastest networks do not meet: copies take the one that the control plane has. */
#include "common/msg.h"
#include "mpi_launcher/sup.h"

void dlr_sup_on_unreached(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *why = "";

    if (s->common_net || s->conf.net[0])
        return;
    dlr_msg_str(msg, "why", &why);
    s->common_net = true;
    dlr_sup_say(s,
                "%s does not reach the others over the network that is fastest there "
                "(%s): copies go over that of the control plane; --dlrover-net=DEVICE "
                "names another",
                s->members.list[node].node.name, why);
    dlr_sup_send_peers(s);
}
