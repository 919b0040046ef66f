/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/layout/box.h"

#include <string.h>

struct dlr_box dlr_box_of(const struct dlr_ckpt_region *region)
{
    struct dlr_box box = {.ndim = region->ndim};

    memcpy(box.off, region->offset, region->ndim * sizeof(*box.off));
    memcpy(box.len, region->local_shape, region->ndim * sizeof(*box.len));
    return box;
}

bool dlr_box_eq(const struct dlr_box *a, const struct dlr_box *b)
{
    size_t row = a->ndim * sizeof(*a->off);

    return a->ndim == b->ndim && memcmp(a->off, b->off, row) == 0 &&
           memcmp(a->len, b->len, row) == 0;
}

bool dlr_box_cut(const struct dlr_box *a, const struct dlr_box *b, struct dlr_box *ret)
{
    struct dlr_box cut = {.ndim = a->ndim};

    for (uint32_t d = 0; d < a->ndim; d++) {
        uint64_t end = a->off[d] + a->len[d], b_end = b->off[d] + b->len[d];

        cut.off[d] = a->off[d] > b->off[d] ? a->off[d] : b->off[d];
        end = end < b_end ? end : b_end;
        if (end <= cut.off[d])
            return false;
        cut.len[d] = end - cut.off[d];
    }
    *ret = cut;
    return true;
}

unsigned dlr_box_minus(const struct dlr_box *a, const struct dlr_box *part,
                       struct dlr_box *ret)
{
    struct dlr_box rest = *a; /* what part's dimensions so far have not cut off */
    unsigned n = 0;

    for (uint32_t d = 0; d < a->ndim; d++) {
        uint64_t below = part->off[d] - rest.off[d];
        uint64_t above = rest.len[d] - below - part->len[d];

        if (below > 0) {
            ret[n] = rest;
            ret[n++].len[d] = below;
        }
        if (above > 0) {
            ret[n] = rest;
            ret[n].off[d] = part->off[d] + part->len[d];
            ret[n++].len[d] = above;
        }
        rest.off[d] = part->off[d];
        rest.len[d] = part->len[d];
    }
    return n;
}

/* Where the item at 'at' lies in box. */
static uint64_t place(const struct dlr_box *box, const uint64_t *at)
{
    uint64_t n = 0;

    for (uint32_t d = 0; d < box->ndim; d++)
        n = n * box->len[d] + (at[d] - box->off[d]);
    return n;
}

/* The first dimension from which on part is contiguous in both boxes. */
static uint32_t inner_of(const struct dlr_box *part, const struct dlr_box *a,
                         const struct dlr_box *b)
{
    uint32_t d = part->ndim;

    while (d > 0) {
        d--;
        if (part->len[d] != a->len[d] || part->len[d] != b->len[d])
            break;
    }
    return d;
}

int dlr_box_runs(const struct dlr_box *part, const struct dlr_box *from_box,
                 const struct dlr_box *to_box, dlr_box_run_fn fn, void *arg)
{
    uint32_t inner = inner_of(part, from_box, to_box), d;
    uint64_t at[DLR_CKPT_DIMS_MAX], items = 1;
    int rc;

    memcpy(at, part->off, sizeof(at));
    for (d = inner; d < part->ndim; d++)
        items *= part->len[d];
    for (;;) {
        rc = fn(arg, place(from_box, at), place(to_box, at), items);
        if (rc < 0)
            return rc;
        for (d = inner; d > 0; d--) {
            if (++at[d - 1] < part->off[d - 1] + part->len[d - 1])
                break;
            at[d - 1] = part->off[d - 1];
        }
        if (d == 0)
            return 0;
    }
}
