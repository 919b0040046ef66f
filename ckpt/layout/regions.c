/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/layout/regions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/persist/safetensors.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

static uint32_t *cell(const struct dlr_regions *rs, const char *name)
{
    uint32_t at = (uint32_t)XXH64(name, strlen(name), 0);

    for (;; at++) {
        uint32_t *c = &rs->index[at & (rs->index_size - 1)];

        if (*c == 0 || dlr_streq(rs->list[*c - 1].name, name))
            return c;
    }
}

static uint32_t *cell_at(const struct dlr_regions *rs, const void *addr)
{
    uint32_t at = (uint32_t)XXH64(&addr, sizeof(addr), 0);

    for (;; at++) {
        uint32_t *c = &rs->by_addr[at & (rs->index_size - 1)];

        if (*c == 0 || rs->list[*c - 1].addr == addr)
            return c;
    }
}

static int find_tie(const struct dlr_regions *rs, const char *name, unsigned *ret_i)
{
    for (unsigned i = 0; i < rs->nties; i++)
        if (dlr_streq(rs->ties[i].name, name)) {
            *ret_i = rs->ties[i].region;
            return 0;
        }
    return -ENOENT;
}

int dlr_regions_find(const struct dlr_regions *rs, const char *name, unsigned *ret_i)
{
    uint32_t found = rs->index_size ? *cell(rs, name) : 0;

    if (found == 0)
        return find_tie(rs, name, ret_i);
    *ret_i = found - 1;
    return 0;
}

static void index_it(struct dlr_regions *rs, unsigned i)
{
    uint32_t *first = cell_at(rs, rs->list[i].addr);

    *cell(rs, rs->list[i].name) = i + 1;
    if (*first == 0)
        *first = i + 1;
}

/* Room for one more; the hash table stays at most half full. */
static int grow(struct dlr_regions *rs)
{
    unsigned room = rs->room ? rs->room * 2 : 64;
    struct dlr_ckpt_region *list;
    uint64_t *bytes, *used;
    struct dlr_strides **views;
    uint32_t *index, *by_addr;

    if (rs->n < rs->room)
        return 0;
    list = realloc(rs->list, room * sizeof(*list));
    rs->list = list ? list : rs->list;
    bytes = realloc(rs->bytes, room * sizeof(*bytes));
    rs->bytes = bytes ? bytes : rs->bytes;
    used = realloc(rs->used, room * sizeof(*used));
    rs->used = used ? used : rs->used;
    views = realloc(rs->views, room * sizeof(*views));
    rs->views = views ? views : rs->views;
    index = calloc(room * 2, sizeof(*index));
    by_addr = calloc(room * 2, sizeof(*by_addr));
    if (!list || !bytes || !used || !views || !index || !by_addr) {
        free(index);
        free(by_addr);
        return -ENOMEM;
    }
    free(rs->index);
    free(rs->by_addr);
    rs->index = index;
    rs->by_addr = by_addr;
    rs->index_size = room * 2;
    rs->room = room;
    for (unsigned i = 0; i < rs->n; i++)
        index_it(rs, i);
    return 0;
}

static int check(const struct dlr_ckpt_region *r, uint64_t *ret_bytes,
                 struct dlr_err *err)
{
    struct dlr_err why;
    int rc;

    if (!r->name || !*r->name || strlen(r->name) > DLR_CKPT_NAME_MAX)
        return dlr_fail(err, -EINVAL, "a region's name must have 1 to %d bytes",
                        DLR_CKPT_NAME_MAX);
    if (dlr_safetensors_reserved(r->name))
        return dlr_fail(err, -EINVAL, "a region cannot be named '%s'", r->name);
    if (!r->dtype || strlen(r->dtype) > DLR_CKPT_DTYPE_MAX)
        return dlr_fail(err, -EINVAL, "region '%s': dtype must have at most %d bytes",
                        r->name, DLR_CKPT_DTYPE_MAX);
    rc = dlr_region_bytes(r, ret_bytes, &why);
    if (rc < 0)
        return dlr_fail(err, -EINVAL, "region '%s': %s", r->name, why.text);
    if (!r->addr && *ret_bytes > 0)
        return dlr_fail(err, -EINVAL, "region '%s' has no address", r->name);
    return 0;
}

