/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes without room for snapshots: the run goes on, nothing is saved, and it is said. */
#include "common/msg.h"
#include "mpi_launcher/sup.h"

/* One line for a node and round; the others are in the next line's count. */
void dlr_sup_on_no_slots(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_member *m = &s->members.list[node];
    const char *why = "";
    uint64_t rank, round;

    if (dlr_msg_uint(msg, "rank", s->step.world - 1, &rank) < 0 ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(s->policy) || !s->have_plan)
        return;
    dlr_msg_str(msg, "why", &why);
    s->no_slots++;
    if (m->no_memory == round + 1)
        return;
    m->no_memory = round + 1;
    dlr_journal_note(s->journal, "no_memory", "s:s,s:I,s:I,s:I,s:s", "node",
                     m->node.name, "round", (json_int_t)round, "rank", (json_int_t)rank,
                     "count", (json_int_t)s->no_slots, "why", why);
}
