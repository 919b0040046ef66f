/* SPDX-License-Identifier: Apache-2.0 */
/* A node has found that a copy it holds went bad in its memory: it holds none any more.
 * It is made again of a copy that is good: a rank's own by a partner, a partner's by
 * its owner, a parity shard by the ranks it is made of; with parity alone a rank's own
 * is made of what is left of its set. Where no other copy is left, the version is none.
 */
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/scrub.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"

#define TERMS 1024 /* 32 of "SLOT*COEF " and to spare */

static json_t *order(struct dlr_sup_copies *copies, const char *type, unsigned rank,
                     struct dlr_version v)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "id", json_integer((json_int_t)dlr_sup_ids(copies, 1)));
    json_object_set_new(msg, "round", json_integer(copies->ops->round(copies->arg)));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "vround", json_integer(v.round));
    json_object_set_new(msg, "step", json_integer((json_int_t)v.step));
    return msg;
}

/* False: it cannot be. */
static bool send_copy(struct dlr_sup_copies *copies, int from, unsigned rank,
                      struct dlr_version v, unsigned to)
{
    const char *data = copies->members->list[to].data;
    json_t *msg;

    if (from < 0 || from == (int)to || !data)
        return false;
    msg = order(copies, "send", rank, v);
    json_object_set_new(msg, "data", json_string(data));
    dlr_sup_send(copies->env.nodes, (unsigned)from, msg);
    return true;
}

/* Another node that has a good copy of it, its owner if that is one. -1: none, or node
 * is no holder; *ret_other: another holder, whose own may be bad.
 */
static int good_holder(const struct dlr_sup_copies *copies,
                       const struct dlr_bad_copy *bad, int *ret_other)
{
    struct dlr_bad_copy its = *bad;
    unsigned place;
    int found = -1;

    *ret_other = -1;
    if (copies->sets.rows > 0 || bad->rank >= copies->plan->world)
        return -1;
    place = (unsigned)dlr_sup_place_of(copies->env.planning, bad->rank);
    if (dlr_sup_holder_of(copies, place, bad->node) < 0)
        return -1;
    for (its.node = 0; its.node < copies->members->n; its.node++) {
        int k = its.node == bad->node ? -1 : dlr_sup_holder_of(copies, place, its.node);

        if (k < 0)
            continue;
        *ret_other = (int)its.node;
        if (dlr_bad_copies_has(&copies->bad_copies, &its))
            continue;
        if (found < 0 || k == 0)
            found = (int)its.node;
    }
    return found;
}

/* Its holder has the order to make it of what its ranks send. */
static bool make_shard(struct dlr_sup_copies *copies, const struct dlr_bad_copy *bad)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n, low = bad->rank % copies->plan->world;
    bool all = true;

    if (dlr_sup_holder_of(copies, (unsigned)dlr_sup_place_of(copies->env.planning, low),
                          bad->node) <= 0)
        return false;
    n = dlr_parity_sets_group(&copies->sets, low, ranks);
    for (unsigned i = 0; i < n; i++)
        all = send_copy(copies,
                        dlr_sup_node_of(
                            copies->env.planning,
                            (unsigned)dlr_sup_place_of(copies->env.planning, ranks[i])),
                        ranks[i], bad->version, bad->node) &&
              all;
    return all;
}

/* As many good slots of the rank's group as it has ranks, and their nodes; 0: too
 * little is left.
 */
static unsigned find_parts(const struct dlr_sup_copies *copies,
                           const struct dlr_bad_copy *bad, unsigned *ret_slot,
                           int *ret_node)
{
    unsigned ranks[DLR_PARITY_DATA_MAX],
        n = dlr_parity_sets_group(&copies->sets, bad->rank, ranks);
    struct dlr_bad_copy part = *bad;
    unsigned found = 0;

    for (unsigned i = 0; i < n + copies->sets.rows && found < n; i++) {
        unsigned of = i < n ? ranks[i] : bad->rank;
        unsigned place = (unsigned)dlr_sup_place_of(copies->env.planning, of);
        int node = i < n ? dlr_sup_node_of(copies->env.planning, place)
                         : dlr_sup_holder_node(copies, place, 1 + i - n);

        part.rank = i < n ? of : dlr_sup_shard_of(copies, of, i - n);
        part.node = (unsigned)node;
        if (part.rank == bad->rank || node < 0 ||
            dlr_bad_copies_has(&copies->bad_copies, &part))
            continue;
        ret_slot[found] = part.rank;
        ret_node[found++] = node;
    }
    return found == n ? n : 0;
}

/* An older version is left alone: a sum that lacks a part keeps its slot until a newer
 * one is committed.
 */
