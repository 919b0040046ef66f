/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes keep a snapshot beside its own: --dlrover-redundancy against the plan's
 * places.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "hwloc_topo/holders.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"

#define TERMS 1024  /* 32 of "RANK*COEF " and to spare */
#define BLOCK 4096u /* slots consist of these */

unsigned dlr_sup_copies(const struct dlr_sup_copies *copies)
{
    return copies->step->nplaces > 1 ? copies->env.conf->redundancy.copies : 0;
}

/* Sets are smaller than asked for where less than rows nodes would be outside: that
 * costs memory.
 */
static void tell_sets(struct dlr_sup_copies *copies)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], most = 0, shards = 0;
    unsigned members = copies->env.conf->redundancy.members, rows = copies->sets.rows;

    for (unsigned r = 0; r < copies->sets.world; r++) {
        unsigned n = dlr_parity_sets_group(&copies->sets, r, ranks);

        most = n > most ? n : most;
        shards += ranks[0] == r ? rows : 0;
    }
    if (most == members || *copies->env.took_over)
        return;
    dlr_user_line(
        copies->env.io,
        "--dlrover-redundancy: %u nodes make sets of %u, not of %u, so that %u "
        "%s outside each: %.2f bytes of memory for each byte of state, not %.2f",
        copies->sets.nplaces, most, members, rows, rows > 1 ? "are" : "is",
        2.0 + 2.0 * shards / copies->sets.world, 2.0 + 2.0 * rows / members);
}

int dlr_sup_redundancy_check(struct dlr_sup_copies *copies, struct dlr_err *err)
{
    unsigned others = copies->env.conf->redundancy.copies,
             members = copies->env.conf->redundancy.members;
    struct dlr_plan_world placement = dlr_sup_placement(copies->env.planning);
    int rc = 0;

    if (others > 1 && copies->step->nplaces <= others)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-redundancy with %u other nodes needs at least %u "
                        "training nodes, this run has %u: ask for more nodes, or for "
                        "less redundancy",
                        others, others + 1, copies->step->nplaces);
    if (members && copies->step->nplaces > 1)
        rc = dlr_parity_sets_init(&copies->sets, placement.nplaces, placement.tasks,
                                  placement.ranks, members, others);
    if (rc == 0 && copies->sets.rows > 0)
        tell_sets(copies);
    return rc < 0 ? dlr_fail(err, rc, "out of memory") : 0;
}

int dlr_sup_redundancy_replanned(struct dlr_sup_copies *copies, struct dlr_err *err)
{
    int rc;

    dlr_parity_sets_done(&copies->sets);
    copies->sets.rows = 0;
    rc = dlr_sup_redundancy_check(copies, err);
    free(copies->holders_of_last_round);
    copies->holders_of_last_round = NULL;
    copies->nkept = 0;
    return rc;
}

int dlr_sup_redundancy_reseated(struct dlr_sup_copies *copies, const unsigned *tasks,
                                const unsigned *ranks)
{
    unsigned rows = copies->sets.rows;

    if (rows == 0)
        return 0;
    dlr_parity_sets_done(&copies->sets);
    return dlr_parity_sets_init(&copies->sets, copies->plan->nplaces, tasks, ranks,
                                copies->env.conf->redundancy.members, rows);
}

const struct dlr_parity_sets *dlr_sup_sets(const struct dlr_sup_copies *copies)
{
    return &copies->sets;
}

static int choose_holders(struct dlr_sup_copies *copies,
                          const struct dlr_topo_node *nodes, unsigned *holder)
{
    DLR_AUTO_FREE unsigned *place = calloc(copies->plan->nplaces, sizeof(*place));

    if (copies->sets.rows > 0)
        return dlr_parity_sets_holders(&copies->sets, nodes, holder);
    if (!place)
        return -ENOMEM;
    for (unsigned p = 0; p < copies->plan->nplaces; p++)
        place[p] = p;
    dlr_topo_copies(nodes, place, copies->plan->nplaces, dlr_sup_copies(copies),
                    holder);
    return 0;
}

