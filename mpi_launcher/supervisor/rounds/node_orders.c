/* SPDX-License-Identifier: Apache-2.0 */
/* What each node is told of a round: its own ranks, who keeps copies of them, whose
 * copies come to it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

/* One that can be guessed would let anybody write into the copies: without it there is
 * no round.
 */
int dlr_sup_new_token(struct dlr_sup_rounds *rounds)
{
    unsigned char raw[16];

    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw)) {
        dlr_sup_transfers_fail(rounds->env.copies, -EIO,
                               "no random number for the round's token: getrandom: %s",
                               strerror(errno));
        return -EIO;
    }
    for (unsigned i = 0; i < sizeof(raw); i++)
        snprintf(rounds->token + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

/* Which places send copies to which: those of place p are list[at[p]] to list[at[p + 1]
 * - 1].
 */
struct senders {
    unsigned *at, *list;
};

static json_t *row_of(struct dlr_sup_rounds *rounds, unsigned p)
{
    const struct dlr_plan_place *place = &rounds->env.plan->places[p];
    const char *data =
        rounds->members->list[dlr_sup_node_of(rounds->env.planning, p)].data;
    json_t *ranks = json_array();

    for (unsigned t = 0; t < place->tasks; t++)
        json_array_append_new(ranks,
                              json_integer(rounds->env.plan->ranks[place->from + t]));
    return json_pack("{s:s,s:o,s:s}", "node", place->node.name, "ranks", ranks, "data",
                     data ? data : "");
}

static void add_partners(struct dlr_sup_rounds *rounds, json_t *partners, unsigned p)
{
    if (dlr_sup_copies(rounds->env.copies) > 0)
        json_object_set_new(partners, rounds->env.plan->places[p].node.name,
                            dlr_sup_holder_names(rounds->env.copies, p));
}

/* What all nodes are told alike. */
static json_t *head(struct dlr_sup_rounds *rounds, uint32_t round)
{
    json_t *msg = dlr_msg_new("round");

    json_object_set_new(msg, "round", json_integer(round));
    json_object_set_new(msg, "token", json_string(rounds->token));
    json_object_set_new(msg, "world", json_integer(rounds->env.plan->world));
    json_object_set_new(msg, "turn", json_integer(rounds->turn));
    /* In each round the program is asked for them before anybody begins. */
    if (dlr_sup_seats_told(rounds->env.planning))
        json_object_set_new(msg, "gather", json_true());
    json_object_set_new(msg, "restore", dlr_sup_restore_row(rounds->env.copies));
    return msg;
}

/* --- parity: a successor must know the sets of all -------------------------------- */

static int tell_all(struct dlr_sup_rounds *rounds, uint32_t round)
{
    json_t *nodes = json_array(), *partners = json_object();
    DLR_AUTO_JSON json_t *msg = head(rounds, round);
    DLR_AUTO_FREE char *text = NULL;

    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++) {
        json_array_append_new(nodes, row_of(rounds, p));
        add_partners(rounds, partners, p);
    }
    json_object_set_new(msg, "nodes", nodes);
    json_object_set_new(msg, "partners", partners);
    json_object_set_new(msg, "parity", dlr_sup_round_parity(rounds->env.copies));
    text = dlr_msg_text(msg);
    if (!text)
        return -ENOMEM;
    if (strlen(text) > DLR_MSG_MAX)
        return -E2BIG;
    for (unsigned i = 0; i < rounds->members->n; i++)
        if (rounds->members->list[i].here)
            dlr_sup_outbox_send(rounds->env.io, &rounds->members->list[i].route, text,
                                strlen(text));
    return 0;
}

/* --- partners: each is told what concerns it -------------------------------------- */

static void count_senders(const struct dlr_sup_rounds *rounds, struct senders *ret)
{
    unsigned n = rounds->env.plan->nplaces;

    for (unsigned p = 0; p < n; p++)
        for (unsigned k = 1; k <= dlr_sup_copies(rounds->env.copies); k++)
            ret->at[dlr_sup_holder(rounds->env.copies, p, k) + 2]++;
    for (unsigned q = 2; q < n + 2; q++)
        ret->at[q] += ret->at[q - 1];
    for (unsigned p = 0; p < n; p++)
        for (unsigned k = 1; k <= dlr_sup_copies(rounds->env.copies); k++)
            ret->list[ret->at[dlr_sup_holder(rounds->env.copies, p, k) + 1]++] = p;
}

