/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/nodes_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/text.h"

static void clear_node(struct dlr_cli_node *n)
{
    dlr_cli_set_text(&n->reason, NULL);
    dlr_cli_set_text(&n->partner, NULL);
    json_decref(n->ranks);
    n->ranks = NULL;
    n->first = n->tasks = 0;
    n->moved = false;
}

void dlr_cli_nodes_forget(struct dlr_cli_state *s)
{
    for (size_t i = 0; i < s->nnodes; i++) {
        clear_node(&s->nodes[i]);
        free(s->nodes[i].name);
        free(s->nodes[i].leaf);
        free(s->nodes[i].path);
    }
    s->nnodes = 0;
    json_object_clear(s->index);
}

/* The node of that name, new when it was not known; NULL without a name or memory. */
static struct dlr_cli_node *node_of(struct dlr_cli_state *s, const char *name)
{
    const json_t *at = name ? json_object_get(s->index, name) : NULL;
    DLR_AUTO_FREE char *copy = NULL;
    struct dlr_cli_node *more;

    if (at)
        return &s->nodes[json_integer_value(at)];
    if (!name || !name[0] || !(copy = strdup(name)))
        return NULL;
    if ((s->nnodes & (s->nnodes - 1)) == 0) { /* full at each power of two */
        more = realloc(s->nodes, (s->nnodes ? 2 * s->nnodes : 1) * sizeof(*more));
        if (!more)
            return NULL;
        s->nodes = more;
    }
    if (json_object_set_new(s->index, name, json_integer((json_int_t)s->nnodes)) < 0)
        return NULL;
    s->nodes[s->nnodes] = (struct dlr_cli_node){.name = DLR_STEAL(copy)};
    return &s->nodes[s->nnodes++];
}

void dlr_cli_nodes_start(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *names = json_object_get(e, "nodes");

    dlr_cli_nodes_forget(s);
    for (size_t i = 0; i < json_array_size(names); i++)
        node_of(s, json_string_value(json_array_get(names, i)));
}

void dlr_cli_nodes_up(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, dlr_cli_event_text(e, "node"));

    if (!n)
        return;
    dlr_cli_set_text(&n->leaf, dlr_cli_event_text(e, "leaf"));
    dlr_cli_set_text(&n->path, dlr_cli_event_text(e, "path"));
    if (n->role == DLR_CLI_TRAINING || n->role == DLR_CLI_SPARE)
        return;
    clear_node(n);
    n->role = DLR_CLI_READY;
}

static void set_role(struct dlr_cli_node *n, enum dlr_cli_role role, const char *reason)
{
    clear_node(n);
    n->role = role;
    dlr_cli_set_text(&n->reason, reason);
}

void dlr_cli_nodes_dead(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, dlr_cli_event_text(e, "node"));
    int64_t silent_ms = dlr_cli_event_int(e, "silent_ms", -1);
    const char *why = dlr_cli_event_text(e, "why");
    char reason[256], span[32] = "", when[32];

    if (!n)
        return;
    if (silent_ms >= 0)
        dlr_cli_span(silent_ms, span, sizeof(span));
    dlr_cli_time_text(s->last_ms, when, sizeof(when));
    snprintf(reason, sizeof(reason), "%.128s%s%s, %.8s", why ? why : "?",
             span[0] ? " for " : "", span, when + 11);
    set_role(n, DLR_CLI_DEAD, reason);
}

void dlr_cli_nodes_warm(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, dlr_cli_event_text(e, "node"));
    int64_t mb = dlr_cli_event_int(e, "mb", -1);
    char reason[64];

    if (!n || n->role != DLR_CLI_SPARE)
        return;
    snprintf(reason, sizeof(reason), "warm, %lld MB", (long long)mb);
    dlr_cli_set_text(&n->reason, mb < 0 ? NULL : reason);
}

void dlr_cli_nodes_gone(struct dlr_cli_state *s, const char *name, const char *why)
{
    struct dlr_cli_node *n = node_of(s, name);

    if (n && n->role != DLR_CLI_DEAD)
        set_role(n, DLR_CLI_DEAD, why);
}

/* "n2", or "n2, n3" where several nodes keep its copies, or parity of it. */
static void take_partners(struct dlr_cli_node *n, const json_t *p)
{
    const json_t *parity = json_object_get(p, "parity");
    const json_t *names = parity ? parity : json_object_get(p, "partners");
    char all[DLR_CLI_PARTNERS] = "";
    size_t used = 0;

    dlr_cli_set_text(&n->partner, dlr_cli_event_text(p, "partner"));
    n->parity = parity != NULL;
    if (json_array_size(names) == 0)
        return;
    for (size_t i = 0; i < json_array_size(names) && used < sizeof(all); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
                                 name ? name : "?");
    }
    dlr_cli_set_text(&n->partner, all);
}

static void take_place(struct dlr_cli_state *s, const json_t *p)
{
    struct dlr_cli_node *n = node_of(s, dlr_cli_event_text(p, "node"));

    if (!n)
        return;
    clear_node(n);
    n->placed = true;
    n->role = DLR_CLI_TRAINING;
    n->first = dlr_cli_event_int(p, "first", 0);
    n->tasks = dlr_cli_event_int(p, "tasks", 1);
    n->ranks = json_incref(json_object_get(p, "ranks"));
    n->moved = json_is_true(json_object_get(p, "moved"));
    take_partners(n, p);
    if (dlr_cli_event_text(p, "path"))
        dlr_cli_set_text(&n->path, dlr_cli_event_text(p, "path"));
    if (dlr_cli_event_text(p, "leaf"))
        dlr_cli_set_text(&n->leaf, dlr_cli_event_text(p, "leaf"));
}

static void take_spares(struct dlr_cli_state *s, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        struct dlr_cli_node *n =
            node_of(s, json_string_value(json_array_get(names, i)));

        if (!n)
            continue;
        if (n->role != DLR_CLI_SPARE) /* else what runs ahead there goes on */
            set_role(n, DLR_CLI_SPARE, NULL);
        n->placed = true;
    }
}

static void take_out(struct dlr_cli_state *s, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        struct dlr_cli_node *n = node_of(s, dlr_cli_event_text(row, "node"));

        if (!n || n->role == DLR_CLI_DEAD)
            continue;
        set_role(n, DLR_CLI_EXCLUDED, dlr_cli_event_text(row, "reason"));
        n->placed = true;
    }
}

/* The plan knows nothing of this node. */
static void forget_place(struct dlr_cli_node *n)
{
    if (n->role == DLR_CLI_WAITING)
        set_role(n, DLR_CLI_DEAD, "its agent has not reported");
    else if (n->role == DLR_CLI_TRAINING || n->role == DLR_CLI_SPARE)
        set_role(n, DLR_CLI_EXCLUDED, "its last round did not end there in time");
}

void dlr_cli_nodes_place(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *places = json_object_get(e, "places");

    for (size_t i = 0; i < json_array_size(places); i++)
        take_place(s, json_array_get(places, i));
    take_spares(s, json_object_get(e, "spares"));
}

void dlr_cli_nodes_plan(struct dlr_cli_state *s, const json_t *e)
{
    for (size_t i = 0; i < s->nnodes; i++)
        s->nodes[i].placed = false;
    dlr_cli_nodes_place(s, e);
    take_out(s, json_object_get(e, "out"));
    for (size_t i = 0; i < s->nnodes; i++)
        if (!s->nodes[i].placed)
            forget_place(&s->nodes[i]);
}
