/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker has counted on its page of the cost of saves, as its agent reads it:
 * the page is memory of the program, and a stray write of that may be in it. A cost of
 * centuries would end all saves. Pure; times come in.
 */
#ifndef DLR_CKPT_BASE_PAGE_COST_H
#define DLR_CKPT_BASE_PAGE_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/base/page.h"

#define DLR_PAGE_COST_FACTOR 64 /* fences of as many devices are added up */

struct dlr_page_cost {
    uint64_t saves, blocked_ns, plain_steps, plain_ns, saved_steps,
        saved_ns; /* totals */
    uint64_t extra_ns, extra_saves, step_ns;
};

static inline bool dlr_page_cost_grew(const uint64_t *was, const uint64_t *is,
                                      unsigned n, uint64_t most)
{
    for (unsigned i = 0; i < n; i++)
        if (is[i] < was[i] || is[i] > most)
            return false;
    return true;
}

/* told: what was read before, 0 at first; age_ns: of the page. False, and *ret as it
 * was: this cannot be, since a total has shrunk or is larger than the page is old.
 */
static inline bool dlr_page_cost_get(const struct dlr_page *page,
                                     const struct dlr_page_cost *told, int64_t age_ns,
                                     struct dlr_page_cost *ret)
{
    const struct dlr_page_cost now = {.saves = page->saves,
                                      .blocked_ns = page->blocked_ns,
                                      .plain_steps = page->plain_steps,
                                      .plain_ns = page->plain_ns,
                                      .saved_steps = page->saved_steps,
                                      .saved_ns = page->saved_ns,
                                      .extra_ns = page->extra_ns,
                                      .extra_saves = page->extra_saves,
                                      .step_ns = page->step_ns};
    const uint64_t most = (uint64_t)age_ns * DLR_PAGE_COST_FACTOR;
    const uint64_t was[] = {told->saves,
                            told->blocked_ns,
                            told->plain_steps,
                            told->plain_ns,
                            told->saved_steps,
                            told->saved_ns,
                            told->extra_saves,
                            0,
                            0};
    const uint64_t is[] = {now.saves,       now.blocked_ns,  now.plain_steps,
                           now.plain_ns,    now.saved_steps, now.saved_ns,
                           now.extra_saves, now.extra_ns,    now.step_ns};

    if (!dlr_page_cost_grew(was, is, sizeof(is) / sizeof(*is), most))
        return false;
    *ret = now;
    return true;
}

#endif
