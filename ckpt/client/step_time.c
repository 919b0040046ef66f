/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/step_time.h"

#include <stdatomic.h>

/* What the device's streams were held for since the last look is what saving has cost,
 * too.
 */
static void learn_held(struct dlr_ckpt *ck)
{
    uint64_t ns = ck->dev ? ck->ops->held(ck->dev) : 0;

    if (ns == 0)
        return;
    atomic_fetch_add_explicit(&ck->page->held_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&ck->page->blocked_ns, ns, memory_order_relaxed);
}

/* The newest save is under way still: its copies take of what the steps need. */
static bool undecided(const struct dlr_ckpt *ck)
{
    uint64_t committed = atomic_load(&ck->page->committed_step);

    return !ck->backend->plans && ck->saved_step != DLR_PAGE_NEVER &&
           (committed == DLR_PAGE_NEVER || committed < ck->saved_step) &&
           dlr_page_ordered(ck->page, ck->saved_step);
}

/* The step that ends now took so long, with all that saving did to it. */
static void learn_cost(struct dlr_ckpt *ck, int64_t took)
{
    struct dlr_page *page = ck->page;
    int64_t extra;

    if (!dlr_save_cost_step(&ck->cost, took, ck->saved_step == ck->last_step,
                            ck->overlaps))
        return;
    extra = dlr_save_cost_extra_ns(&ck->cost);
    atomic_store(&page->extra_ns, extra > 0 ? (uint64_t)extra : 0);
    atomic_store(&page->extra_saves, ck->cost.saves);
    atomic_store(&page->step_ns, (uint64_t)dlr_save_cost_plain_ns(&ck->cost));
}

/* The step that ends now tells how long one takes when nothing is saved in it, or how
 * long beside a save, without the time that it was held up.
 */
static void learn_step(struct dlr_ckpt *ck, uint64_t step, int64_t now)
{
    struct dlr_page *page = ck->page;
    bool busy = ck->snapshot_thread && dlr_snapshot_thread_busy(ck->snapshot_thread);
    uint64_t blocked = atomic_load_explicit(&page->blocked_ns, memory_order_relaxed);
    uint64_t began = atomic_load_explicit(&page->progress_ns, memory_order_relaxed);

    if (ck->last_step != DLR_PAGE_NEVER && step == ck->last_step + 1) {
        uint64_t took = (uint64_t)now - began;
        uint64_t held_up = blocked - ck->blocked_ns + (uint64_t)ck->audit.ns;
        bool plain = !ck->saving_step && !busy;

        learn_cost(ck, now - (int64_t)began - ck->audit.ns);
        /* A device was held up for longer than the host, which runs ahead of it, took.
         */
        took = took > held_up ? took - held_up : 0;

        atomic_fetch_add(plain ? &page->plain_ns : &page->saved_ns, took);
        atomic_fetch_add(plain ? &page->plain_steps : &page->saved_steps, 1);
    }
    ck->blocked_ns = blocked;
    ck->audit.ns = 0;
    ck->saving_step = busy;
    ck->overlaps = busy || undecided(ck);
}

bool dlr_step_announce(struct dlr_ckpt *ck, uint64_t step, int64_t now)
{
    if (step == DLR_PAGE_NEVER ||
        (ck->last_step != DLR_PAGE_NEVER && step <= ck->last_step))
        return false;
    learn_held(ck);
    learn_step(ck, step, now);
    ck->last_step = step;
    atomic_store_explicit(&ck->page->progress_ns, (uint64_t)now, memory_order_relaxed);
    atomic_store(&ck->page->begun_step, step);
    return true;
}

uint64_t dlr_step_without_audit(const struct dlr_ckpt *ck, uint64_t took,
                                int64_t audit_ns)
{
    uint64_t audit = (uint64_t)(ck->audit.ns - audit_ns);

    return took > audit ? took - audit : 0;
}
