/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "ckpt/audit_device.h"

static bool looked_at(const struct dlr_regions *rs, unsigned i)
{
    return rs->list[i].kind != DLR_CKPT_BLOB && rs->bytes[i] > 0;
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

static int sum(const struct dlr_audit_of *of, unsigned i, uint64_t *ret)
{
    const struct dlr_regions *rs = of->regions;
    struct view view = {rs->list[i].addr, 0};

    if (of->ops && of->on_device[i])
        return dlr_audit_device_sum(of->ops, of->dev, rs->list[i].addr, rs->views[i],
                                    rs->bytes[i], ret);
    if (rs->views[i]) {
        dlr_strides_walk(rs->views[i], 0, rs->bytes[i], sum_rows, &view);
        *ret = view.sum;
        return 0;
    }
    *ret = XXH64(rs->list[i].addr, rs->bytes[i], 0);
    return 0;
}

int dlr_audit_begin(struct dlr_audit *audit, unsigned every,
                    const struct dlr_audit_of *of, uint64_t step)
{
    int rc = 0;

    audit->open = false;
    if (every == 0 || audit->saves++ % every != 0)
        return 0;
    if (!audit->sums)
        audit->sums = calloc(of->regions->n + 1u, sizeof(*audit->sums));
    if (!audit->sums)
        return -ENOMEM;
    for (unsigned i = 0; rc == 0 && i < of->regions->n; i++)
        if (looked_at(of->regions, i))
            rc = sum(of, i, &audit->sums[i]);
    audit->step = step;
    audit->open = rc == 0;
    return rc;
}

int dlr_audit_end(struct dlr_audit *audit, const struct dlr_audit_of *of,
                  unsigned *ret_first)
{
    int changed = 0, rc = 0;

    for (unsigned i = 0; audit->open && rc == 0 && i < of->regions->n; i++) {
        uint64_t now = 0;

        if (!looked_at(of->regions, i))
            continue;
        rc = sum(of, i, &now);
        if (rc == 0 && now != audit->sums[i] && changed++ == 0)
            *ret_first = i;
    }
    audit->open = false;
    return rc < 0 ? rc : changed;
}

void dlr_audit_done(struct dlr_audit *audit)
{
    free(audit->sums);
    *audit = (struct dlr_audit){0};
}