static bool make_own(struct dlr_sup_copies *copies, const struct dlr_bad_copy *bad)
{
    const struct dlr_member *to = &copies->members->list[bad->node];
    char terms[TERMS], text[TERMS + 16];
    unsigned slot[DLR_PARITY_DATA_MAX], n;
    int node[DLR_PARITY_DATA_MAX];
    struct dlr_version newest;
    bool all = true;
    json_t *msg;

    if (!to->data || /* an order without its parts keeps a slot */
        dlr_sup_holder_of(copies,
                          (unsigned)dlr_sup_place_of(copies->env.planning, bad->rank),
                          bad->node) ||
        (dlr_commit_newest(copies->commit, &newest) &&
         dlr_version_cmp(bad->version, newest) < 0))
        return false;
    n = find_parts(copies, bad, slot, node);
    if (!n || dlr_parity_sets_rebuild_terms(&copies->sets, bad->rank, slot, terms,
                                            sizeof(terms)))
        return false;
    dlr_format(text, sizeof(text), "%u %s", copies->plan->world, terms);
    msg = order(copies, "rebuild", bad->rank, bad->version);
    json_object_set_new(msg, "terms", json_string(text));
    dlr_sup_send(copies->env.nodes, bad->node, msg);
    for (unsigned i = 0; i < n; i++)
        all = send_copy(copies, node[i], slot[i], bad->version, bad->node) && all;
    return all;
}

/* from: a good copy of it, or -1. False: it is the next save's. */
static bool make_again(struct dlr_sup_copies *copies, const struct dlr_bad_copy *bad,
                       int from)
{
    if (copies->sets.rows > 0)
        return bad->rank < copies->plan->world ? make_own(copies, bad)
                                               : make_shard(copies, bad);
    return send_copy(copies, from, bad->rank, bad->version, bad->node);
}

/* The newest, one that may become that, or the older one that stays: others are freed
 * or void.
 */
static bool is_wanted(const struct dlr_sup_copies *copies, struct dlr_version v)
{
    struct dlr_version newest;

    return !dlr_commit_newest(copies->commit, &newest) ||
           dlr_version_cmp(v, newest) >= 0 || copies->ops->keeps(copies->arg, v);
}

static const char *name_of(const struct dlr_sup_copies *copies, int node)
{
    return copies->members->list[node].node.name;
}

/* What there is of the version until it is replaced. other: the node that has it still,
 * or -1.
 */
static void tell(struct dlr_sup_copies *copies, const struct dlr_bad_copy *bad,
                 const char *why, bool again, bool wanted, int other)
{
    const unsigned long long rank = bad->rank, step = bad->version.step;
    const char *where = name_of(copies, (int)bad->node);
    char left[DLR_TOPO_NAME + 64] = "";

    if (!again && wanted && other >= 0)
        dlr_format(left, sizeof(left),
                   " with the next save, until then %s's is the only one",
                   name_of(copies, other));
    else if (!again)
        dlr_format(left, sizeof(left), " with the next save%s",
                   wanted && copies->sets.rows > 0
                       ? ", until then its set lacks a shard"
                       : "");
    dlr_user_line(copies->env.io,
                  "the memory of %s is not sound: %s, in rank %llu's copy of step "
                  "%llu; it is made again%s (have the node's memory looked at)",
                  where, why, rank, step, left);
}

/* All copies are bad: said of each, since the training would be thrown back. */
static void tell_lost(struct dlr_sup_copies *copies, const struct dlr_bad_copy *bad,
                      const char *why, int other)
{
    dlr_user_line(
        copies->env.io,
        "the memory of %s is not sound: %s, in rank %u's copy of step %llu, and "
        "so is %s's: no good copy is left in memory until the next save (have "
        "the memory of both nodes looked at)",
        name_of(copies, (int)bad->node), why, bad->rank,
        (unsigned long long)bad->version.step, name_of(copies, other));
}

void dlr_sup_on_copy_bad(struct dlr_sup_copies *copies, unsigned node,
                         const json_t *msg)
{
    const char *where = name_of(copies, (int)node), *why = "";
    uint64_t round, rank, vround, step;
    bool again, wanted, lost;
    struct dlr_bad_copy bad;
    struct dlr_version v;
    int other, good;

    if (!dlr_sup_has_plan(copies->plan) ||
        dlr_policy_phase(copies->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != copies->ops->round(copies->arg) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    v = (struct dlr_version){(uint32_t)vround, step};
    bad =
        (struct dlr_bad_copy){v, (unsigned)rank, node, copies->ops->round(copies->arg)};
    wanted = is_wanted(copies, v);
    good = good_holder(copies, &bad, &other);
    lost = wanted && other >= 0 && good < 0;
    again = wanted && make_again(copies, &bad, good);
    dlr_bad_copies_add(&copies->bad_copies, &bad);
    dlr_journal_note(dlr_sup_journal(copies->env.io), "copy_bad", "s:o,s:i,s:s,s:b,s:s",
                     "version", dlr_sup_version(&v), "rank", (int)rank, "node", where,
                     "again", again, "why", why);
    if (lost)
        tell_lost(copies, &bad, why, other);
    if (copies->copies_bad++ == 0 && !lost)
        tell(copies, &bad, why, again, wanted, good);
}

void dlr_sup_scrub_copied(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          int holder, struct dlr_version v)
{
    unsigned slot = copies->sets.rows > 0 && holder > 0
                        ? dlr_sup_shard_of(copies, rank, (unsigned)holder - 1)
                        : rank;
    struct dlr_bad_copy bad = {v, slot, node, copies->ops->round(copies->arg)};

    if (dlr_bad_copies_del(&copies->bad_copies, &bad))
        dlr_journal_note(dlr_sup_journal(copies->env.io), "copy_remade", "s:o,s:i,s:s",
                         "version", dlr_sup_version(&v), "rank", (int)slot, "node",
                         name_of(copies, (int)node));
}
