/* SPDX-License-Identifier: Apache-2.0 */
/* Save points of the program's own: it asks for one, and waits until it is safe. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "ckpt/base/page_commit.h"
#include "ckpt/client/client.h"
#include "ckpt/client/fork.h"
#include "common/base/clock.h"

#define LOOK_MS 500 /* a commit wakes who waits for it, the end of an agent does not */

/* Nothing but atomic words: a signal handler and other threads may ask. */
int dlr_ckpt_save_now(struct dlr_ckpt *ck)
{
    uint64_t wanted, had;

    if (dlr_forked(ck))
        return 0;
    wanted = dlr_page_next(ck->page);
    had = atomic_load(&ck->page->wanted);
    while (had < wanted &&
           !atomic_compare_exchange_weak(&ck->page->wanted, &had, wanted))
        ;
    return 0;
}

/* What was restored had been committed, in a former round. */
static bool is_safe(const struct dlr_ckpt *ck, uint64_t step)
{
    uint64_t committed = atomic_load(&ck->page->committed_step);

    return (committed != DLR_PAGE_NEVER && committed >= step) ||
           (ck->from_world > 0 && ck->from_step >= step);
}

int dlr_ckpt_wait(struct dlr_ckpt *ck, uint64_t step, unsigned limit_ms)
{
    int64_t until_ms = dlr_now_ms() + limit_ms;
    int rc = dlr_fork_check(ck);

    while (rc == 0) {
        uint32_t seq = atomic_load(&ck->page->committed_seq);
        int coming = ck->backend->comes(ck, step); /* what ends after this is safe */
        int64_t left_ms = until_ms - dlr_now_ms();

        if (is_safe(ck, step))
            return 1;
        if (coming < 0)
            return coming;
        if (coming == 0)
            return dlr_fail(
                &ck->err, -ENODATA,
                "no version of step %" PRIu64 " or a later one is being saved", step);
        if (left_ms <= 0)
            return 0;
        dlr_page_commit_wait(ck->page, seq, left_ms < LOOK_MS ? left_ms : LOOK_MS);
    }
    return rc;
}
