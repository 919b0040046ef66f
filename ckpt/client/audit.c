/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "ckpt/client/audit_device.h"
#include "common/base/clock.h"
#include "common/config/opt.h"

static bool looked_at(const struct dlr_audit *audit, const struct dlr_audit_of *of,
                      unsigned i)
{
    const struct dlr_regions *rs = of->regions;
    const void *addr = rs->list[i].addr;

    if (rs->list[i].kind == DLR_CKPT_BLOB || rs->bytes[i] == 0)
        return false;
    return !audit->own || (of->src[i] == addr && !(of->ops && of->on_device[i]) &&
                           !dlr_device_writes(addr));
}

/* Whether the save with this number, from 0 on, is looked at. */
static bool is_due(unsigned every, uint64_t n)
{
    if (every == DLR_COUNT_AUTO)
        return n < DLR_AUDIT_FIRST || (n + 1) % DLR_AUDIT_EVERY == 0;
    return every != 0 && n % every == 0;
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

/* What of a region is looked at: by default its share of what a look may take, another
 * part each time.
 */
static uint64_t window(const struct dlr_audit *audit, const struct dlr_regions *rs,
                       unsigned i, uint64_t *ret_bytes)
{
    uint64_t share = DLR_AUDIT_BYTES / rs->n;

    if (share < DLR_AUDIT_LEAST)
        share = DLR_AUDIT_LEAST;
    *ret_bytes = rs->bytes[i];
    if (!audit->own || rs->bytes[i] <= share)
        return 0;
    *ret_bytes = share;
    return (audit->saves - 1) * share % (rs->bytes[i] - share + 1);
}

static int sum(const struct dlr_audit *audit, const struct dlr_audit_of *of, unsigned i,
               uint64_t *ret)
{
    const struct dlr_regions *rs = of->regions;
    struct view view = {rs->list[i].addr, 0};
    uint64_t bytes, at = window(audit, rs, i, &bytes);

    if (of->ops && of->on_device[i])
        return dlr_audit_device_crc(of->ops, of->dev, rs->list[i].addr, rs->views[i],
                                    rs->bytes[i], ret);
    if (rs->views[i]) {
        dlr_strides_walk(rs->views[i], at, bytes, sum_rows, &view);
        *ret = view.sum;
        return 0;
    }
    *ret = XXH64(view.addr + at, bytes, 0);
    return 0;
}

int dlr_audit_begin(struct dlr_audit *audit, unsigned every,
                    const struct dlr_audit_of *of, uint64_t step)
{
    int64_t began = dlr_now_ns();
    int rc = 0;

    audit->open = false;
    if (!is_due(every, audit->saves++))
        return 0;
    audit->own = every == DLR_COUNT_AUTO;
    audit->waits = !audit->own && of->dev;
    if (!audit->sums)
        audit->sums = calloc(of->regions->n + 1u, sizeof(*audit->sums));
    if (!audit->sums)
        return -ENOMEM;
    for (unsigned i = 0; rc == 0 && i < of->regions->n; i++) {
        audit->sums[i] = 0;
        if (looked_at(audit, of, i))
            rc = sum(audit, of, i, &audit->sums[i]);
    }
    audit->step = step;
    audit->open = rc == 0;
    audit->ns += dlr_now_ns() - began;
    return rc;
}

int dlr_audit_end(struct dlr_audit *audit, const struct dlr_audit_of *of,
                  unsigned *ret_first)
{
    int64_t began = audit->open ? dlr_now_ns() : 0;
    int changed = 0, rc = 0;

    for (unsigned i = 0; audit->open && rc == 0 && i < of->regions->n; i++) {
        uint64_t now = 0;

        /* Not then either: a program may register memory meanwhile, or no longer. */
        if (!looked_at(audit, of, i) || audit->sums[i] == 0)
            continue;
        rc = sum(audit, of, i, &now);
        if (rc == 0 && now != audit->sums[i] && changed++ == 0)
            *ret_first = i;
    }
    audit->ns += audit->open ? dlr_now_ns() - began : 0;
    audit->open = false;
    return rc < 0 ? rc : changed;
}

void dlr_audit_done(struct dlr_audit *audit)
{
    free(audit->sums);
    audit->sums = NULL;
    audit->open = false;
}
