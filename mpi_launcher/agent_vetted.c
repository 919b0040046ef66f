/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-vetted-every: whether a rank has one more slot on this node, for the older version. A
 * number demands it. auto takes it where half of the job's memory stays the program's: a default
 * must not be what ends a program that lived without it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/msg.h"
#include "mpi_launcher/agent.h"
#include "mpi_launcher/agent_budget.h"

#define MB 1e6

static bool is_auto(const struct dlr_agent *a)
{
    return a->job.vetted_every == DLR_COUNT_AUTO;
}

/* One line for a round: the other ranks of this node are no better off. */
static void tell(struct dlr_agent *a, const char *why)
{
    if (a->unvetted == a->round.round + 1)
        return;
    a->unvetted = a->round.round + 1;
    dlr_agent_say(a, json_pack("{s:i, s:s, s:I, s:s}", "v", DLR_MSG_VERSION, "t",
                               "unvetted", "round", (json_int_t)a->round.round, "why",
                               why));
}

static unsigned with_one_more(const struct dlr_agent *a, const struct dlr_agent_rank *r)
{
    return 1 + (r ? dlr_agent_slots_of(a, r) - r->spare_slot : DLR_STORE_SLOTS);
}

/* What all ranks of the round take here with one slot more each; who has not asked yet is taken to
 * be as large as this one.
 */
static uint64_t needed(struct dlr_agent *a, int32_t rank, uint64_t bytes)
{
    uint64_t sum = dlr_agent_bring_others(a, -1);

    for (unsigned i = 0; i < a->round.naccept; i++) {
        const struct dlr_agent_rank *o = dlr_agent_rank(a, a->round.accept[i], false);
        bool known = o && o->rank != rank && o->bytes;
        uint64_t its;

        if (__builtin_mul_overflow(known ? o->bytes : bytes,
                                   (uint64_t)with_one_more(a, o), &its) ||
            __builtin_add_overflow(sum, its, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static bool has_room(struct dlr_agent *a, int32_t rank, uint64_t bytes)
{
    uint64_t node, room, sum = needed(a, rank, bytes);
    struct dlr_budget budget = {0};
    char why[400];

    dlr_budget_look("", &budget);
    node = budget.node;
    room = dlr_opt_share(a->job.ckpt_mem, node);
    if (node && node / 2 < room)
        room = node / 2;
    if (sum <= room)
        return true;
    snprintf(why, sizeof(why),
             "one more slot for each of %u ranks would make %.1f MB of snapshots, and "
             "%.1f MB are for them then: half of the %.1f MB that the job has on this "
             "node, --dlrover-ckpt-mem=%.40s at most",
             a->round.naccept, (double)sum / MB, (double)room / MB, (double)node / MB,
             a->job.ckpt_mem);
    tell(a, why);
    return false;
}

bool dlr_agent_vetted_slot(struct dlr_agent *a, int32_t rank, uint64_t bytes)
{
    if (!a->job.vetted_every || a->job.redundancy.members)
        return false;
    return !is_auto(a) || has_room(a, rank, bytes);
}

bool dlr_agent_vetted_forgo(struct dlr_agent *a, struct dlr_agent_rank *r, int rc,
                            const char *why)
{
    if (!r->spare_slot || !is_auto(a) ||
        (rc != -ENOSPC && rc != -EDQUOT && rc != -ENOMEM))
        return false;
    tell(a, why);
    r->spare_slot = false;
    return true;
}
