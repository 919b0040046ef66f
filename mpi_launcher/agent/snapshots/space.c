/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"

/* A slot that is being written to the disk is not free for a save, nor is that of the
 * older version: the third makes up for both, which are the same version while one is
 * being written.
 */
unsigned dlr_agent_slots_of(const struct dlr_agent_snapshots *s,
                            const struct dlr_agent_rank *r)
{
    return DLR_STORE_SLOTS + (r->spare_slot || (r->own && r->write_slot));
}

typedef unsigned slots_fn(const struct dlr_agent_snapshots *s,
                          const struct dlr_agent_rank *r);

static uint64_t taken(const struct dlr_agent_snapshots *s, int32_t but, slots_fn *slots,
                      unsigned *ret_n)
{
    uint64_t all = 0;

    *ret_n = 0;
    for (unsigned i = 0; i < s->nranks; i++) {
        const struct dlr_agent_rank *r = s->ranks[i];
        uint64_t its;

        if (r->rank == but || r->bytes == 0)
            continue;
        (*ret_n)++;
        if (__builtin_mul_overflow(r->bytes, (uint64_t)slots(s, r), &its) ||
            __builtin_add_overflow(all, its, &all))
            return UINT64_MAX;
    }
    return all;
}

/* Bytes of the slots of all ranks here but one; of how many. */
uint64_t dlr_space_taken(const struct dlr_agent_snapshots *s, int32_t but,
                         unsigned *ret_n)
{
    return taken(s, but, dlr_agent_slots_of, ret_n);
}

static unsigned two(const struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r)
{
    return DLR_STORE_SLOTS;
}

uint64_t dlr_space_least(const struct dlr_agent_snapshots *s)
{
    unsigned n;

    return taken(s, -1, two, &n);
}

static unsigned own_ranks(const struct dlr_agent_snapshots *s)
{
    const struct dlr_agent_node *node = dlr_agent_round_node(s->round, s->self->node);

    return node ? node->nranks : 0;
}

/* Own ranks are accepted first. What others send for parity is added up as it comes,
 * and has no slots.
 */
unsigned dlr_space_slots(const struct dlr_agent_snapshots *s)
{
    return s->round->nsums ? own_ranks(s) + s->round->nsums : s->round->naccept;
}

int32_t dlr_space_slot(const struct dlr_agent_snapshots *s, unsigned i)
{
    unsigned own = own_ranks(s);

    return s->round->nsums && i >= own ? s->round->sums[i - own].rank
                                       : s->round->accept[i];
}

/* Copies of others' ranks, or shards, that will come here and have not been asked for:
 * ranks are alike mostly.
 */
static uint64_t awaited(struct dlr_agent_snapshots *s, uint64_t bytes)
{
    uint64_t all = 0;

    for (unsigned i = own_ranks(s); i < dlr_space_slots(s); i++) {
        const struct dlr_agent_rank *r = dlr_agent_rank(s, dlr_space_slot(s, i), false);

        if (r && r->bytes)
            continue;
        if (__builtin_add_overflow(all, bytes * DLR_STORE_SLOTS, &all))
            return 0;
    }
    return all;
}

/* Before anything is written: what all ranks here have, and this one beside them. */
int dlr_space_check(struct dlr_agent_snapshots *s, int32_t rank, unsigned slots,
                    uint64_t bytes, struct dlr_err *err)
{
    struct dlr_budget budget = {.option = s->self->job.ckpt_mem,
                                .there = dlr_store_used(s->self->dir_fd)};
    uint64_t all = dlr_agent_fetch_others(s, slots > 1 ? -1 : rank);
    unsigned others;

    dlr_budget_look("", &budget);
    budget.awaited = slots > 1 ? awaited(s, bytes) : 0;
    if (__builtin_add_overflow(all, dlr_space_taken(s, slots > 1 ? rank : -1, &others),
                               &all))
        all = UINT64_MAX;
    return dlr_budget_check(&budget, rank, slots, bytes, others, all, err);
}

/* Of all ranks of the round, beside what others have here: ranks are alike mostly. */
static uint64_t to_come(const struct dlr_agent_snapshots *s, int32_t made,
                        uint64_t bytes)
{
    uint64_t all;

    if (__builtin_mul_overflow(bytes, (uint64_t)dlr_space_slots(s) * DLR_STORE_SLOTS,
                               &all) ||
        __builtin_add_overflow(all, dlr_agent_fetch_others(s, made), &all))
        return UINT64_MAX;
    return all;
}

/* Ranks have not asked for their slots yet when this is made: what counts is what lies
 * here, or what they will have in its place when that is more, for it stays until a
 * commit.
 */
int dlr_space_beside(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes,
                     struct dlr_err *err)
{
    struct dlr_budget budget = {.option = s->self->job.ckpt_mem,
                                .there = dlr_store_used(s->self->dir_fd)};
    uint64_t others = budget.there;
    struct stat st;
    char name[32];

    if (dlr_store_name(rank, DLR_STORE_FETCHED, name, sizeof(name)) == 0 &&
        fstatat(s->self->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        others -= (uint64_t)st.st_blocks * 512;
    if (others < to_come(s, rank, bytes))
        others = to_come(s, rank, bytes);
    dlr_budget_look("", &budget);
    return dlr_budget_check(&budget, rank, 1, bytes, dlr_space_slots(s), others, err);
}
