/* SPDX-License-Identifier: Apache-2.0 */
/* Those who tried what they must not, here or on a node: counted, told in the journal, and told
 * seldom, or they could fill it.
 */
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define EVERY_MS 10000 /* between two lines about our own port */

void dlr_sup_strangers(struct dlr_sup *s, int64_t now_ms)
{
    uint64_t total = s->strangers + dlr_sup_outbox_strangers(s->io);

    if (total == s->strangers_told ||
        (s->strangers_told && now_ms - s->strangers_ms < EVERY_MS))
        return;
    dlr_journal_note(dlr_sup_journal(s->io), "strangers", "s:s,s:I", "node", s->batch,
                     "count", (json_int_t)(total - s->strangers_told));
    s->strangers_told = total;
    s->strangers_ms = now_ms;
}

void dlr_sup_on_strangers(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *name;
    uint64_t count;

    if (dlr_msg_uint(msg, "count", INT64_MAX, &count) == 0 && count)
        dlr_journal_note(dlr_sup_journal(s->io), "strangers", "s:s,s:I", "node",
                         s->members.list[node].node.name, "count", (json_int_t)count);
    if (dlr_msg_str(msg, "taken", &name) == 0)
        dlr_journal_note(dlr_sup_journal(s->io), "name_taken", "s:s,s:s", "node",
                         s->members.list[node].node.name, "name", name);
}