/* What was kept where stays known until the next round is prepared: former. */
int dlr_sup_holders_make(struct dlr_sup_copies *copies)
{
    unsigned n = copies->plan->nplaces, each = dlr_sup_copies(copies);
    DLR_AUTO_FREE struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    DLR_AUTO_FREE unsigned *holder = calloc((size_t)n * each + 1, sizeof(*holder));
    DLR_AUTO_FREE uint64_t *bytes = calloc(copies->plan->world, sizeof(*bytes));

    if (!nodes || !holder || !bytes)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++)
        nodes[p] = copies->plan->places[p].node;
    if (each && choose_holders(copies, nodes, holder) < 0)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++)
        dlr_sup_plan_partner(copies->env.planning, p,
                             each && !copies->sets.rows ? holder[(size_t)p * each] : p);
    free(copies->holders);
    free(copies->slot_bytes);
    copies->holders = DLR_STEAL(holder);
    copies->slot_bytes = DLR_STEAL(bytes);
    return 0;
}

unsigned dlr_sup_holder(const struct dlr_sup_copies *copies, unsigned place, unsigned k)
{
    return copies->holders[(size_t)place * dlr_sup_copies(copies) + k - 1];
}

int dlr_sup_holder_node(const struct dlr_sup_copies *copies, unsigned place, unsigned k)
{
    return dlr_sup_node_of(copies->env.planning,
                           k ? dlr_sup_holder(copies, place, k) : place);
}

int dlr_sup_holder_of(const struct dlr_sup_copies *copies, unsigned place,
                      unsigned node)
{
    for (unsigned k = 0; k <= dlr_sup_copies(copies); k++)
        if (dlr_sup_holder_node(copies, place, k) == (int)node)
            return (int)k;
    return -1;
}

/* Bytes of a slot whose one region takes the image of any slot of so many. */
static uint64_t shard_bytes(uint64_t slot)
{
    return slot + 2 * BLOCK + (slot / DLR_SLOT_BLOCK + 2) * sizeof(uint32_t);
}

/* Parity: asks for the shards of rank's group when all its ranks have their slots. */
static void member_ready(struct dlr_sup_copies *copies, unsigned rank)
{
    unsigned ranks[DLR_PARITY_DATA_MAX],
        n = dlr_parity_sets_group(&copies->sets, rank, ranks);
    unsigned place = (unsigned)dlr_sup_place_of(copies->env.planning, ranks[0]);
    uint64_t most = 0;

    for (unsigned i = 0; i < n; i++) {
        if (copies->slot_bytes[ranks[i]] == 0)
            return;
        if (copies->slot_bytes[ranks[i]] > most)
            most = copies->slot_bytes[ranks[i]];
    }
    for (unsigned row = 0; row < copies->sets.rows; row++)
        dlr_sup_ask_reserve(
            copies, (unsigned)dlr_sup_holder_node(copies, place, row + 1),
            dlr_parity_sets_shard(&copies->sets, ranks[0], row), shard_bytes(most));
}

void dlr_sup_holders_ask(struct dlr_sup_copies *copies, unsigned rank)
{
    unsigned place = (unsigned)dlr_sup_place_of(copies->env.planning, rank);

    if (copies->ops->adopting(copies->arg))
        return; /* one that has not come back yet would not hear it */
    if (copies->sets.rows > 0) {
        member_ready(copies, rank);
        return;
    }
    for (unsigned k = 1; k <= dlr_sup_copies(copies); k++)
        dlr_sup_ask_reserve(copies, (unsigned)dlr_sup_holder_node(copies, place, k),
                            rank, copies->slot_bytes[rank]);
}

uint64_t dlr_sup_slot_bytes(const struct dlr_sup_copies *copies, unsigned rank)
{
    return copies->slot_bytes ? copies->slot_bytes[rank] : 0;
}

