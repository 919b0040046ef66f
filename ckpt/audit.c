/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

static bool looked_at(const struct dlr_regions *rs, const bool *skip, unsigned i)
{
    return rs->list[i].kind != DLR_CKPT_BLOB && rs->bytes[i] > 0 && !skip[i];
}

static uint64_t sum(const struct dlr_regions *rs, unsigned i)
{
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
