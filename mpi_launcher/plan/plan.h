/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round: which node sits at which place, what is left out and why, and
 * from which version each rank starts. A pure function of node reports and of what the
 * supervisor wants: the same reports in any order give the same plan on every rank.
 *
 * A place is a seat for one training node. Its ranks are the same in every round; those
 * of place p follow those of place p-1 unless the user's distribution deals them out
 * otherwise.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_PLAN_H
#define DLR_MPI_LAUNCHER_PLAN_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "common/base/err.h"
#include "hwloc_topo/rank_order.h"
#include "mpi_launcher/plan/input.h"

struct dlr_plan_place {
    struct dlr_topo_node node;
    unsigned cpus;
    unsigned port; /* as it has reported */
    unsigned from,
        tasks; /* its ranks: ranks[from] to ranks[from + tasks - 1] of the plan */
    unsigned partner; /* place that keeps its copies; itself: there is nobody */
    bool moved;       /* another node had this place in the former round */
};

/* Ranks of live nodes that move, or could; moves 0: it was not asked for, or saves
 * nothing.
 */
struct dlr_plan_reorder {
    unsigned moves;          /* nodes with other ranks than now */
    unsigned saves;          /* neighbours on two leaves, and groups on several */
    bool taken;              /* they move */
    double gain_ms, cost_ms; /* mpi_launcher/plan/reorder.h; 0 not known */
};

/* A verdict other than OK, for the journal. */
struct dlr_plan_verdict {
    char node[DLR_TOPO_NAME];
    struct dlr_plan_check check;
};

enum dlr_plan_from {
    DLR_PLAN_LOCAL,  /* on the node where the rank will run */
    DLR_PLAN_NODE,   /* where: the node that sends it */
    DLR_PLAN_FILE,   /* where: the path to load it from */
    DLR_PLAN_PARITY, /* where: "SLOT@NODE ..", what it is made of */
};

struct dlr_plan_source {
    enum dlr_plan_from from;
    char *where;    /* NULL for LOCAL */
    uint64_t bytes; /* of the slot file */
};

struct dlr_plan {
    unsigned nplaces, world;
    struct dlr_plan_place *places; /* [nplaces] */
    unsigned *ranks;            /* [world] of place 0 ascending, then of place 1 ... */
    unsigned *place_of;         /* [world] place of each rank */
    struct dlr_topo_cost order; /* leaves between neighbours, groups on several */
    struct dlr_plan_reorder reorder;
    struct dlr_topo_node *spares; /* usable and without a place, in topology order */
    unsigned nspares;
    struct dlr_plan_out *out; /* reported, but left out of this round */
    unsigned nout;
    struct dlr_plan_verdict *verdicts; /* of all reports, in name order */
    unsigned nverdicts;
    bool restore;                    /* false: ranks start from nothing */
    struct dlr_version version;      /* the newest every rank can load */
    uint32_t made_by;                /* ranks that made it: world, or another number */
    struct dlr_plan_source *sources; /* [made_by] when restore; never LOCAL when that is
                                        not world: nobody knows yet who needs them */
    char (*notes)[DLR_PLAN_NOTE];    /* why something newer is not restorable */
    unsigned nnotes;
};

/* Computes the plan.
 *   First round: healthy nodes in topology order, those of a group together; which of
 *   them are spares is part of it (dlr_topo_choose). A group that does not divide the
 *   places is none.
 *   Nodes that are preferred have places before all others.
 *   Later: only places of nodes that are gone or left out move (dlr_topo_replace),
 *   unless the user wants a better order (reorder).
 *   A node that comes last has a place only when there are too few without it.
 *   A node with a FAIL verdict never takes part. A node that most others cannot reach,
 *   or that is only slow (network, stragglers), is left out while there are enough
 *   without it; one that is full never takes part, but what it holds counts. WARN and
 *   SKIP are told and change nothing.
 *   Restored is the newest version of which every rank that made it has a verified copy
 *   that was not struck; made_by says how many they were.
 * 0; -ENOSPC with the counts in err when too few nodes are usable (*ret_plan then holds
 * only out and verdicts); -EINVAL, -EEXIST (two reports of one node), -ENOMEM.
 * *ret_plan is the caller's in every case: dlr_plan_done().
 */
int dlr_plan_make(const struct dlr_plan_report *reports, unsigned nreports,
                  const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                  struct dlr_err *err);
void dlr_plan_done(struct dlr_plan *plan);

/* The ranks of a place as a list, the caller's; NULL: they are one run from its first
 * on.
 */
json_t *dlr_plan_place_ranks(const struct dlr_plan *plan, unsigned place);

/* The rule for restore alone, for who has no new placement (the successor before a
 * requeue): sources are never LOCAL. Fills world, made_by, restore, version, sources
 * and notes of *ret_plan.
 */
int dlr_plan_restorable(const struct dlr_plan_report *reports, unsigned nreports,
                        const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                        struct dlr_err *err);

/* JSON of a plan: docs/protocol.md section 5. A plan that could not be made travels as
 * its error (err not NULL and err->code < 0) and comes back from dlr_plan_from_json()
 * as that code and text, with out and verdicts filled. Every field is checked;
 * -EBADMSG.
 */
json_t *dlr_plan_to_json(const struct dlr_plan *plan, const struct dlr_err *err);
/* Foreign bytes: fuzz target plan. */
int dlr_plan_from_json(const json_t *j, struct dlr_plan *ret_plan, struct dlr_err *err);

#endif
