/* SPDX-License-Identifier: Apache-2.0 */
/* What each node was, and since when. */
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/report/model.h"

const struct dlr_cli_node *dlr_report_seat(const struct dlr_report *r, const char *name)
{
    const json_t *at = json_object_get(r->state.index, name);

    return at ? &r->state.nodes[json_integer_value(at)] : NULL;
}

/* The node of that name, new when it is not known; NULL without memory. */
static struct dlr_report_node *node_of(struct dlr_report *r, const char *name)
{
    const json_t *at = json_object_get(r->index, name);
    DLR_AUTO_FREE char *copy = NULL;
    struct dlr_report_node *more;

    if (at)
        return &r->nodes[json_integer_value(at)];
    if (!(copy = strdup(name)))
        return NULL;
    if ((r->nnodes & (r->nnodes - 1)) == 0) { /* full at each power of two */
        more = realloc(r->nodes, (r->nnodes ? 2 * r->nnodes : 1) * sizeof(*more));
        if (!more)
            return NULL;
        r->nodes = more;
    }
    if (json_object_set_new(r->index, name, json_integer((json_int_t)r->nnodes)) < 0)
        return NULL;
    r->nodes[r->nnodes] = (struct dlr_report_node){.name = DLR_STEAL(copy)};
    return &r->nodes[r->nnodes++];
}

static void turn(const struct dlr_report *r, struct dlr_report_node *n,
                 enum dlr_cli_role role)
{
    struct dlr_report_turn *last = n->nturns ? &n->turns[n->nturns - 1] : NULL, *more;
    int64_t ms = last && last->ms > r->ms ? last->ms : r->ms;

    if (last && last->role == role)
        return;
    if ((n->nturns & (n->nturns - 1)) == 0) {
        more = realloc(n->turns, (n->nturns ? 2 * n->nturns : 1) * sizeof(*more));
        if (!more)
            return;
        n->turns = more;
    }
    n->turns[n->nturns++] = (struct dlr_report_turn){ms, role};
}

/* What the newest plan has it for; between rounds, too. */
static enum dlr_cli_role role_of(const struct dlr_report *r,
                                 const struct dlr_cli_node *n)
{
    bool gone = r->state.phase == DLR_CLI_FINISHED || r->state.phase == DLR_CLI_REQUEUE;

    if (!n)
        return DLR_CLI_RELEASED;
    if (gone && n->role != DLR_CLI_DEAD && n->role != DLR_CLI_EXCLUDED)
        return DLR_CLI_RELEASED;
    return n->role;
}

static void take_one(struct dlr_report *r, const char *name)
{
    const struct dlr_cli_node *seat = name && name[0] ? dlr_report_seat(r, name) : NULL;
    struct dlr_report_node *n = seat ? node_of(r, name) : NULL;

    if (!n)
        return;
    if (seat->leaf && !dlr_streq(seat->leaf, n->leaf))
        dlr_cli_set_text(&n->leaf, seat->leaf);
    turn(r, n, role_of(r, seat));
}

static void take_all(struct dlr_report *r)
{
    for (size_t i = 0; i < r->state.nnodes; i++)
        take_one(r, r->state.nodes[i].name);
    for (size_t i = 0; i < r->nnodes; i++)
        if (!dlr_report_seat(r, r->nodes[i].name))
            turn(r, &r->nodes[i], DLR_CLI_RELEASED);
}

void dlr_report_histories_take(struct dlr_report *r, const json_t *e)
{
    static const char *const all[] = {"start",    "plan",     "adopted", "requeue",
                                      "requeued", "takeover", "end"};
    const char *name = dlr_cli_event_text(e, "event");

    if (dlr_streq(name, "node_up") || dlr_streq(name, "node_dead"))
        take_one(r, dlr_cli_event_text(e, "node"));
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (dlr_streq(name, all[i]))
            take_all(r);
}

void dlr_report_histories_done(struct dlr_report *r)
{
    for (size_t i = 0; i < r->nnodes; i++) {
        free(r->nodes[i].name);
        free(r->nodes[i].leaf);
        free(r->nodes[i].turns);
    }
    free(r->nodes);
    json_decref(r->index);
}

enum dlr_cli_role dlr_report_role_at(const struct dlr_report_node *n, int64_t ms)
{
    size_t low = 0, high = n->nturns;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (n->turns[mid].ms <= ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? n->turns[low - 1].role : DLR_CLI_WAITING;
}