void dlr_sup_holders_ask_all(struct dlr_sup_copies *copies)
{
    unsigned ranks[DLR_PARITY_DATA_MAX] = {0};

    for (unsigned r = 0; r < copies->plan->world; r++) {
        if (copies->sets.rows > 0)
            dlr_parity_sets_group(&copies->sets, r, ranks);
        if (copies->slot_bytes[r] && (copies->sets.rows == 0 || ranks[0] == r))
            dlr_sup_holders_ask(copies, r);
    }
}

void dlr_sup_holders_keep(struct dlr_sup_copies *copies)
{
    unsigned each = dlr_sup_copies(copies) + 1;

    free(copies->holders_of_last_round);
    copies->holders_of_last_round = calloc((size_t)copies->plan->nplaces * each,
                                           sizeof(*copies->holders_of_last_round));
    copies->nkept = copies->holders_of_last_round ? copies->plan->nplaces * each : 0;
    for (unsigned p = 0; copies->holders_of_last_round && p < copies->plan->nplaces;
         p++)
        for (unsigned k = 0; k < each; k++)
            copies->holders_of_last_round[(size_t)p * each + k] =
                dlr_sup_holder_node(copies, p, k);
    copies->last_round_whole = copies->holders_of_last_round &&
                               copies->reprotect.wanted && copies->reprotect.n == 0 &&
                               !copies->reprotect.failed;
}

bool dlr_sup_kept_whole(const struct dlr_sup_copies *copies)
{
    return copies->last_round_whole;
}

void dlr_sup_set_kept_whole(struct dlr_sup_copies *copies)
{
    copies->last_round_whole = true;
}

bool dlr_sup_holder_has(const struct dlr_sup_copies *copies, unsigned place, unsigned k)
{
    size_t at = (size_t)place * (dlr_sup_copies(copies) + 1);
    struct dlr_version newest;

    return copies->holders_of_last_round && copies->last_round_whole &&
           dlr_commit_newest(copies->commit, &newest) &&
           dlr_version_eq(newest, copies->plan->version) &&
           copies->holders_of_last_round[at + k] ==
               dlr_sup_holder_node(copies, place, k);
}

json_t *dlr_sup_holder_names(const struct dlr_sup_copies *copies, unsigned place)
{
    json_t *names = json_array();

    for (unsigned k = 1; k <= dlr_sup_copies(copies); k++)
        json_array_append_new(
            names,
            json_string(
                copies->plan->places[dlr_sup_holder(copies, place, k)].node.name));
    return names;
}

/* Should it come back, its memory does not. */
static void forget_holder(struct dlr_sup_copies *copies, unsigned node)
{
    for (unsigned i = 0; i < copies->nkept; i++)
        if (copies->holders_of_last_round[i] == (int)node)
            copies->holders_of_last_round[i] = -1;
}

void dlr_redundancy_degraded(struct dlr_sup_copies *copies, unsigned node)
{
    struct dlr_version newest;

    forget_holder(copies, node);
    if (copies->degraded_since_ms || !dlr_sup_has_plan(copies->plan) ||
        dlr_sup_copies(copies) == 0 || !dlr_commit_newest(copies->commit, &newest))
        return;
    for (unsigned p = 0; p < copies->plan->nplaces; p++)
        if (dlr_sup_holder_of(copies, p, node) >= 0) {
            copies->degraded_since_ms = dlr_sup_now();
            dlr_journal_note(dlr_sup_journal(copies->env.io), "unprotected", "s:s,s:o",
                             "node", copies->members->list[node].node.name, "version",
                             dlr_sup_version(&newest));
            copies->ops->changed(copies->arg);
            return;
        }
}

bool dlr_sup_is_bare(const struct dlr_sup_copies *copies)
{
    return copies->degraded_since_ms != 0;
}

