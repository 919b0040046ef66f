/* SPDX-License-Identifier: Apache-2.0 */
/* The progress page: one 4 KiB page per rank, shared by a worker and its node's agent.
 * The worker's begin is a store, a load and a compare on it.
 */
#ifndef DLR_CKPT_BASE_PAGE_H
#define DLR_CKPT_BASE_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DLR_PAGE_MAGIC 0x32504c44u /* "DLP2" */
#define DLR_PAGE_SIZE 4096
#define DLR_PAGE_RING 16 /* orders that may lie ahead of a rank */
#define DLR_PAGE_NEVER UINT64_MAX
#define DLR_PAGE_CPUS 1024
#define DLR_PAGE_MATES 512
#define DLR_PAGE_HELD UINT64_MAX /* lease_ns: no end until further word */

/* Steps to save lie in a ring: step s in entry s % DLR_PAGE_RING. Who missed what is
 * decided by this order (a Dekker handshake for each entry, both sides seq_cst):
 *   worker: store begun_step, then load the step's entry; equal -> save
 *   agent:  store the entry, then load begun_step; begun_step >= step -> the rank may
 *   have
 *           missed it: report it, the supervisor aborts the version
 * Of two seq_cst stores followed by loads of the other's, one load at least sees the
 * other's store: the worker the order, or the agent that the step was begun. Both may
 * happen at once; then the worker saves in vain, never the other way round. An entry is
 * stored by the agent alone. It replaces an order that the rank had not begun for
 * certain (begun_step, loaded before the store, is not beyond it) only as one it
 * reports as missed; the worker begins steps in ascending order, so what lies beyond an
 * entry's step was decided by an earlier load of it.
 *
 * The slot is the worker's choice, when the step begins: FREE or DEAD to OPEN by
 * compare-exchange (ckpt/slot/slot.h). The agent marks a slot FREE or DEAD only when it
 * is SEALED or COMMITTED, and nobody of this node reads it; so a slot has one writer at
 * any time.
 */
struct dlr_page {
    uint32_t magic;
    uint32_t size;
    int32_t rank;
    uint32_t round;

    /* written by the worker */
    _Alignas(64) _Atomic uint64_t begun_step; /* DLR_PAGE_NEVER before the first */
    _Atomic uint64_t progress_ns;             /* CLOCK_BOOTTIME of the last step */
    _Atomic uint64_t saves, given_up;
    _Atomic uint64_t begin_ns, fence_ns; /* totals */
    _Atomic uint64_t copied_bytes;
    _Atomic uint64_t changed; /* fences that found memory changed */

    /* written by the agent */
    _Alignas(64) _Atomic uint64_t save_at[DLR_PAGE_RING]; /* DLR_PAGE_NEVER: none */
    _Atomic uint64_t committed_step; /* of this round; DLR_PAGE_NEVER: none */
    /* CLOCK_BOOTTIME; the worker is killed then; 0: never set */
    _Atomic uint64_t lease_ns;
    _Atomic uint32_t lease_seq;     /* futex: one more with each lease */
    _Atomic uint32_t committed_seq; /* futex: one more with each commit */

    /* written by the worker: what saving costs */
    _Alignas(64) _Atomic uint64_t
        blocked_ns; /* of begin_ns, fence_ns: those of saves; and held_ns */
    _Atomic uint64_t plain_steps, plain_ns; /* steps without a save or a copy */
    _Atomic uint64_t saved_steps, saved_ns; /* the others, without what was blocked */
    _Atomic uint64_t skipped; /* orders for which no slot was free, or no time */
    _Atomic uint64_t held_ns; /* for which fences held a device's stream */

    /* written by the agent before the worker has the page: CPUs for the worker's helper
     * threads, CPU i is bit i % 64 of word i / 64; all 0: no advice
     */
    _Alignas(64) uint64_t helper_cpus[DLR_PAGE_CPUS / 64];

    /* written by the agent before the worker has the page: the ranks of this node, this
     * one among them, the same list for each; 0 when they are too many: then each keeps
     * all it has
     */
    uint32_t nmates;
    int32_t mates[DLR_PAGE_MATES];

    /* written by the worker: what ckpt/client/save_cost.h makes of its steps. 0:
     * nothing yet
     */
    _Alignas(
        64) _Atomic uint64_t extra_ns; /* of a save, 0 also where it is below that */
    _Atomic uint64_t extra_saves;      /* that this was learned from */
    _Atomic uint64_t step_ns;          /* of a step without one */
    /* the program asks for a version of this step or later, whatever is due; 0: it has
     * not asked. Never more than one step ahead of begun_step
     */
    _Atomic uint64_t wanted;

    unsigned char room[4096 - 2656];
};

static_assert(sizeof(struct dlr_page) == DLR_PAGE_SIZE, "shared layout");

static inline _Atomic uint64_t *dlr_page_order(struct dlr_page *page, uint64_t step)
{
    return &page->save_at[step % DLR_PAGE_RING];
}

static inline bool dlr_page_ordered(struct dlr_page *page, uint64_t step)
{
    return atomic_load(dlr_page_order(page, step)) == step;
}

/* A step from first to last is ordered, and not decided against. */
static inline bool dlr_page_ordered_within(struct dlr_page *page, uint64_t first,
                                           uint64_t last)
{
    for (unsigned i = 0; i < DLR_PAGE_RING; i++) {
        uint64_t step = atomic_load(&page->save_at[i]);

        if (step >= first && step <= last)
            return true;
    }
    return false;
}

/* The step that a call of now asks for: the next one that may begin. */
static inline uint64_t dlr_page_next(const struct dlr_page *page)
{
    uint64_t begun = atomic_load(&page->begun_step);

    return begun == DLR_PAGE_NEVER ? 1 : begun + 1;
}

static inline void dlr_page_clear_orders(struct dlr_page *page)
{
    for (unsigned i = 0; i < DLR_PAGE_RING; i++)
        atomic_store(&page->save_at[i], DLR_PAGE_NEVER);
}

#endif
