/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes keep a snapshot beside its own: --dlrover-redundancy against the plan's places. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define TERMS 1024  /* 32 of "RANK*COEF " and to spare */
#define BLOCK 4096u /* slots consist of these */

unsigned dlr_sup_copies(const struct dlr_sup *s)
{
    return s->step->nplaces > 1 ? s->conf.redundancy.copies : 0;
}

/* Sets are smaller than asked for where less than rows nodes would be outside: that costs memory. */
static void tell_sets(struct dlr_sup *s)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], most = 0, shards = 0;
    unsigned members = s->conf.redundancy.members, rows = s->sets.rows;

    for (unsigned r = 0; r < s->sets.world; r++) {
        unsigned n = dlr_sets_group(&s->sets, r, ranks);

        most = n > most ? n : most;
        shards += ranks[0] == r ? rows : 0;
    }
    if (most == members || s->took_over)
        return;
    dlr_sup_say(
        s->io,
        "--dlrover-redundancy: %u nodes make sets of %u, not of %u, so that %u "
        "%s outside each: %.2f bytes of memory for each byte of state, not %.2f",
        s->sets.nplaces, most, members, rows, rows > 1 ? "are" : "is",
        2.0 + 2.0 * shards / s->sets.world, 2.0 + 2.0 * rows / members);
}

int dlr_sup_redundancy_check(struct dlr_sup *s, struct dlr_err *err)
{
    unsigned copies = s->conf.redundancy.copies, members = s->conf.redundancy.members;
    struct dlr_plan_world seats = dlr_sup_seats(s->planning);
    int rc = 0;

    if (copies > 1 && s->step->nplaces <= copies)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-redundancy with %u other nodes needs at least %u "
                        "training nodes, this run has %u: ask for more nodes, or for "
                        "less redundancy",
                        copies, copies + 1, s->step->nplaces);
    if (members && s->step->nplaces > 1)
        rc = dlr_sets_init(&s->sets, seats.nplaces, seats.tasks, seats.ranks, members,
                           copies);
    if (rc == 0 && s->sets.rows > 0)
        tell_sets(s);
    return rc < 0 ? dlr_fail(err, rc, "out of memory") : 0;
}

int dlr_sup_redundancy_replanned(struct dlr_sup *s, struct dlr_err *err)
{
    int rc;

    dlr_sets_done(&s->sets);
    s->sets.rows = 0;
    rc = dlr_sup_redundancy_check(s, err);
    free(s->kept);
    s->kept = NULL;
    s->nkept = 0;
    return rc;
}

int dlr_sup_redundancy_reseated(struct dlr_sup *s, const unsigned *tasks,
                                const unsigned *ranks)
{
    unsigned rows = s->sets.rows;

    if (rows == 0)
        return 0;
    dlr_sets_done(&s->sets);
    return dlr_sets_init(&s->sets, s->plan->nplaces, tasks, ranks,
                         s->conf.redundancy.members, rows);
}

static int choose_holders(struct dlr_sup *s, const struct dlr_topo_node *nodes,
                          unsigned *holder)
{
    DLR_AUTO_FREE unsigned *place = calloc(s->plan->nplaces, sizeof(*place));

    if (s->sets.rows > 0)
        return dlr_sets_holders(&s->sets, nodes, holder);
    if (!place)
        return -ENOMEM;
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        place[p] = p;
    dlr_topo_copies(nodes, place, s->plan->nplaces, dlr_sup_copies(s), holder);
    return 0;
}

/* What was kept where stays known until the next round is prepared: former. */
int dlr_sup_holders_make(struct dlr_sup *s)
{
    unsigned n = s->plan->nplaces, copies = dlr_sup_copies(s);
    DLR_AUTO_FREE struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    DLR_AUTO_FREE unsigned *holder = calloc((size_t)n * copies + 1, sizeof(*holder));
    DLR_AUTO_FREE uint64_t *bytes = calloc(s->plan->world, sizeof(*bytes));

    if (!nodes || !holder || !bytes)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++)
        nodes[p] = s->plan->places[p].node;
    if (copies && choose_holders(s, nodes, holder) < 0)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++)
        dlr_sup_plan_partner(s->planning, p,
                             copies && !s->sets.rows ? holder[(size_t)p * copies] : p);
    free(s->holders);
    free(s->slot_bytes);
    s->holders = DLR_STEAL(holder);
    s->slot_bytes = DLR_STEAL(bytes);
    return 0;
}

