/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/layout/strides.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define REACH_MAX ((uint64_t)1 << 47) /* from the first to the last byte of a view */

struct dim {
    uint64_t len;
    int64_t step;
};

/* The dimensions with more than one item, innermost last. */
static unsigned dims_of(const struct dlr_ckpt_region *r, struct dim *dims)
{
    unsigned n = 0;

    for (uint32_t d = 0; d < r->ndim; d++)
        if (r->local_shape[d] > 1)
            dims[n++] = (struct dim){r->local_shape[d], r->stride[d]};
    return n;
}

static uint64_t size_of(int64_t step)
{
    return step < 0 ? -(uint64_t)step : (uint64_t)step;
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = size_of(((const struct dim *)a)->step);
    uint64_t y = size_of(((const struct dim *)b)->step);

    return x < y ? -1 : x > y;
}

/* No two items share a byte when each step is beyond all that lies within the smaller
 * ones. A view whose items interleave in another way without meeting is refused, too:
 * nobody makes one.
 */
static int check(const struct dlr_ckpt_region *r, const struct dim *dims, unsigned n,
                 struct dlr_err *err)
{
    struct dim sorted[DLR_CKPT_DIMS_MAX];
    uint64_t reach = r->item_size;

    memcpy(sorted, dims, n * sizeof(*dims));
    qsort(sorted, n, sizeof(*sorted), by_step);
    for (unsigned i = 0; i < n; i++) {
        uint64_t step = size_of(sorted[i].step), more;

        if (step < reach)
            return dlr_fail(err, -EINVAL, "its strides make items overlap");
        if (__builtin_mul_overflow(step, sorted[i].len - 1, &more) ||
            more > REACH_MAX - reach)
            return dlr_fail(err, -EINVAL, "its strides reach too far");
        reach += more;
    }
    return 0;
}

static bool all_zero(const struct dlr_ckpt_region *r)
{
    for (uint32_t d = 0; d < r->ndim; d++)
        if (r->stride[d] != 0)
            return false;
    return true;
}

int dlr_strides_of(const struct dlr_ckpt_region *region, struct dlr_strides *ret,
                   struct dlr_err *err)
{
    struct dim dims[DLR_CKPT_DIMS_MAX];
    struct dlr_strides s = {.run = region->item_size};
    unsigned n = dims_of(region, dims);
    int rc;

    for (uint32_t d = 0; d < region->ndim; d++)
        if (region->local_shape[d] == 0)
            return 0;
    if (all_zero(region))
        return 0;
    rc = check(region, dims, n, err);
    if (rc < 0)
        return rc;
    for (; n > 0 && dims[n - 1].step > 0 && (uint64_t)dims[n - 1].step == s.run; n--)
        s.run *= dims[n - 1].len;
    for (s.ndim = 0; s.ndim < n; s.ndim++) {
        s.len[s.ndim] = dims[s.ndim].len;
        s.step[s.ndim] = dims[s.ndim].step;
    }
    *ret = s;
    return n > 0;
}

/* Where run number i lies. */
static int64_t place(const struct dlr_strides *s, uint64_t i)
{
    int64_t at = 0;

    for (uint32_t d = s->ndim; d-- > 0; i /= s->len[d])
        at += (int64_t)(i % s->len[d]) * s->step[d];
    return at;
}

int dlr_strides_walk(const struct dlr_strides *s, uint64_t at, uint64_t bytes,
                     dlr_strides_fn fn, void *arg)
{
    uint64_t inner = s->len[s->ndim - 1], done = 0;

    while (done < bytes) {
        uint64_t i = (at + done) / s->run, skip = (at + done) % s->run;
        uint64_t left = bytes - done, row = inner - i % inner;
        struct dlr_strides_rows rows = {.from = place(s, i) + (int64_t)skip,
                                        .packed = done,
                                        .pitch = s->step[s->ndim - 1]};
        int rc;

        if (skip > 0 || left < s->run) { /* a part of one run */
            rows.size = left < s->run - skip ? left : s->run - skip;
            rows.rows = 1;
        } else {
            rows.size = s->run;
            rows.rows = left / s->run < row ? left / s->run : row;
        }
        rc = fn(arg, &rows);
        if (rc < 0)
            return rc;
        done += rows.size * rows.rows;
    }
    return 0;
}

struct host {
    char *view, *packed;
};

/* Items of the usual sizes by moves of that size: a copy of n bytes is a call. */
static inline __attribute__((always_inline)) void move(char *to, int64_t to_step,
                                                       const char *from,
                                                       int64_t from_step, uint64_t n,
                                                       size_t size)
{
    for (; n > 0; n--, to += to_step, from += from_step)
        memcpy(to, from, size);
}

static void move_rows(char *to, int64_t to_step, const char *from, int64_t from_step,
                      uint64_t n, size_t size)
{
    switch (size) {
    case 1:
        move(to, to_step, from, from_step, n, 1);
        break;
    case 2:
        move(to, to_step, from, from_step, n, 2);
        break;
    case 4:
        move(to, to_step, from, from_step, n, 4);
        break;
    case 8:
        move(to, to_step, from, from_step, n, 8);
        break;
    default:
        move(to, to_step, from, from_step, n, size);
    }
}

static int gather(void *arg, const struct dlr_strides_rows *r)
{
    const struct host *h = arg;

    move_rows(h->packed + r->packed, (int64_t)r->size, h->view + r->from, r->pitch,
              r->rows, r->size);
    return 0;
}

static int scatter(void *arg, const struct dlr_strides_rows *r)
{
    const struct host *h = arg;

    move_rows(h->view + r->from, r->pitch, h->packed + r->packed, (int64_t)r->size,
              r->rows, r->size);
    return 0;
}

void dlr_strides_gather(const struct dlr_strides *s, const void *addr, uint64_t at,
                        void *packed, size_t bytes)
{
    struct host h = {(char *)(uintptr_t)addr, packed};

    dlr_strides_walk(s, at, bytes, gather, &h);
}

void dlr_strides_scatter(const struct dlr_strides *s, void *addr, uint64_t at,
                         const void *packed, size_t bytes)
{
    struct host h = {addr, (char *)(uintptr_t)packed};

    dlr_strides_walk(s, at, bytes, scatter, &h);
}