static void add_place(struct dlr_sup_rounds *rounds, json_t *nodes, json_t *partners,
                      bool *seen, unsigned p)
{
    if (seen[p])
        return;
    seen[p] = true;
    json_array_append_new(nodes, row_of(rounds, p));
    if (partners)
        add_partners(rounds, partners, p);
}

/* seen: no place yet, and again on return. */
static void tell_place(struct dlr_sup_rounds *rounds, const json_t *common, unsigned p,
                       const struct senders *from, bool *seen)
{
    json_t *msg = json_copy((json_t *)common), *nodes = json_array();
    json_t *partners = json_object();

    add_place(rounds, nodes, partners, seen, p);
    for (unsigned i = from->at[p]; i < from->at[p + 1]; i++)
        add_place(rounds, nodes, partners, seen, from->list[i]);
    for (unsigned k = 1; k <= dlr_sup_copies(rounds->env.copies); k++)
        add_place(rounds, nodes, NULL, seen, dlr_sup_holder(rounds->env.copies, p, k));
    seen[p] = false;
    for (unsigned i = from->at[p]; i < from->at[p + 1]; i++)
        seen[from->list[i]] = false;
    for (unsigned k = 1; k <= dlr_sup_copies(rounds->env.copies); k++)
        seen[dlr_sup_holder(rounds->env.copies, p, k)] = false;
    json_object_set_new(msg, "nodes", nodes);
    json_object_set_new(msg, "partners", partners);
    dlr_sup_send(rounds->env.nodes, (unsigned)dlr_sup_node_of(rounds->env.planning, p),
                 msg);
}

/* One that has no place hears of the round, and frees what it has no more use for. */
static void tell_others(struct dlr_sup_rounds *rounds, const json_t *common,
                        const bool *placed)
{
    for (unsigned i = 0; i < rounds->members->n; i++) {
        json_t *msg = placed[i] ? NULL : json_copy((json_t *)common);

        if (!msg)
            continue;
        json_object_set_new(msg, "nodes", json_array());
        json_object_set_new(msg, "partners", json_object());
        dlr_sup_send(rounds->env.nodes, i, msg);
    }
}

static int tell_each(struct dlr_sup_rounds *rounds, uint32_t round)
{
    unsigned n = rounds->env.plan->nplaces;
    DLR_AUTO_FREE unsigned *at = calloc(n + 2, sizeof(*at));
    DLR_AUTO_FREE unsigned *list =
        calloc((size_t)n * dlr_sup_copies(rounds->env.copies) + 1, sizeof(*list));
    DLR_AUTO_FREE bool *seen = calloc(n, sizeof(*seen));
    DLR_AUTO_FREE bool *placed = calloc(rounds->members->n, sizeof(*placed));
    DLR_AUTO_JSON json_t *common = head(rounds, round);
    struct senders from = {at, list};

    if (!at || !list || !seen || !placed || !common)
        return -ENOMEM;
    count_senders(rounds, &from);
    for (unsigned p = 0; p < n; p++) {
        tell_place(rounds, common, p, &from, seen);
        placed[dlr_sup_node_of(rounds->env.planning, p)] = true;
    }
    tell_others(rounds, common, placed);
    return 0;
}

void dlr_sup_tell_round(struct dlr_sup_rounds *rounds, uint32_t round)
{
    int rc = dlr_sup_sets(rounds->env.copies)->rows > 0 ? tell_all(rounds, round)
                                                        : tell_each(rounds, round);

    if (rc == 0)
        return;
    dlr_sup_transfers_fail(
        rounds->env.copies, rc,
        rc == -E2BIG
            ? "%u nodes are too many for parity: what each must know of all takes "
              "more than a message (--dlrover-redundancy)"
            : "no memory for what %u nodes are told of the round",
        rounds->env.plan->nplaces);
}
