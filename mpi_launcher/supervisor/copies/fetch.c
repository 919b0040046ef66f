/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that a rank wants to read though they are not its own: those of
 * another number of ranks, which nobody can give out before the regions are named, and what
 * programs look at. An agent asks for each; it is brought to its node, or its file is named.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* One that is on its way. */
struct dlr_sup_bring {
    struct dlr_sup_bring *next;
    struct dlr_transfer t;
};

bool dlr_sup_other_world(const struct dlr_sup *s)
{
    return s->plan->restore && (s->anywhere || s->plan->made_by != s->plan->world);
}

json_t *dlr_sup_restore_row(const struct dlr_sup *s)
{
    json_t *row;

    if (!s->plan->restore)
        return json_null();
    row = json_pack("{s:I,s:I}", "vround", (json_int_t)s->plan->version.round, "step",
                    (json_int_t)s->plan->version.step);
    if (dlr_sup_other_world(s))
        json_object_set_new(row, "world", json_integer(s->plan->made_by));
    return row;
}

static void say_brought(struct dlr_sup *s, unsigned node, unsigned rank, int rc,
                        const char *why, const char *path)
{
    json_t *msg = dlr_msg_new("brought");

    json_object_set_new(msg, "round", json_integer(s->running_round));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "rc", json_integer(-rc));
    json_object_set_new(msg, "why", json_string(why));
    if (path)
        json_object_set_new(msg, "path", json_string(path));
    dlr_sup_send(s->nodes, node, msg);
}

static struct dlr_sup_bring *find(const struct dlr_sup *s, unsigned node, unsigned rank)
{
    struct dlr_sup_bring *b = s->brings;

    while (b && (b->t.to != node || b->t.rank != rank))
        b = b->next;
    return b;
}

static void end(struct dlr_sup *s, struct dlr_sup_bring *b, int rc, const char *why)
{
    struct dlr_sup_bring **at = &s->brings;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    s->brought += rc == 0;
    s->bring_failed |= rc < 0;
    dlr_sup_request_drop(s->copies, b->t.id);
    say_brought(s, b->t.to, b->t.rank, rc, why, NULL);
    free(b);
}

/* Who has it now; all copies that ranks of this round need of their own are where these run. */
static int holder_of(const struct dlr_sup *s, unsigned rank)
{
    const struct dlr_plan_source *src = &s->plan->sources[rank];

    if (!dlr_sup_other_world(s))
        return dlr_sup_node_of(s->planning, dlr_sup_place_of(s->planning, rank));
    return src->where ? dlr_members_find(s->members, src->where) : -1;
}

static void bring_done(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup *s = arg;
    struct dlr_sup_bring *b = s->brings;
    const char *where;

    while (b && (b->t.id != id || b->t.from != node))
        b = b->next;
    if (!b)
        return;
    rc = dlr_sup_copy_rc(rc);
    where = s->members->list[node].node.name;
    if (rc < 0 && dlr_sup_blames(s, where, (int)b->t.rank, s->plan->version, rc))
        dlr_sup_strike(s, where, (int)b->t.rank,
                       s->plan->version); /* the next plan takes another copy of it */
    end(s, b, rc, why);
}

void dlr_sup_on_bring(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round, rank;
    struct dlr_sup_bring *b;
    json_t *order;
    int holder;

    if (!dlr_sup_has_plan(s->plan) || !s->plan->restore ||
        dlr_policy_phase(s->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != s->running_round ||
        dlr_msg_uint(msg, "rank", s->plan->made_by - 1, &rank) < 0 ||
        find(s, node, (unsigned)rank))
        return;
    if (dlr_sup_other_world(s) && s->plan->sources[rank].from == DLR_PLAN_FILE) {
        say_brought(s, node, (unsigned)rank, 0, "", s->plan->sources[rank].where);
        return;
    }
    holder = holder_of(s, (unsigned)rank);
    b = holder >= 0 && s->members->list[holder].here && holder != (int)node
            ? calloc(1, sizeof(*b))
            : NULL;
    if (!b) {
        say_brought(s, node, (unsigned)rank, -ENOENT, "no node has its copy any more",
                    NULL);
        return;
    }
    b->t = (struct dlr_transfer){.id = dlr_sup_request(s->copies, 1, bring_done, s),
                                 .rank = (unsigned)rank,
                                 .from = holder,
                                 .to = node};
    b->next = s->brings;
    s->brings = b;
    order = dlr_msg_new("reserve");
    json_object_set_new(order, "round", json_integer(s->running_round));
    json_object_set_new(order, "rank", json_integer((json_int_t)rank));
    json_object_set_new(order, "bytes",
                        json_integer((json_int_t)s->plan->sources[rank].bytes));
    json_object_set_new(order, "bring", json_true());
    dlr_sup_send(s->nodes, node, order);
}

void dlr_sup_on_room(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round, rank, rc;
    struct dlr_sup_bring *b;
    const char *why = "";

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != dlr_policy_round(s->policy) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return;
    dlr_msg_str(msg, "why", &why);
    if (dlr_sup_rebuild_room(s, node, (unsigned)rank, -(int)rc, why))
        return;
    b = round == s->running_round ? find(s, node, (unsigned)rank) : NULL;
    if (!b || b->t.started)
        return;
    if (rc) {
        end(s, b, -(int)rc, why);
        return;
    }
    b->t.started = true;
    dlr_sup_ask(s, &b->t, "send", b->t.from, "data",
                s->members->list[node].data ? s->members->list[node].data : "");
}

void dlr_sup_bring_lost(struct dlr_sup *s, unsigned node)
{
    for (struct dlr_sup_bring *b = s->brings, *next; b; b = next) {
        next = b->next;
        if (b->t.from == node || b->t.to == node)
            end(s, b, -EPIPE, "the node that has its copy is gone");
    }
}

void dlr_sup_bring_round(struct dlr_sup *s)
{
    for (struct dlr_sup_bring *b = s->brings, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    dlr_sup_requests_drop(s->copies, bring_done);
    s->brings = NULL;
    s->brought = 0;
    s->bring_failed = false;
}
