/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a rank has one more slot on this node than two: for the older version
 * (--dlrover-set=vetted-every) and, where it runs, because a version that is being
 * written to the disk holds its own (--dlrover-persist). One does for both: what is
 * being written is the older version for as long as that takes
 * (mpi_launcher/supervisor/versions/vetted_version.c). A number demands it. auto takes
 * it where half of the job's memory stays the program's: a default must not be what
 * ends a program that lived without.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"

#define MB 1e6

static bool is_auto(const struct dlr_agent_snapshots *s)
{
    return s->self->job.vetted_every == DLR_COUNT_AUTO;
}

/* One line for a round: the other ranks of this node are no better off. */
static void tell(struct dlr_agent_snapshots *s, const char *why)
{
    if (s->no_vetted_known && s->no_vetted_round == s->round->round)
        return;
    s->no_vetted_known = true;
    s->no_vetted_round = s->round->round;
    dlr_agent_send_supervisor(s->base,
                              json_pack("{s:i, s:s, s:I, s:s}", "v", DLR_MSG_VERSION,
                                        "t", "no_vetted_slot", "round",
                                        (json_int_t)s->round->round, "why", why));
}

typedef unsigned slots_fn(const struct dlr_agent_snapshots *s,
                          const struct dlr_agent_rank *r);

static unsigned with_older(const struct dlr_agent_snapshots *s,
                           const struct dlr_agent_rank *r)
{
    return DLR_STORE_SLOTS + 1;
}

static unsigned with_written(const struct dlr_agent_snapshots *s,
                             const struct dlr_agent_rank *r)
{
    return r && !r->own ? dlr_agent_slots_of(s, r) : DLR_STORE_SLOTS + 1;
}

/* What all ranks of the round take here with so many slots each; who has not asked yet
 * is taken to be as large as this one.
 */
static uint64_t needed(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes,
                       slots_fn *slots)
{
    uint64_t sum = dlr_agent_fetch_others(s, -1);

    for (unsigned i = 0; i < dlr_space_slots(s); i++) {
        const struct dlr_agent_rank *o = dlr_agent_rank(s, dlr_space_slot(s, i), false);
        bool known = o && o->rank != rank && o->bytes;
        uint64_t its;

        if (__builtin_mul_overflow(known ? o->bytes : bytes, (uint64_t)slots(s, o),
                                   &its) ||
            __builtin_add_overflow(sum, its, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* What snapshots may take here before auto does without; *ret_node: what the job has
 * here.
 */
static uint64_t room_for(const struct dlr_agent_snapshots *s, uint64_t *ret_node)
{
    struct dlr_budget budget = {0};
    uint64_t room;

    dlr_budget_look("", &budget);
    *ret_node = budget.node;
    room = dlr_opt_share(s->self->job.ckpt_mem, budget.node);
    return budget.node && budget.node / 2 < room ? budget.node / 2 : room;
}

static bool has_room(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes)
{
    uint64_t node, room = room_for(s, &node), sum = needed(s, rank, bytes, with_older);
    char why[400];

    if (sum <= room)
        return true;
    snprintf(why, sizeof(why),
             "one more slot for each of %u ranks would make %.1f MB of snapshots, and "
             "%.1f MB are for them then: half of the %.1f MB that the job has on this "
             "node, --dlrover-set=ckpt-mem=%.40s at most",
             dlr_space_slots(s), (double)sum / MB, (double)room / MB, (double)node / MB,
             s->self->job.ckpt_mem);
    tell(s, why);
    return false;
}

bool dlr_agent_vetted_slot(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes)
{
    if (!s->self->job.vetted_every || s->self->job.redundancy.members)
        return false;
    return !is_auto(s) || has_room(s, rank, bytes);
}

static bool is_full(int rc)
{
    return rc == -ENOSPC || rc == -EDQUOT || rc == -ENOMEM;
}

static bool may_write(const struct dlr_agent_snapshots *s)
{
    return s->self->job.persist_every.ms == DLR_EVERY_AUTO;
}

void dlr_agent_reserve_extra_slots(struct dlr_agent_snapshots *s,
                                   struct dlr_agent_rank *r, uint64_t bytes)
{
    const struct dlr_every_conf *every = &s->self->job.persist_every;
    uint64_t node;

    r->write_slot = !may_write(s) && (every->steps || every->ms);
    r->spare_slot = dlr_agent_vetted_slot(s, r->rank, bytes);
    if (may_write(s))
        r->write_slot =
            r->own && (r->spare_slot ||
                       needed(s, r->rank, bytes, with_written) <= room_for(s, &node));
}

static bool is_demanded(const struct dlr_agent_snapshots *s,
                        const struct dlr_agent_rank *r)
{
    return (r->spare_slot && !is_auto(s)) || (r->own && r->write_slot && !may_write(s));
}

bool dlr_agent_release_extra_slots(struct dlr_agent_snapshots *s,
                                   struct dlr_agent_rank *r, int rc, const char *why)
{
    if (!is_full(rc) || is_demanded(s, r) ||
        dlr_agent_slots_of(s, r) == DLR_STORE_SLOTS)
        return false;
    if (r->spare_slot)
        tell(s, why);
    r->spare_slot = r->write_slot = false;
    return true;
}

bool dlr_agent_is_tight(const struct dlr_agent_snapshots *s,
                        const struct dlr_agent_rank *r)
{
    return may_write(s) && r->own && !r->write_slot;
}