unsigned dlr_sup_holder(const struct dlr_sup *s, unsigned place, unsigned k)
{
    return s->holders[(size_t)place * dlr_sup_copies(s) + k - 1];
}

int dlr_sup_holder_node(const struct dlr_sup *s, unsigned place, unsigned k)
{
    return dlr_sup_node_of(s->planning, k ? dlr_sup_holder(s, place, k) : place);
}

int dlr_sup_holder_of(const struct dlr_sup *s, unsigned place, unsigned node)
{
    for (unsigned k = 0; k <= dlr_sup_copies(s); k++)
        if (dlr_sup_holder_node(s, place, k) == (int)node)
            return (int)k;
    return -1;
}

/* Bytes of a slot whose one region takes the image of any slot of so many. */
static uint64_t shard_bytes(uint64_t slot)
{
    return slot + 2 * BLOCK + (slot / DLR_SLOT_CHUNK + 2) * sizeof(uint32_t);
}

/* Parity: asks for the shards of rank's group when all its ranks have their slots. */
static void member_ready(struct dlr_sup *s, unsigned rank)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_sets_group(&s->sets, rank, ranks);
    unsigned place = (unsigned)dlr_sup_place_of(s->planning, ranks[0]);
    uint64_t most = 0;

    for (unsigned i = 0; i < n; i++) {
        if (s->slot_bytes[ranks[i]] == 0)
            return;
        if (s->slot_bytes[ranks[i]] > most)
            most = s->slot_bytes[ranks[i]];
    }
    for (unsigned row = 0; row < s->sets.rows; row++)
        dlr_sup_ask_reserve(s, (unsigned)dlr_sup_holder_node(s, place, row + 1),
                            dlr_sets_shard(&s->sets, ranks[0], row), shard_bytes(most));
}

void dlr_sup_holders_ask(struct dlr_sup *s, unsigned rank)
{
    unsigned place = (unsigned)dlr_sup_place_of(s->planning, rank);

    if (dlr_sup_adopting(s->rounds))
        return; /* one that has not come back yet would not hear it */
    if (s->sets.rows > 0) {
        member_ready(s, rank);
        return;
    }
    for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
        dlr_sup_ask_reserve(s, (unsigned)dlr_sup_holder_node(s, place, k), rank,
                            s->slot_bytes[rank]);
}

void dlr_sup_holders_ask_all(struct dlr_sup *s)
{
    unsigned ranks[DLR_PARITY_DATA_MAX] = {0};

    for (unsigned r = 0; r < s->plan->world; r++) {
        if (s->sets.rows > 0)
            dlr_sets_group(&s->sets, r, ranks);
        if (s->slot_bytes[r] && (s->sets.rows == 0 || ranks[0] == r))
            dlr_sup_holders_ask(s, r);
    }
}

void dlr_sup_holders_keep(struct dlr_sup *s)
{
    unsigned each = dlr_sup_copies(s) + 1;

    free(s->kept);
    s->kept = calloc((size_t)s->plan->nplaces * each, sizeof(*s->kept));
    s->nkept = s->kept ? s->plan->nplaces * each : 0;
    for (unsigned p = 0; s->kept && p < s->plan->nplaces; p++)
        for (unsigned k = 0; k < each; k++)
            s->kept[(size_t)p * each + k] = dlr_sup_holder_node(s, p, k);
    s->kept_whole = s->kept && s->again.wanted && s->again.n == 0 && !s->again.failed;
}

bool dlr_sup_holder_has(const struct dlr_sup *s, unsigned place, unsigned k)
{
    size_t at = (size_t)place * (dlr_sup_copies(s) + 1);
    struct dlr_version newest;

    return s->kept && s->kept_whole && dlr_commit_newest(s->commit, &newest) &&
           dlr_version_eq(newest, s->plan->version) &&
           s->kept[at + k] == dlr_sup_holder_node(s, place, k);
}

json_t *dlr_sup_holder_names(const struct dlr_sup *s, unsigned place)
{
    json_t *names = json_array();

    for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
        json_array_append_new(
            names, json_string(s->plan->places[dlr_sup_holder(s, place, k)].node.name));
    return names;
}

