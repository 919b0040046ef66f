/* SPDX-License-Identifier: Apache-2.0 */
/* Those who tried what they must not, here or on a node: counted, told in the journal,
 * and told seldom, or they could fill it.
 */
#include "mpi_launcher/supervisor/nodes/auth_failures.h"

#include "common/json/message.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

#define EVERY_MS 10000 /* between two lines about our own port */

void dlr_sup_auth_failures(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    uint64_t total = nodes->auth_failures + dlr_sup_outbox_auth_failures(nodes->env.io);

    if (total == nodes->auth_failures_reported ||
        (nodes->auth_failures_reported && now_ms - nodes->auth_failures_ms < EVERY_MS))
        return;
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "auth_failures", "s:s,s:I", "node",
                     nodes->batch, "count",
                     (json_int_t)(total - nodes->auth_failures_reported));
    nodes->auth_failures_reported = total;
    nodes->auth_failures_ms = now_ms;
}

void dlr_sup_on_auth_failures(struct dlr_sup_nodes *nodes, unsigned node,
                              const json_t *msg)
{
    const char *name;
    uint64_t count;

    if (dlr_msg_uint(msg, "count", INT64_MAX, &count) == 0 && count)
        dlr_journal_note(dlr_sup_journal(nodes->env.io), "auth_failures", "s:s,s:I",
                         "node", nodes->members.list[node].node.name, "count",
                         (json_int_t)count);
    if (dlr_msg_str(msg, "foreign_name", &name) == 0)
        dlr_journal_note(dlr_sup_journal(nodes->env.io), "name_taken", "s:s,s:s",
                         "node", nodes->members.list[node].node.name, "name", name);
}
