/* SPDX-License-Identifier: Apache-2.0 */
/* Those who tried what they must not, here or on a node: counted, told in the journal, and told
 * seldom, or they could fill it.
 */
#include "mpi_launcher/supervisor/nodes/auth_failures.h"

#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

#define EVERY_MS 10000 /* between two lines about our own port */

void dlr_sup_strangers(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    uint64_t total = nodes->strangers + dlr_sup_outbox_strangers(nodes->env.io);

    if (total == nodes->strangers_told ||
        (nodes->strangers_told && now_ms - nodes->strangers_ms < EVERY_MS))
        return;
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "strangers", "s:s,s:I", "node",
                     nodes->batch, "count",
                     (json_int_t)(total - nodes->strangers_told));
    nodes->strangers_told = total;
    nodes->strangers_ms = now_ms;
}

void dlr_sup_on_strangers(struct dlr_sup_nodes *nodes, unsigned node, const json_t *msg)
{
    const char *name;
    uint64_t count;

    if (dlr_msg_uint(msg, "count", INT64_MAX, &count) == 0 && count)
        dlr_journal_note(dlr_sup_journal(nodes->env.io), "strangers", "s:s,s:I", "node",
                         nodes->members.list[node].node.name, "count",
                         (json_int_t)count);
    if (dlr_msg_str(msg, "taken", &name) == 0)
        dlr_journal_note(dlr_sup_journal(nodes->env.io), "name_taken", "s:s,s:s",
                         "node", nodes->members.list[node].node.name, "name", name);
}
