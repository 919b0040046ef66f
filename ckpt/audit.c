/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

static bool looked_at(const struct dlr_regions *rs, const bool *skip, unsigned i)
{
    return rs->list[i].kind != DLR_CKPT_BLOB && rs->bytes[i] > 0 && !skip[i];
}

struct view {
    const char *addr;
    uint64_t sum;
};

static int sum_rows(void *arg, const struct dlr_strides_rows *r)
{
    struct view *v = arg;

    for (uint64_t k = 0; k < r->rows; k++)
        v->sum = XXH64(v->addr + r->from + (int64_t)k * r->pitch, r->size, v->sum);
    return 0;
}

static uint64_t sum(const struct dlr_regions *rs, unsigned i)
{
    struct view view = {rs->list[i].addr, 0};

    if (rs->views[i]) {
        dlr_strides_walk(rs->views[i], 0, rs->bytes[i], sum_rows, &view);
        return view.sum;
    }
    return XXH64(rs->list[i].addr, rs->bytes[i], 0);
}

int dlr_audit_begin(struct dlr_audit *audit, unsigned every,
                    const struct dlr_regions *regions, const bool *skip, uint64_t step)
{
    audit->open = false;
    if (every == 0 || audit->saves++ % every != 0)
        return 0;
    if (!audit->sums)
        audit->sums = calloc(regions->n + 1u, sizeof(*audit->sums));
    if (!audit->sums)
        return -ENOMEM;
    for (unsigned i = 0; i < regions->n; i++)
        if (looked_at(regions, skip, i))
            audit->sums[i] = sum(regions, i);
    audit->step = step;
    audit->open = true;
    return 0;
}

unsigned dlr_audit_end(struct dlr_audit *audit, const struct dlr_regions *regions,
                       const bool *skip, unsigned *ret_first)
{
    unsigned changed = 0;

    for (unsigned i = 0; audit->open && i < regions->n; i++)
        if (looked_at(regions, skip, i) && sum(regions, i) != audit->sums[i] &&
            changed++ == 0)
            *ret_first = i;
    audit->open = false;
    return changed;
}

void dlr_audit_done(struct dlr_audit *audit)
{
    free(audit->sums);
    *audit = (struct dlr_audit){0};
}
