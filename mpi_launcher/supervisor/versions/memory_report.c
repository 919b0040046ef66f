/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshots take of the nodes' memory is told when saves begin. Of nodes without room for them: the
 * run goes on, nothing is saved, and it is said. One that cannot take what its ranks would restore has
 * no place in the run any more.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/slot.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define MB 1e6
#define ANY ((uint64_t)INT64_MAX)

static struct dlr_plan_out *leave_out(struct dlr_sup *s, const char *node)
{
    struct dlr_plan_out *more = realloc(s->full, (s->nfull + 1) * sizeof(*more));

    if (!more)
        return NULL; /* it is found out again */
    s->full = more;
    more += s->nfull++;
    memset(more, 0, sizeof(*more));
    dlr_format(more->node, sizeof(more->node), "%s", node);
    return more;
}

static void take_no_more(struct dlr_sup *s, const char *node, const char *why)
{
    struct dlr_plan_out *out = leave_out(s, node);

    if (out)
        dlr_format(out->reason, sizeof(out->reason), "no room to restore: %.400s", why);
}

/* The kernel of a bad node may live: the program fails there first, again and again, while a spare
 * is idle. At its start once is enough to try another node, as there is nothing to move.
 */
void dlr_sup_blame_node(struct dlr_sup *s)
{
    const char *node = s->members->list[s->failure.node].node.name;
    struct dlr_restart_budget_failure how = dlr_policy_failed_how(s->policy);
    bool start = dlr_restart_budget_is_start(&how);
    struct dlr_plan_out *out;

    s->blamed_times =
        s->blamed_times && s->blamed == s->failure.node ? s->blamed_times + 1 : 1;
    s->blamed = s->failure.node;
    if (s->blamed_times < (start ? 1 : 2))
        return;
    for (unsigned i = 0; i < s->nfull; i++)
        if (dlr_streq(s->full[i].node, node))
            return;
    if ((out = leave_out(s, node))) {
        dlr_format(out->reason, sizeof(out->reason),
                   "the program has failed there first%s", start ? "" : ", twice");
        out->last = true;
    }
}

/* One line for a node and round; the others are in the next line's count. */
void dlr_sup_on_no_slots(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const struct dlr_member *m = &s->members->list[node];
    const char *why = "";
    uint64_t rank, round;

    if (dlr_msg_uint(msg, "rank", dlr_sup_slots_max(s), &rank) < 0 ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(s->policy) || !dlr_sup_has_plan(s->plan))
        return;
    dlr_msg_str(msg, "why", &why);
    s->no_slots++;
    if (dlr_sup_transfers_full(s, node, (unsigned)rank, why) && s->preparing) {
        take_no_more(s, m->node.name, why); /* the copy's failure is told */
        return;
    }
    if (m->no_memory == round + 1)
        return;
    dlr_sup_node_no_memory(s->nodes, node, (uint32_t)round);
    dlr_journal_note(dlr_sup_journal(s->io), "no_memory", "s:s,s:I,s:I,s:I,s:s", "node",
                     m->node.name, "round", (json_int_t)round, "rank",
                     (json_int_t)(rank % s->plan->world), "count",
                     (json_int_t)s->no_slots, "why", why);
}

void dlr_sup_memory_round(struct dlr_sup *s)
{
    s->fullest.taken = s->fullest.least = s->fullest.limit = 0;
}

void dlr_sup_memory_ready(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t taken, least = 0, limit;

    if (dlr_msg_uint(msg, "taken", ANY, &taken) < 0 ||
        dlr_msg_uint(msg, "limit", ANY, &limit) < 0 || limit == 0)
        return;
    dlr_msg_uint(msg, "least", ANY, &least);
    if (s->fullest.limit > 0 && (double)taken / (double)limit <
                                    (double)s->fullest.taken / (double)s->fullest.limit)
        return;
    s->fullest.node = node;
    s->fullest.taken = taken;
    s->fullest.least = least;
    s->fullest.limit = limit;
}

void dlr_sup_memory_tell(struct dlr_sup *s, json_t *row)
{
    double taken = (double)s->fullest.taken / MB, limit = (double)s->fullest.limit / MB;
    double least = (double)s->fullest.least / MB;
    const char *name;

    if (s->fullest.limit == 0)
        return;
    name = s->members->list[s->fullest.node].node.name;
    json_object_set_new(row, "node", json_string(name));
    json_object_set_new(row, "taken_mb", json_real(taken));
    json_object_set_new(row, "least_mb", json_real(least));
    json_object_set_new(row, "limit_mb", json_real(limit));
    if (s->fullest.told)
        return;
    s->fullest.told = true;
    dlr_sup_say(
        s->io,
        "snapshots take %.1f MB on %s, the fullest node (%.1f MB without a slot for an "
        "older version and for the disk); --dlrover-set=ckpt-mem allows %.1f MB there",
        taken, name, least, limit);
}