static bool same_box(const struct dlr_ckpt_region *a, const struct dlr_ckpt_region *b)
{
    size_t row = a->ndim * sizeof(a->offset[0]);

    return a->kind == b->kind && a->kind != DLR_CKPT_BLOB &&
           dlr_streq(a->dtype, b->dtype) && a->item_size == b->item_size &&
           a->ndim == b->ndim && memcmp(a->global_shape, b->global_shape, row) == 0 &&
           memcmp(a->offset, b->offset, row) == 0 &&
           memcmp(a->local_shape, b->local_shape, row) == 0 &&
           memcmp(a->stride, b->stride, row) == 0;
}

/* *ret_view is heap memory, NULL for a contiguous region, whose strides become 0. */
static int look_at_strides(struct dlr_ckpt_region *r, struct dlr_strides **ret_view,
                           struct dlr_err *err)
{
    struct dlr_strides view;
    struct dlr_err why;
    int rc = dlr_strides_of(r, &view, &why);

    *ret_view = NULL;
    if (rc < 0)
        return dlr_fail(err, rc, "region '%s': %s", r->name, why.text);
    if (rc == 0) {
        memset(r->stride, 0, sizeof(r->stride));
        return 0;
    }
    if (r->kind == DLR_CKPT_BLOB)
        return dlr_fail(err, -EINVAL, "blob '%s' must be contiguous", r->name);
    *ret_view = malloc(sizeof(view));
    if (!*ret_view)
        return dlr_fail(err, -ENOMEM, "no memory for region '%s'", r->name);
    **ret_view = view;
    return 0;
}

/* 1 when r became a name of another region, 0 when there is none like it. */
static int tie(struct dlr_regions *rs, const struct dlr_ckpt_region *r, uint64_t bytes)
{
    uint32_t first = rs->index_size && bytes > 0 ? *cell_at(rs, r->addr) : 0;
    struct dlr_region_tie *more;
    char *name;

    if (first == 0 || !same_box(&rs->list[first - 1], r))
        return 0;
    more = realloc(rs->ties, (rs->nties + 1u) * sizeof(*more));
    if (more)
        rs->ties = more;
    name = more ? strdup(r->name) : NULL;
    if (!name)
        return -ENOMEM;
    rs->ties[rs->nties++] = (struct dlr_region_tie){name, first - 1};
    return 1;
}

int dlr_regions_add(struct dlr_regions *rs, const struct dlr_ckpt_region *region,
                    struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_strides *view = NULL;
    struct dlr_ckpt_region r = *region;
    uint64_t bytes;
    unsigned there;
    int rc = check(&r, &bytes, err);

    if (rc == 0)
        rc = look_at_strides(&r, &view, err);
    if (rc < 0)
        return rc;
    if (dlr_regions_find(rs, r.name, &there) == 0)
        return dlr_fail(err, -EEXIST, "region '%s' was named before", r.name);
    rc = tie(rs, &r, bytes);
    if (rc != 0)
        return rc > 0 ? 0
                      : dlr_fail(err, rc, "no memory for region '%s'", region->name);
    if (rs->n == DLR_META_REGIONS_MAX)
        return dlr_fail(err, -ENOSPC, "more than %u regions", DLR_META_REGIONS_MAX);
    r.name = strdup(region->name);
    r.dtype = strdup(region->dtype);
    if (!r.name || !r.dtype || grow(rs) < 0) {
        free((char *)r.name);
        free((char *)r.dtype);
        return dlr_fail(err, -ENOMEM, "no memory for region '%s'", region->name);
    }
    rs->list[rs->n] = r;
    rs->bytes[rs->n] = rs->used[rs->n] = bytes;
    rs->views[rs->n] = DLR_STEAL(view);
    index_it(rs, rs->n++);
    return 0;
}

void dlr_regions_done(struct dlr_regions *rs)
{
    for (unsigned i = 0; i < rs->n; i++) {
        free((char *)rs->list[i].name);
        free((char *)rs->list[i].dtype);
        free(rs->views[i]);
    }
    for (unsigned i = 0; i < rs->nties; i++)
        free(rs->ties[i].name);
    free(rs->ties);
    free(rs->by_addr);
    free(rs->list);
    free(rs->bytes);
    free(rs->used);
    free(rs->views);
    free(rs->index);
    *rs = (struct dlr_regions){0};
}
