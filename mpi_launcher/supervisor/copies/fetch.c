/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that a rank wants to read though they are not its
 * own: those of another number of ranks, which nobody can give out before the regions
 * are named, and what programs look at. An agent asks for each; it is fetched to its
 * node, or its file is named.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"

/* One that is on its way. */
struct dlr_sup_fetch {
    struct dlr_sup_fetch *next;
    struct dlr_transfer t;
};

bool dlr_restore_changes_world_size(const struct dlr_sup_copies *copies)
{
    return copies->plan->restore && (copies->ops->anywhere(copies->arg) ||
                                     copies->plan->made_by != copies->plan->world);
}

json_t *dlr_sup_restore_row(const struct dlr_sup_copies *copies)
{
    json_t *row;

    if (!copies->plan->restore)
        return json_null();
    row = json_pack("{s:I,s:I}", "vround", (json_int_t)copies->plan->version.round,
                    "step", (json_int_t)copies->plan->version.step);
    if (dlr_restore_changes_world_size(copies))
        json_object_set_new(row, "world", json_integer(copies->plan->made_by));
    return row;
}

static void say_fetched(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                        int rc, const char *why, const char *path)
{
    json_t *msg = dlr_msg_new("fetched");

    json_object_set_new(msg, "round", json_integer(copies->ops->round(copies->arg)));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "rc", json_integer(-rc));
    json_object_set_new(msg, "why", json_string(why));
    if (path)
        json_object_set_new(msg, "path", json_string(path));
    dlr_sup_send(copies->env.nodes, node, msg);
}

static struct dlr_sup_fetch *find(const struct dlr_sup_copies *copies, unsigned node,
                                  unsigned rank)
{
    struct dlr_sup_fetch *b = copies->fetches;

    while (b && (b->t.to != node || b->t.rank != rank))
        b = b->next;
    return b;
}

static void end(struct dlr_sup_copies *copies, struct dlr_sup_fetch *b, int rc,
                const char *why)
{
    struct dlr_sup_fetch **at = &copies->fetches;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    copies->fetched += rc == 0;
    copies->fetch_failed |= rc < 0;
    dlr_sup_request_drop(copies, b->t.id);
    say_fetched(copies, b->t.to, b->t.rank, rc, why, NULL);
    free(b);
}

/* Who has it now; all copies that ranks of this round need of their own are where these
 * run.
 */
static int holder_of(const struct dlr_sup_copies *copies, unsigned rank)
{
    const struct dlr_plan_source *src = &copies->plan->sources[rank];

    if (!dlr_restore_changes_world_size(copies))
        return dlr_sup_node_of(copies->env.planning,
                               dlr_sup_place_of(copies->env.planning, rank));
    return src->where ? dlr_members_find(copies->members, src->where) : -1;
}

static void bring_done(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup_copies *copies = arg;
    struct dlr_sup_fetch *b = copies->fetches;
    const char *where;

    while (b && (b->t.id != id || b->t.from != node))
        b = b->next;
    if (!b)
        return;
    rc = dlr_sup_copy_rc(rc);
    where = copies->members->list[node].node.name;
    if (rc < 0 && dlr_transfer_is_rejected(copies, where, (int)b->t.rank,
                                           copies->plan->version, rc))
        dlr_reject_copy(
            copies, where, (int)b->t.rank,
            copies->plan->version); /* the next plan takes another copy of it */
    end(copies, b, rc, why);
}

void dlr_sup_on_fetch(struct dlr_sup_copies *copies, unsigned node, const json_t *msg)
{
    uint64_t round, rank;
    struct dlr_sup_fetch *b;
    json_t *order;
    int holder;

    if (!dlr_sup_has_plan(copies->plan) || !copies->plan->restore ||
        dlr_policy_phase(copies->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != copies->ops->round(copies->arg) ||
        dlr_msg_uint(msg, "rank", copies->plan->made_by - 1, &rank) < 0 ||
        find(copies, node, (unsigned)rank))
        return;
    if (dlr_restore_changes_world_size(copies) &&
        copies->plan->sources[rank].from == DLR_PLAN_FILE) {
        say_fetched(copies, node, (unsigned)rank, 0, "",
                    copies->plan->sources[rank].where);
        return;
    }
    holder = holder_of(copies, (unsigned)rank);
    b = holder >= 0 && copies->members->list[holder].here && holder != (int)node
            ? calloc(1, sizeof(*b))
            : NULL;
    if (!b) {
        say_fetched(copies, node, (unsigned)rank, -ENOENT,
                    "no node has its copy any more", NULL);
        return;
    }
    b->t = (struct dlr_transfer){.id = dlr_sup_request(copies, 1, bring_done, copies),
                                 .rank = (unsigned)rank,
                                 .from = holder,
                                 .to = node};
    b->next = copies->fetches;
    copies->fetches = b;
    order = dlr_msg_new("reserve");
    json_object_set_new(order, "round", json_integer(copies->ops->round(copies->arg)));
    json_object_set_new(order, "rank", json_integer((json_int_t)rank));
    json_object_set_new(order, "bytes",
                        json_integer((json_int_t)copies->plan->sources[rank].bytes));
    json_object_set_new(order, "fetch", json_true());
    dlr_sup_send(copies->env.nodes, node, order);
}

void dlr_sup_on_room(struct dlr_sup_copies *copies, unsigned node, const json_t *msg)
{
    uint64_t round, rank, rc;
    struct dlr_sup_fetch *b;
    const char *why = "";

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(copies->policy) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    if (dlr_sup_rebuild_room(copies, node, (unsigned)rank, -(int)rc, why))
        return;
    b = round == copies->ops->round(copies->arg) ? find(copies, node, (unsigned)rank)
                                                 : NULL;
    if (!b || b->t.started)
        return;
    if (rc) {
        end(copies, b, -(int)rc, why);
        return;
    }
    b->t.started = true;
    dlr_sup_ask(copies, &b->t, "send", b->t.from, "data",
                copies->members->list[node].data ? copies->members->list[node].data
                                                 : "");
}

void dlr_sup_fetch_lost(struct dlr_sup_copies *copies, unsigned node)
{
    for (struct dlr_sup_fetch *b = copies->fetches, *next; b; b = next) {
        next = b->next;
        if (b->t.from == node || b->t.to == node)
            end(copies, b, -EPIPE, "the node that has its copy is gone");
    }
}

unsigned dlr_sup_fetched(const struct dlr_sup_copies *copies)
{
    return copies->fetched;
}

bool dlr_sup_bring_failed(const struct dlr_sup_copies *copies)
{
    return copies->fetch_failed;
}

void dlr_sup_fetch_round(struct dlr_sup_copies *copies)
{
    for (struct dlr_sup_fetch *b = copies->fetches, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    dlr_sup_requests_drop(copies, bring_done);
    copies->fetches = NULL;
    copies->fetched = 0;
    copies->fetch_failed = false;
}
