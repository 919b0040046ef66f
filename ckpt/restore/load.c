/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/restore/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/base/copy_crc.h"
#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

struct target {
    uint64_t off, bytes; /* in the data area */
    unsigned region;     /* of ours */
};

struct targets {
    struct target *list; /* ascending */
    unsigned n;
    int parts; /* regions whose rest is elsewhere */
};

static void shape_text(const struct dlr_ckpt_region *r, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "[");

    for (unsigned d = 0; d < r->ndim && at < size; d++)
        at += (size_t)snprintf(buf + at, size - at,
                               "%s%" PRIu64 "+%" PRIu64 " of %" PRIu64, d ? ", " : "",
                               r->offset[d], r->local_shape[d], r->global_shape[d]);
    if (at < size)
        snprintf(buf + at, size - at, "]");
}

int dlr_load_same_type(const struct dlr_slot_region *there,
                       const struct dlr_ckpt_region *here, struct dlr_err *err)
{
    const struct dlr_ckpt_region *r = &there->region;

    if (r->kind != here->kind)
        return dlr_fail(err, -EBADMSG,
                        "region '%s' is of kind %d in the snapshot, %d here",
                        here->name, (int)r->kind, (int)here->kind);
    if (!dlr_streq(r->dtype, here->dtype) || r->item_size != here->item_size)
        return dlr_fail(err, -EBADMSG,
                        "region '%s' holds %s (%u bytes) in the snapshot, %s (%u) here",
                        here->name, r->dtype, r->item_size, here->dtype,
                        here->item_size);
    return 0;
}

int dlr_load_same_box(const struct dlr_slot_region *there,
                      const struct dlr_ckpt_region *here, uint64_t room,
                      struct dlr_err *err)
{
    const struct dlr_ckpt_region *r = &there->region;
    size_t row = here->ndim * sizeof(uint64_t);
    char a[160], b[160];

    if (r->kind == DLR_CKPT_BLOB)
        return there->used <= room
                   ? 0
                   : dlr_fail(err, -EBADMSG,
                              "region '%s' has %" PRIu64
                              " bytes in the snapshot, room for %" PRIu64 " here",
                              here->name, there->used, room);
    if (r->ndim == here->ndim &&
        memcmp(r->global_shape, here->global_shape, row) == 0 &&
        memcmp(r->offset, here->offset, row) == 0 &&
        memcmp(r->local_shape, here->local_shape, row) == 0)
        return 0;
    shape_text(r, a, sizeof(a));
    shape_text(here, b, sizeof(b));
    return dlr_fail(err, -EBADMSG, "region '%s' is %s in the snapshot, %s here",
                    here->name, a, b);
}

/* Whether there is what a rank with this share saves of here. */
static bool is_part(const struct dlr_slot_region *there, struct dlr_share share,
                    const struct dlr_ckpt_region *here)
{
    struct dlr_slot_region whole = *there;

    return dlr_share_is_part(&there->region, share, &whole.region) &&
           dlr_load_same_box(&whole, here, 0, NULL) == 0;
}

/* A region of the snapshot that is i here. */
static int match_one(const struct dlr_slot_region *there, struct dlr_share share,
                     unsigned i, struct dlr_regions *rs, struct targets *t,
                     struct dlr_err *err)
{
    const struct dlr_ckpt_region *here = &rs->list[i];
    int rc = dlr_load_same_type(there, here, err);

    if (rc == 0 && is_part(there, share, here)) {
        t->parts++;
        return 0;
    }
    if (rc == 0)
        rc = dlr_load_same_box(there, here, rs->bytes[i], err);
    if (rc < 0)
        return rc;
    rs->used[i] = there->used;
    t->list[t->n++] = (struct target){there->off, there->used, i};
    return 0;
}

/* Finds each region of the snapshot here; what is left over on either side is noted. */
static int match(const void *meta, size_t bytes, struct dlr_share share,
                 struct dlr_regions *rs, struct targets *t, struct dlr_unmatched *u,
                 struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned char *found = calloc(1, rs->n + 1u);
    struct dlr_slot_region there;
    struct dlr_meta_walk walk;
    int rc = dlr_meta_walk_init(&walk, meta, bytes);

    if (!found)
        return dlr_fail(err, -ENOMEM, "no memory");
    while (rc == 0 && (rc = dlr_meta_next(&walk, &there)) > 0) {
        unsigned i;

        rc = dlr_regions_find(rs, there.region.name, &i);
        if (rc == 0 && found[i] && !dlr_streq(there.region.name, rs->list[i].name))
            continue; /* saved under each of the names it has here */
        if (rc < 0 || found[i]) {
            rc = dlr_names_add(&u->left, there.region.name);
            continue;
        }
        rc = match_one(&there, share, i, rs, t, err);
        if (rc < 0)
            return rc;
        found[i] = 1;
    }
    if (rc < 0)
        return dlr_fail(err, rc, "region %u of the snapshot is malformed", walk.index);
    for (unsigned i = 0; i < rs->n; i++)
        if (!found[i] && dlr_names_add(&u->missing, rs->list[i].name) < 0)
            return dlr_fail(err, -ENOMEM, "no memory");
    return dlr_unmatched_check(u, err);
}

struct store {
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    char *addr;
    const char *src;
};

static int store_rows(void *arg, const struct dlr_strides_rows *r)
{
    const struct store *s = arg;

    return s->ops->store_rows(s->dev, s->addr + r->from, s->src + r->packed, r->size,
                              r->rows, r->pitch);
}

