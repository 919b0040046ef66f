/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshots take of the nodes' memory is told when saves begin. Of nodes without
 * room for them: the run goes on, nothing is saved, and it is said. One that cannot
 * take what its ranks would restore has no place in the run any more.
 */
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define MB 1e6
#define ANY ((uint64_t)INT64_MAX)

static void take_no_more(struct dlr_sup_versions *versions, const char *node,
                         const char *why)
{
    struct dlr_plan_out out = {0};

    dlr_format(out.node, sizeof(out.node), "%s", node);
    dlr_format(out.reason, sizeof(out.reason), "no room to restore: %.400s", why);
    dlr_sup_leave_out(versions->env.planning, &out);
}

/* One line for a node and round; the others are in the next line's count. */
void dlr_sup_on_no_slots(struct dlr_sup_versions *versions, unsigned node,
                         const json_t *msg)
{
    const struct dlr_member *m = &versions->members->list[node];
    const char *why = "";
    uint64_t rank, round;

    if (dlr_msg_uint(msg, "rank", dlr_sup_slots_max(versions->env.planning), &rank) <
            0 ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(versions->policy) ||
        !dlr_sup_has_plan(versions->env.plan))
        return;
    dlr_msg_str(msg, "why", &why);
    versions->no_slots++;
    if (dlr_sup_transfers_full(versions->env.copies, node, (unsigned)rank, why)) {
        take_no_more(versions, m->node.name, why); /* the copy's failure is told */
        return;
    }
    if (m->no_memory == round + 1)
        return;
    dlr_sup_node_no_memory(versions->env.nodes, node, (uint32_t)round);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "no_memory",
                     "s:s,s:I,s:I,s:I,s:s", "node", m->node.name, "round",
                     (json_int_t)round, "rank",
                     (json_int_t)(rank % versions->env.plan->world), "count",
                     (json_int_t)versions->no_slots, "why", why);
}

void dlr_sup_memory_round(struct dlr_sup_versions *versions)
{
    versions->least_free_node.taken = versions->least_free_node.least =
        versions->least_free_node.limit = 0;
}

void dlr_sup_memory_ready(struct dlr_sup_versions *versions, unsigned node,
                          const json_t *msg)
{
    uint64_t taken, least = 0, limit;

    if (dlr_msg_uint(msg, "taken", ANY, &taken) < 0 ||
        dlr_msg_uint(msg, "limit", ANY, &limit) < 0 || limit == 0)
        return;
    dlr_msg_uint(msg, "least", ANY, &least);
    if (versions->least_free_node.limit > 0 &&
        (double)taken / (double)limit < (double)versions->least_free_node.taken /
                                            (double)versions->least_free_node.limit)
        return;
    versions->least_free_node.node = node;
    versions->least_free_node.taken = taken;
    versions->least_free_node.least = least;
    versions->least_free_node.limit = limit;
}

void dlr_sup_memory_tell(struct dlr_sup_versions *versions, json_t *row)
{
    double taken = (double)versions->least_free_node.taken / MB,
           limit = (double)versions->least_free_node.limit / MB;
    double least = (double)versions->least_free_node.least / MB;
    const char *name;

    if (versions->least_free_node.limit == 0)
        return;
    name = versions->members->list[versions->least_free_node.node].node.name;
    json_object_set_new(row, "node", json_string(name));
    json_object_set_new(row, "taken_mb", json_real(taken));
    json_object_set_new(row, "least_mb", json_real(least));
    json_object_set_new(row, "limit_mb", json_real(limit));
    if (versions->least_free_node.told)
        return;
    versions->least_free_node.told = true;
    dlr_user_line(
        versions->env.io,
        "snapshots take %.1f MB on %s, the fullest node (%.1f MB without a slot for an "
        "older version and for the disk); --dlrover-set=ckpt-mem allows %.1f MB there",
        taken, name, least, limit);
}