void dlr_redundancy_restored(struct dlr_sup_copies *copies)
{
    struct dlr_version newest;
    int64_t since = copies->degraded_since_ms;

    copies->last_round_whole = copies->holders_of_last_round != NULL;
    if (!since || !dlr_commit_newest(copies->commit, &newest))
        return;
    copies->degraded_since_ms = 0;
    copies->ops->changed(copies->arg);
    dlr_journal_note(dlr_sup_journal(copies->env.io), "protected", "s:o,s:I", "version",
                     dlr_sup_version(&newest), "took_ms",
                     (json_int_t)(dlr_sup_now() - since));
}

void dlr_redundancy_degraded_state(const struct dlr_sup_copies *copies, json_t *state)
{
    json_object_set_new(state, "degraded_since_ms",
                        json_integer(copies->degraded_since_ms));
}

void dlr_redundancy_degraded_take(struct dlr_sup_copies *copies, const json_t *state)
{
    uint64_t ms = 0;

    dlr_msg_uint(state, "degraded_since_ms", INT64_MAX, &ms);
    copies->degraded_since_ms = (int64_t)ms;
}

/* --- parity ----------------------------------------------------------------------- */

json_t *dlr_sup_round_parity(const struct dlr_sup_copies *copies)
{
    json_t *sums = json_array();

    for (unsigned r = 0; r < copies->plan->world; r++) {
        unsigned ranks[DLR_PARITY_DATA_MAX],
            place = (unsigned)dlr_sup_place_of(copies->env.planning, r);

        dlr_parity_sets_group(&copies->sets, r, ranks);
        if (ranks[0] != r)
            continue;
        for (unsigned row = 0; row < copies->sets.rows; row++) {
            char terms[TERMS], text[TERMS + 16];
            unsigned at = dlr_sup_holder(copies, place, row + 1);

            if (dlr_parity_sets_parity_terms(&copies->sets, r, row, terms,
                                             sizeof(terms)) < 0)
                continue;
            dlr_format(text, sizeof(text), "%u %s", copies->plan->world, terms);
            json_array_append_new(
                sums,
                json_pack("{s:s,s:i,s:s}", "node", copies->plan->places[at].node.name,
                          "rank", (int)dlr_parity_sets_shard(&copies->sets, r, row),
                          "terms", text));
        }
    }
    return sums;
}

unsigned dlr_sup_shard_of(const struct dlr_sup_copies *copies, unsigned rank,
                          unsigned row)
{
    unsigned ranks[DLR_PARITY_DATA_MAX];

    dlr_parity_sets_group(&copies->sets, rank, ranks);
    return dlr_parity_sets_shard(&copies->sets, ranks[0], row);
}

uint64_t dlr_sup_shard_room(const struct dlr_sup_copies *copies, unsigned rank)
{
    unsigned ranks[DLR_PARITY_DATA_MAX],
        n = dlr_parity_sets_group(&copies->sets, rank, ranks);
    uint64_t most = 0;

    for (unsigned i = 0; i < n; i++)
        if (copies->plan->sources[ranks[i]].bytes > most)
            most = copies->plan->sources[ranks[i]].bytes;
    return shard_bytes(most);
}

void dlr_sup_shard_ready(struct dlr_sup_copies *copies, unsigned node, unsigned slot)
{
    unsigned first = slot % copies->plan->world, row = slot / copies->plan->world - 1;
    unsigned ranks[DLR_PARITY_DATA_MAX], n, place;

    if (slot < copies->plan->world || row >= copies->sets.rows)
        return;
    n = dlr_parity_sets_group(&copies->sets, first, ranks);
    place = (unsigned)dlr_sup_place_of(copies->env.planning, first);
    if (ranks[0] != first || dlr_sup_holder_node(copies, place, row + 1) != (int)node)
        return;
    for (unsigned i = 0; i < n; i++)
        dlr_commit_ready(copies->commit, dlr_policy_round(copies->policy), ranks[i],
                         row + 1, dlr_sup_now());
}