/* Should it come back, its memory does not. */
static void forget_holder(struct dlr_sup *s, unsigned node)
{
    for (unsigned i = 0; i < s->nkept; i++)
        if (s->kept[i] == (int)node)
            s->kept[i] = -1;
}

void dlr_sup_bare(struct dlr_sup *s, unsigned node)
{
    struct dlr_version newest;

    forget_holder(s, node);
    if (s->bare_ms || !dlr_sup_has_plan(s->plan) || dlr_sup_copies(s) == 0 ||
        !dlr_commit_newest(s->commit, &newest))
        return;
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        if (dlr_sup_holder_of(s, p, node) >= 0) {
            s->bare_ms = dlr_sup_now();
            dlr_journal_note(dlr_sup_journal(s->io), "unprotected", "s:s,s:o", "node",
                             s->members->list[node].node.name, "version",
                             dlr_sup_version(&newest));
            dlr_sup_keep(s);
            return;
        }
}

void dlr_sup_covered(struct dlr_sup *s)
{
    struct dlr_version newest;
    int64_t since = s->bare_ms;

    s->kept_whole = s->kept != NULL;
    if (!since || !dlr_commit_newest(s->commit, &newest))
        return;
    s->bare_ms = 0;
    dlr_sup_keep(s);
    dlr_journal_note(dlr_sup_journal(s->io), "protected", "s:o,s:I", "version",
                     dlr_sup_version(&newest), "took_ms",
                     (json_int_t)(dlr_sup_now() - since));
}

/* --- parity --------------------------------------------------------------------------- */

json_t *dlr_sup_round_sums(const struct dlr_sup *s)
{
    json_t *sums = json_array();

    for (unsigned r = 0; r < s->plan->world; r++) {
        unsigned ranks[DLR_PARITY_DATA_MAX],
            place = (unsigned)dlr_sup_place_of(s->planning, r);

        dlr_sets_group(&s->sets, r, ranks);
        if (ranks[0] != r)
            continue;
        for (unsigned row = 0; row < s->sets.rows; row++) {
            char terms[TERMS], text[TERMS + 16];
            unsigned at = dlr_sup_holder(s, place, row + 1);

            if (dlr_sets_parity_terms(&s->sets, r, row, terms, sizeof(terms)) < 0)
                continue;
            dlr_format(text, sizeof(text), "%u %s", s->plan->world, terms);
            json_array_append_new(sums, json_pack("{s:s,s:i,s:s}", "node",
                                                  s->plan->places[at].node.name, "rank",
                                                  (int)dlr_sets_shard(&s->sets, r, row),
                                                  "terms", text));
        }
    }
    return sums;
}

unsigned dlr_sup_shard_of(const struct dlr_sup *s, unsigned rank, unsigned row)
{
    unsigned ranks[DLR_PARITY_DATA_MAX];

    dlr_sets_group(&s->sets, rank, ranks);
    return dlr_sets_shard(&s->sets, ranks[0], row);
}

uint64_t dlr_sup_shard_room(const struct dlr_sup *s, unsigned rank)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_sets_group(&s->sets, rank, ranks);
    uint64_t most = 0;

    for (unsigned i = 0; i < n; i++)
        if (s->plan->sources[ranks[i]].bytes > most)
            most = s->plan->sources[ranks[i]].bytes;
    return shard_bytes(most);
}

void dlr_sup_shard_ready(struct dlr_sup *s, unsigned node, unsigned slot)
{
    unsigned first = slot % s->plan->world, row = slot / s->plan->world - 1;
    unsigned ranks[DLR_PARITY_DATA_MAX], n, place;

    if (slot < s->plan->world || row >= s->sets.rows)
        return;
    n = dlr_sets_group(&s->sets, first, ranks);
    place = (unsigned)dlr_sup_place_of(s->planning, first);
    if (ranks[0] != first || dlr_sup_holder_node(s, place, row + 1) != (int)node)
        return;
    for (unsigned i = 0; i < n; i++)
        dlr_commit_ready(s->commit, dlr_policy_round(s->policy), ranks[i], row + 1,
                         dlr_sup_now());
}
