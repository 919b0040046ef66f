/* SPDX-License-Identifier: Apache-2.0 */
/* Copies go to the nodes whose ranks will load them, and to new holders, before a
 * round.
 */
#include "mpi_launcher/supervisor/copies/preparation.h"

#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"

/* A rank's copy comes to its node from whoever has it. */
static void move_rank(struct dlr_sup_copies *copies, unsigned rank)
{
    const struct dlr_plan_source *src = &copies->plan->sources[rank];
    int home = dlr_sup_node_of(copies->env.planning,
                               (unsigned)dlr_sup_place_of(copies->env.planning, rank)),
        from = home;
    struct dlr_transfer *t;

    if (src->from == DLR_PLAN_LOCAL)
        return;
    if (src->from == DLR_PLAN_PARITY) {
        dlr_sup_rebuild(copies, rank);
        return;
    }
    if (src->from == DLR_PLAN_NODE)
        from = dlr_members_find(copies->members, src->where);
    t = dlr_sup_add_transfer(copies, rank, from, home, true);
    if (!t)
        return;
    if (src->from == DLR_PLAN_FILE)
        dlr_format(t->path, sizeof(t->path), "%s", src->where);
    dlr_sup_ask_reserve(copies, (unsigned)home, rank, src->bytes);
}

void dlr_sup_prepare_begin(struct dlr_sup_copies *copies, int64_t now_ms)
{
    dlr_sup_transfers_clear(copies);
    copies->prepare_ms = now_ms;
    copies->preparing = true;
    dlr_sup_transfers_of_plan(copies);
}

void dlr_sup_transfers_of_plan(struct dlr_sup_copies *copies)
{
    copies->transfers.version = copies->plan->version;
}

void dlr_sup_prepare_move(struct dlr_sup_copies *copies)
{
    bool other = dlr_restore_changes_world_size(copies);

    for (unsigned r = 0; copies->plan->restore && !other && r < copies->plan->world;
         r++)
        move_rank(copies, r);
    if (other)
        dlr_sup_rebuild_lost(copies);
    dlr_reprotect_plan(copies);
}

bool dlr_sup_is_preparing(const struct dlr_sup_copies *copies)
{
    return copies->preparing;
}

/* A rank's own node has slots of so many bytes. When they are larger than before, a
 * layout has changed: the copies have no room until their holders say so too.
 */
static void owner_ready(struct dlr_sup_copies *copies, unsigned rank, uint64_t bytes)
{
    uint32_t round = dlr_policy_round(copies->policy);
    unsigned each = dlr_sup_copies(copies);

    for (unsigned k = 1; bytes > copies->slot_bytes[rank] && k <= each; k++)
        dlr_commit_unready(copies->commit, round, rank, k);
    copies->slot_bytes[rank] = bytes;
    dlr_commit_ready(copies->commit, round, rank, 0, dlr_sup_now());
    dlr_sup_holders_ask(copies, rank);
}

void dlr_sup_on_ready(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                      uint32_t round, uint64_t bytes)
{
    unsigned place;
    int holder;

    if (round != dlr_policy_round(copies->policy))
        return;
    dlr_sup_transfers_ready(copies, node, rank);
    dlr_reprotect_ready(copies, node, rank);
    if (dlr_policy_phase(copies->policy) != DLR_PHASE_RUN)
        return; /* slots for a transfer; the worker asks for its own */
    if (rank >= copies->plan->world) {
        dlr_sup_shard_ready(copies, node, rank);
        return;
    }
    place = dlr_sup_place_of(copies->env.planning, rank);
    holder = dlr_sup_holder_of(copies, place, node);
    if (holder == 0)
        owner_ready(copies, rank, bytes);
    else if (holder > 0 && bytes >= copies->slot_bytes[rank])
        dlr_commit_ready(copies->commit, round, rank, (unsigned)holder, dlr_sup_now());
}

static void prepared(struct dlr_sup_copies *copies)
{
    copies->preparing = false;
    if (copies->transfers.rc == 0)
        dlr_journal_note(dlr_sup_journal(copies->env.io), "prepared", "s:I,s:I,s:i",
                         "round", (json_int_t)dlr_policy_round(copies->policy),
                         "took_ms", (json_int_t)(dlr_sup_now() - copies->prepare_ms),
                         "copies", copies->transfers.moved);
    if (copies->transfers.rc == 0) {
        dlr_sup_rebuild_known(copies);
        dlr_reprotect_start(copies);
    }
    copies->ops->prepared(copies->arg, copies->transfers.rc, copies->transfers.why);
}

void dlr_sup_transfers_check(struct dlr_sup_copies *copies)
{
    if (!copies->preparing)
        return;
    if (dlr_policy_phase(copies->policy) != DLR_PHASE_PREPARE) {
        copies->preparing = false; /* a node died: the next plan moves what it needs */
        return;
    }
    /* The next srun writes to the same file. */
    if (dlr_sup_transfers_ended(copies) && !dlr_srun_is_flushed(copies->env.steps))
        prepared(copies);
}

void dlr_sup_transfers_lost(struct dlr_sup_copies *copies, unsigned node)
{
    dlr_sup_fetch_lost(copies, node);
    dlr_sup_transfers_end_on(copies, node);
    dlr_reprotect_lost(copies, node);
}
