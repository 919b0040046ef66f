/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose fastest networks do not meet: copies take the one that the control plane has. */
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_on_unreached(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *why = "";

    if (s->common_net || s->conf.net[0])
        return;
    dlr_msg_str(msg, "why", &why);
    s->common_net = true;
    dlr_sup_say(
        s->io,
        "%s does not reach the others over the network that is fastest there "
        "(%s): copies go over that of the control plane; --dlrover-set=net=DEVICE "
        "names another",
        s->members->list[node].node.name, why);
    dlr_sup_send_peers(s->nodes);
    dlr_sup_keep(s);
}

void dlr_sup_net_state(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "common_net", json_boolean(s->common_net));
}

/* Agents of the round have changed already and do not change back. */
void dlr_sup_net_take(struct dlr_sup *s, const json_t *state)
{
    s->common_net = json_is_true(json_object_get(state, "common_net"));
}
