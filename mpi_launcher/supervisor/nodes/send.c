/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/nodes/send.h"

#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    const struct dlr_member *m = &nodes->members.list[node];

    if (msg && m->here)
        dlr_sup_outbox_send_json(nodes->env.io, &m->route, msg);
    json_decref(msg);
}

void dlr_sup_send_all(struct dlr_sup_nodes *nodes, json_t *msg)
{
    DLR_AUTO_FREE char *text = msg ? dlr_msg_text(msg) : NULL;

    for (unsigned i = 0; text && i < nodes->members.n; i++)
        if (nodes->members.list[i].here)
            dlr_sup_outbox_send(nodes->env.io, &nodes->members.list[i].route, text,
                                strlen(text));
    json_decref(msg);
}