int dlr_load_put(const struct dlr_regions *rs, unsigned i, uint64_t at, const void *src,
                 size_t bytes, const struct dlr_device_ops *ops, struct dlr_device *dev)
{
    char *addr = rs->list[i].addr;
    struct store store = {ops, dev, addr, src};
    bool on_device = ops && ops->owns(addr);

    if (rs->views[i] && on_device)
        return dlr_strides_walk(rs->views[i], at, bytes, store_rows, &store);
    if (on_device)
        return ops->store(dev, addr + at, src, bytes);
    if (rs->views[i])
        dlr_strides_scatter(rs->views[i], addr, at, src, bytes);
    else
        memcpy(addr + at, src, bytes);
    return 0;
}

struct loading {
    const struct dlr_regions *rs;
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    struct targets t;
    unsigned first; /* target that is not behind us */
};

/* As dlr_load_put(), and crc goes on over the bytes: those for host memory in one piece
 * are read once.
 */
static int put(const struct loading *l, unsigned i, uint64_t at, const char *src,
               size_t bytes, uint32_t *crc)
{
    char *addr = l->rs->list[i].addr;

    if (!l->rs->views[i] && !(l->ops && l->ops->owns(addr))) {
        *crc = dlr_copy_crc(addr + at, src, bytes, *crc);
        return 0;
    }
    *crc = dlr_crc32c(*crc, src, bytes);
    return dlr_load_put(l->rs, i, at, src, bytes, l->ops, l->dev);
}

/* Hands data [from, from + size) to the targets it belongs to, and sums all of it. */
static int scatter(struct loading *l, uint64_t from, size_t size, const char *data,
                   uint32_t *ret_crc)
{
    const struct targets *t = &l->t;
    uint64_t to = from + size, at = from;
    uint32_t crc = 0;
    int rc = 0;

    while (l->first < t->n && t->list[l->first].off + t->list[l->first].bytes <= from)
        l->first++;
    for (unsigned i = l->first; rc == 0 && i < t->n && t->list[i].off < to; i++) {
        const struct target *x = &t->list[i];
        uint64_t a = x->off > from ? x->off : from;
        uint64_t b = x->off + x->bytes < to ? x->off + x->bytes : to;

        if (a >= b)
            continue;
        crc = dlr_crc32c(crc, data + (at - from), a - at); /* nobody's */
        rc = put(l, x->region, a - x->off, data + (a - from), b - a, &crc);
        at = b;
    }
    *ret_crc = dlr_crc32c(crc, data + (at - from), to - at);
    return rc;
}

static int load_blocks(const struct dlr_slot *slot, const struct dlr_slot_info *info,
                       struct loading *l, struct dlr_err *err)
{
    for (uint32_t i = 0; i < info->nblocks; i++) {
        uint32_t crc, found;
        size_t size;
        void *data;
        int rc = dlr_slot_block(slot, i, &data, &size, &crc);

        if (rc < 0)
            return dlr_fail(err, -EBADMSG, "block %" PRIu32 " cannot be read: %s", i,
                            strerror(-rc));
        dlr_slot_pass(slot, i);
        rc = scatter(l, (uint64_t)i * DLR_SLOT_BLOCK, size, data, &found);
        if (rc < 0)
            return dlr_fail(err, rc, "cannot write block %" PRIu32 " to the device: %s",
                            i, strerror(-rc));
        if (found != crc)
            return dlr_fail(err, -EBADMSG,
                            "block %" PRIu32 " of %" PRIu32 " is corrupt", i,
                            info->nblocks);
    }
    return 0;
}

int dlr_load(const struct dlr_slot *slot, struct dlr_regions *rs,
             struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
             struct dlr_device *dev, struct dlr_err *err)
{
    DLR_AUTO_FREE struct target *list = calloc(rs->n + 1u, sizeof(*list));
    struct loading l = {rs, ops, dev, {list, 0, 0}, 0};
    struct dlr_slot_info info;
    const void *meta;
    size_t bytes;
    int rc;

    if (!list)
        return dlr_fail(err, -ENOMEM, "no memory");
    dlr_unmatched_done(unmatched);
    dlr_slot_meta(slot, &meta, &bytes);
    if (bytes == 0)
        return dlr_fail(err, -EBADMSG, "the snapshot's head is corrupt");
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err);
    if (rc < 0)
        return rc;
    rc = match(meta, bytes, info.share, rs, &l.t, unmatched, err);
    unmatched->differs = rc == -EBADMSG;
    if (rc == 0)
        rc = load_blocks(slot, &info, &l, err);
    return rc < 0 ? rc : l.t.parts;
}

static bool is_cut(const struct dlr_ckpt_region *r)
{
    return r->kind == DLR_CKPT_SHARD &&
           memcmp(r->global_shape, r->local_shape, r->ndim * sizeof(uint64_t)) != 0;
}

bool dlr_load_is_cut(const struct dlr_slot *slot, const struct dlr_regions *rs)
{
    struct dlr_slot_region there;
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;
    bool found = false;

    for (unsigned i = 0; i < rs->n && !found; i++)
        found = is_cut(&rs->list[i]);
    dlr_slot_meta(slot, &meta, &bytes);
    if (bytes == 0 || dlr_meta_walk_init(&walk, meta, bytes) < 0)
        return found;
    while (!found && dlr_meta_next(&walk, &there) > 0)
        found = is_cut(&there.region);
    return found;
}
