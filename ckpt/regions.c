/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/regions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/safetensors.h"
#include "ckpt/slot_meta.h"
#include "common/str.h"

static uint32_t *cell(const struct dlr_regions *rs, const char *name)
{
    uint32_t at = (uint32_t)XXH64(name, strlen(name), 0);

    for (;; at++) {
        uint32_t *c = &rs->index[at & (rs->index_size - 1)];

        if (*c == 0 || dlr_streq(rs->list[*c - 1].name, name))
            return c;
    }
}

int dlr_regions_find(const struct dlr_regions *rs, const char *name, unsigned *ret_i)
{
    uint32_t found = rs->index_size ? *cell(rs, name) : 0;

    if (found == 0)
        return -ENOENT;
    *ret_i = found - 1;
    return 0;
}

/* Room for one more; the hash table stays at most half full. */
static int grow(struct dlr_regions *rs)
{
    unsigned room = rs->room ? rs->room * 2 : 64;
    struct dlr_ckpt_region *list;
    uint64_t *bytes, *used;
    uint32_t *index;

    if (rs->n < rs->room)
        return 0;
    list = realloc(rs->list, room * sizeof(*list));
    rs->list = list ? list : rs->list;
    bytes = realloc(rs->bytes, room * sizeof(*bytes));
    rs->bytes = bytes ? bytes : rs->bytes;
    used = realloc(rs->used, room * sizeof(*used));
    rs->used = used ? used : rs->used;
    index = calloc(room * 2, sizeof(*index));
    if (!list || !bytes || !used || !index) {
        free(index);
        return -ENOMEM;
    }
    free(rs->index);
    rs->index = index;
    rs->index_size = room * 2;
    rs->room = room;
    for (unsigned i = 0; i < rs->n; i++)
        *cell(rs, rs->list[i].name) = i + 1;
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
    if (dlr_streq(r->name, DLR_SAFETENSORS_OWN))
        return dlr_fail(err, -EINVAL, "a region cannot be named '%s'", r->name);
    if (!r->dtype || strlen(r->dtype) > DLR_CKPT_DTYPE_MAX)
        return dlr_fail(err, -EINVAL, "region '%s': dtype must have at most %d bytes",
                        r->name, DLR_CKPT_DTYPE_MAX);
    rc = dlr_region_bytes(r, ret_bytes, &why);
    if (rc < 0)
        return dlr_fail(err, -EINVAL, "region '%s': %s", r->name, why.text);
    for (unsigned d = 0; d < r->ndim; d++)
        if (r->stride[d] != 0)
            return dlr_fail(err, -ENOTSUP, "region '%s': strides are not supported",
                            r->name);
    if (!r->addr && *ret_bytes > 0)
        return dlr_fail(err, -EINVAL, "region '%s' has no address", r->name);
    return 0;
}

int dlr_regions_add(struct dlr_regions *rs, const struct dlr_ckpt_region *region,
                    struct dlr_err *err)
{
    struct dlr_ckpt_region r = *region;
    uint64_t bytes;
    unsigned there;
    int rc = check(&r, &bytes, err);

    if (rc < 0)
        return rc;
    if (dlr_regions_find(rs, r.name, &there) == 0)
        return dlr_fail(err, -EEXIST, "region '%s' was named before", r.name);
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
    *cell(rs, r.name) = ++rs->n;
    return 0;
}

void dlr_regions_done(struct dlr_regions *rs)
{
    for (unsigned i = 0; i < rs->n; i++) {
        free((char *)rs->list[i].name);
        free((char *)rs->list[i].dtype);
    }
    free(rs->list);
    free(rs->bytes);
    free(rs->used);
    free(rs->index);
    *rs = (struct dlr_regions){0};
}
