/* SPDX-License-Identifier: Apache-2.0 */
/* A node has found that a copy it holds went bad in its memory: it holds none any more. A partner's copy
 * is sent again by its owner. A rank's own slot is the worker's, which fills it with the next save; until
 * then a restore takes the partner's. Where no other copy is left, the version is none.
 */
#include <string.h>

#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/sup.h"

/* From its owner to the partner that lost it; false: that is not the way to mend it. */
static bool send_again(struct dlr_sup *s, unsigned node, unsigned rank,
                       struct dlr_version v)
{
    unsigned place = (unsigned)dlr_sup_place_of(s, rank);
    int home = dlr_sup_node_of(s, place);
    const char *data = s->members.list[node].data;
    json_t *msg;

    if (s->sets.rows > 0 || home < 0 || dlr_sup_holder_of(s, place, node) <= 0 || !data)
        return false;
    msg = dlr_msg_new("send");
    json_object_set_new(msg, "id", json_integer((json_int_t)dlr_sup_ids(s, 1)));
    json_object_set_new(msg, "round", json_integer(s->running_round));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "vround", json_integer(v.round));
    json_object_set_new(msg, "step", json_integer((json_int_t)v.step));
    json_object_set_new(msg, "data", json_string(data));
    dlr_sup_send(s, (unsigned)home, msg);
    return true;
}

/* The newest, or the older one that stays: others are freed or void. */
static bool is_wanted(const struct dlr_sup *s, struct dlr_version v)
{
    struct dlr_version newest;

    return (dlr_commit_newest(s->commit, &newest) && dlr_version_eq(newest, v)) ||
           (s->has_vetted && dlr_version_eq(s->vetted, v));
}

void dlr_sup_on_copy_bad(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *where = s->members.list[node].node.name, *why = "";
    uint64_t round, rank, vround, step;
    struct dlr_version v;
    bool again;

    if (!s->have_plan || dlr_policy_phase(s->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != s->running_round || dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    v = (struct dlr_version){(uint32_t)vround, step};
    again = rank < s->plan.world && is_wanted(s, v) &&
            send_again(s, node, (unsigned)rank, v);
    dlr_journal_note(s->journal, "copy_bad", "s:o,s:i,s:s,s:b,s:s", "version",
                     dlr_sup_version(&v), "rank", (int)rank, "node", where, "again",
                     again, "why", why);
    if (s->copies_bad++ == 0)
        dlr_sup_say(s,
                    "the memory of %s is not sound: %s, in rank %llu's copy of step "
                    "%llu; it is made again%s (have the node's memory looked at)",
                    where, why, (unsigned long long)rank, (unsigned long long)v.step,
                    again ? "" : " with the next save");
}
