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

/* The other node that has a copy of rank's; -1: none has a whole one, or node is no holder. */
static int other_holder(const struct dlr_sup *s, unsigned node, unsigned rank)
{
    unsigned place;

    if (s->sets.rows > 0 || rank >= s->plan.world)
        return -1;
    place = (unsigned)dlr_sup_place_of(s, rank);
    if (dlr_sup_holder_of(s, place, node) < 0)
        return -1;
    for (unsigned i = 0; i < s->members.n; i++)
        if (i != node && dlr_sup_holder_of(s, place, i) >= 0)
            return (int)i;
    return -1;
}

static const char *name_of(const struct dlr_sup *s, int node)
{
    return s->members.list[node].node.name;
}

/* What there is of the version until it is replaced. */
static void tell(struct dlr_sup *s, const struct dlr_bad_copy *bad, const char *why,
                 bool again, bool wanted)
{
    const unsigned long long rank = bad->rank, step = bad->version.step;
    int other = wanted ? other_holder(s, bad->node, bad->rank) : -1;
    const char *where = name_of(s, (int)bad->node);
    char left[DLR_TOPO_NAME + 64] = "";

    if (!again && other >= 0)
        dlr_format(left, sizeof(left),
                   " with the next save, until then %s's is the only one",
                   name_of(s, other));
    else if (!again)
        dlr_format(left, sizeof(left), " with the next save%s",
                   wanted && s->sets.rows > 0 ? ", until then its set lacks a shard"
                                              : "");
    dlr_sup_say(s,
                "the memory of %s is not sound: %s, in rank %llu's copy of step "
                "%llu; it is made again%s (have the node's memory looked at)",
                where, why, rank, step, left);
}

/* Both copies are bad: said of each, since the training would be thrown back. */
static bool tell_lost(struct dlr_sup *s, const struct dlr_bad_copy *bad,
                      const char *why)
{
    int other = other_holder(s, bad->node, bad->rank);
    struct dlr_bad_copy its = {bad->version, bad->rank, (unsigned)other, bad->round};

    if (other < 0 || !dlr_bad_copies_has(&s->bad_copies, &its))
        return false;
    dlr_sup_say(
        s,
        "the memory of %s is not sound: %s, in rank %u's copy of step %llu, and "
        "so is %s's: no good copy is left in memory until the next save (have "
        "the memory of both nodes looked at)",
        name_of(s, (int)bad->node), why, bad->rank,
        (unsigned long long)bad->version.step, name_of(s, other));
    return true;
}

void dlr_sup_on_copy_bad(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *where = name_of(s, (int)node), *why = "";
    uint64_t round, rank, vround, step;
    struct dlr_bad_copy bad;
    struct dlr_version v;
    bool again, wanted, lost;

    if (!s->have_plan || dlr_policy_phase(s->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != s->running_round || dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    v = (struct dlr_version){(uint32_t)vround, step};
    bad = (struct dlr_bad_copy){v, (unsigned)rank, node, s->running_round};
    wanted = is_wanted(s, v);
    lost = wanted && tell_lost(s, &bad, why);
    again = wanted && !lost && rank < s->plan.world &&
            send_again(s, node, (unsigned)rank, v);
    if (!again)
        dlr_bad_copies_add(&s->bad_copies, &bad);
    dlr_journal_note(s->journal, "copy_bad", "s:o,s:i,s:s,s:b,s:s", "version",
                     dlr_sup_version(&v), "rank", (int)rank, "node", where, "again",
                     again, "why", why);
    if (s->copies_bad++ == 0 && !lost)
        tell(s, &bad, why, again, wanted);
}
