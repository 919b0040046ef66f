/* SPDX-License-Identifier: Apache-2.0 */
/* What each node is told of a round: its own ranks, who keeps copies of them, whose copies come to it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Which places send copies to which: those of place p are list[at[p]] to list[at[p + 1] - 1]. */
struct senders {
    unsigned *at, *list;
};

static json_t *row_of(struct dlr_sup *s, unsigned p)
{
    const struct dlr_plan_place *place = &s->plan->places[p];
    const char *data = s->members->list[dlr_sup_node_of(s->planning, p)].data;
    json_t *ranks = json_array();

    for (unsigned t = 0; t < place->tasks; t++)
        json_array_append_new(ranks, json_integer(s->plan->ranks[place->from + t]));
    return json_pack("{s:s,s:o,s:s}", "node", place->node.name, "ranks", ranks, "data",
                     data ? data : "");
}

static void add_partners(struct dlr_sup *s, json_t *partners, unsigned p)
{
    if (dlr_sup_copies(s) > 0)
        json_object_set_new(partners, s->plan->places[p].node.name,
                            dlr_sup_holder_names(s, p));
}

/* What all nodes are told alike. */
static json_t *head(struct dlr_sup *s, uint32_t round)
{
    json_t *msg = dlr_msg_new("round");

    json_object_set_new(msg, "round", json_integer(round));
    json_object_set_new(msg, "token", json_string(s->token));
    json_object_set_new(msg, "world", json_integer(s->plan->world));
    json_object_set_new(msg, "turn", json_integer(s->turn));
    if (dlr_sup_ranks_gathered(s))
        json_object_set_new(msg, "gather", json_true());
    json_object_set_new(msg, "restore", dlr_sup_restore_row(s));
    return msg;
}

/* --- parity: a successor must know the sets of all --------------------------------------------- */

static int tell_all(struct dlr_sup *s, uint32_t round)
{
    json_t *nodes = json_array(), *partners = json_object();
    DLR_AUTO_JSON json_t *msg = head(s, round);
    DLR_AUTO_FREE char *text = NULL;

    for (unsigned p = 0; p < s->plan->nplaces; p++) {
        json_array_append_new(nodes, row_of(s, p));
        add_partners(s, partners, p);
    }
    json_object_set_new(msg, "nodes", nodes);
    json_object_set_new(msg, "partners", partners);
    json_object_set_new(msg, "sums", dlr_sup_round_sums(s));
    text = dlr_msg_text(msg);
    if (!text)
        return -ENOMEM;
    if (strlen(text) > DLR_MSG_MAX)
        return -E2BIG;
    for (unsigned i = 0; i < s->members->n; i++)
        if (s->members->list[i].here)
            dlr_sup_outbox_send(s->io, &s->members->list[i].route, text, strlen(text));
    return 0;
}

/* --- partners: each is told what concerns it ----------------------------------------------------- */

static void count_senders(const struct dlr_sup *s, struct senders *ret)
{
    unsigned n = s->plan->nplaces;

    for (unsigned p = 0; p < n; p++)
        for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
            ret->at[dlr_sup_holder(s, p, k) + 2]++;
    for (unsigned q = 2; q < n + 2; q++)
        ret->at[q] += ret->at[q - 1];
    for (unsigned p = 0; p < n; p++)
        for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
            ret->list[ret->at[dlr_sup_holder(s, p, k) + 1]++] = p;
}

static void add_place(struct dlr_sup *s, json_t *nodes, json_t *partners, bool *seen,
                      unsigned p)
{
    if (seen[p])
        return;
    seen[p] = true;
    json_array_append_new(nodes, row_of(s, p));
    if (partners)
        add_partners(s, partners, p);
}

/* seen: no place yet, and again on return. */
static void tell_place(struct dlr_sup *s, const json_t *common, unsigned p,
                       const struct senders *from, bool *seen)
{
    json_t *msg = json_copy((json_t *)common), *nodes = json_array();
    json_t *partners = json_object();

    add_place(s, nodes, partners, seen, p);
    for (unsigned i = from->at[p]; i < from->at[p + 1]; i++)
        add_place(s, nodes, partners, seen, from->list[i]);
    for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
        add_place(s, nodes, NULL, seen, dlr_sup_holder(s, p, k));
    seen[p] = false;
    for (unsigned i = from->at[p]; i < from->at[p + 1]; i++)
        seen[from->list[i]] = false;
    for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
        seen[dlr_sup_holder(s, p, k)] = false;
    json_object_set_new(msg, "nodes", nodes);
    json_object_set_new(msg, "partners", partners);
    dlr_sup_send(s->nodes, (unsigned)dlr_sup_node_of(s->planning, p), msg);
}

/* One that has no place hears of the round, and frees what it has no more use for. */
static void tell_others(struct dlr_sup *s, const json_t *common, const bool *placed)
{
    for (unsigned i = 0; i < s->members->n; i++) {
        json_t *msg = placed[i] ? NULL : json_copy((json_t *)common);

        if (!msg)
            continue;
        json_object_set_new(msg, "nodes", json_array());
        json_object_set_new(msg, "partners", json_object());
        dlr_sup_send(s->nodes, i, msg);
    }
}

static int tell_each(struct dlr_sup *s, uint32_t round)
{
    unsigned n = s->plan->nplaces;
    DLR_AUTO_FREE unsigned *at = calloc(n + 2, sizeof(*at));
    DLR_AUTO_FREE unsigned *list =
        calloc((size_t)n * dlr_sup_copies(s) + 1, sizeof(*list));
    DLR_AUTO_FREE bool *seen = calloc(n, sizeof(*seen));
    DLR_AUTO_FREE bool *placed = calloc(s->members->n, sizeof(*placed));
    DLR_AUTO_JSON json_t *common = head(s, round);
    struct senders from = {at, list};

    if (!at || !list || !seen || !placed || !common)
        return -ENOMEM;
    count_senders(s, &from);
    for (unsigned p = 0; p < n; p++) {
        tell_place(s, common, p, &from, seen);
        placed[dlr_sup_node_of(s->planning, p)] = true;
    }
    tell_others(s, common, placed);
    return 0;
}

void dlr_sup_tell_round(struct dlr_sup *s, uint32_t round)
{
    int rc = s->sets.rows > 0 ? tell_all(s, round) : tell_each(s, round);

    if (rc == 0)
        return;
    s->transfer_rc = rc;
    snprintf(s->transfer_why, sizeof(s->transfer_why),
             rc == -E2BIG
                 ? "%u nodes are too many for parity: what each must know of all takes "
                   "more than a message (--dlrover-redundancy)"
                 : "no memory for what %u nodes are told of the round",
             s->plan->nplaces);
}
