/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls about names that do not match, what ranks of a version had, and bad
 * versions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/client/client.h"
#include "ckpt/client/fork.h"
#include "ckpt/restore/reshape.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

int dlr_ckpt_allow(struct dlr_ckpt *ck, unsigned what)
{
    if (what & ~(unsigned)(DLR_CKPT_LEFTOVER | DLR_CKPT_MISSING))
        return dlr_fail(&ck->err, -EINVAL, "allow takes LEFTOVER and MISSING, not %u",
                        what);
    if (ck->started)
        return dlr_fail(&ck->err, -EBUSY,
                        "allow comes before restore and the first begin");
    ck->unmatched.allowed = what;
    return 0;
}

int dlr_ckpt_unmatched(const struct dlr_ckpt *ck, enum dlr_ckpt_unmatched what,
                       const char **ret_names, unsigned max)
{
    const struct dlr_names *names = what == DLR_CKPT_LEFTOVER  ? &ck->unmatched.left
                                    : what == DLR_CKPT_MISSING ? &ck->unmatched.missing
                                                               : NULL;

    if (!names)
        return -EINVAL;
    for (unsigned i = 0; i < names->n && i < max; i++)
        ret_names[i] = names->list[i];
    return (int)names->n;
}

/* The regions of a slot in turn, a part of one as the whole. */
struct walk {
    struct dlr_meta_walk meta;
    struct dlr_share share;
};

/* Of a block that lies in the slot, or a copy of it. */
static int walk_init(struct walk *w, const struct dlr_slot *slot, const void *meta,
                     size_t bytes, struct dlr_err *err)
{
    struct dlr_slot_info info = {0};
    int rc = bytes ? dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err)
                   : dlr_fail(err, -EBADMSG, "the snapshot's head is corrupt");

    if (rc < 0)
        return rc;
    w->share = info.share;
    rc = dlr_meta_walk_init(&w->meta, meta, bytes);
    return rc < 0 ? dlr_fail(err, rc, "the snapshot's head is corrupt") : 0;
}

/* 1 with *ret filled (name and dtype point into the block and into *ret), 0 at the end.
 * *ret_part: the slot has a part of it, and *ret describes the whole.
 */
static int walk_next(struct walk *w, struct dlr_slot_region *ret, bool *ret_part,
                     struct dlr_err *err)
{
    struct dlr_ckpt_region whole;
    int rc = dlr_meta_next(&w->meta, ret);

    if (rc < 0)
        return dlr_fail(err, rc, "region %u of the snapshot is malformed",
                        w->meta.index);
    *ret_part = rc > 0 && dlr_share_is_part(&ret->region, w->share, &whole);
    if (!*ret_part)
        return rc;
    ret->region = whole;
    rc = dlr_region_bytes(&whole, &ret->used, err);
    return rc < 0 ? rc : 1;
}

static int find(const struct dlr_slot *slot, const char *name,
                struct dlr_slot_region *ret, bool *ret_part, struct dlr_err *err)
{
    struct walk walk;
    const void *meta;
    size_t bytes;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    rc = walk_init(&walk, slot, meta, bytes, err);
    while (rc == 0 && (rc = walk_next(&walk, ret, ret_part, err)) > 0) {
        if (dlr_streq(ret->region.name, name))
            return 0;
        rc = 0;
    }
    return rc < 0 ? rc : dlr_fail(err, -ENOENT, "that rank had no region '%s'", name);
}

/* The blocks that region lies in, each checked, their part of it copied. */
static int read_region(const struct dlr_slot *slot, const struct dlr_slot_region *r,
                       char *buf, struct dlr_err *err)
{
    uint64_t end = r->off + r->used;
    size_t size;
    uint32_t crc;
    void *data;

    for (uint64_t at = r->off, next; at < end; at = next) {
        uint64_t i = at / DLR_SLOT_BLOCK, first = i * DLR_SLOT_BLOCK;

        if (dlr_slot_block(slot, (uint32_t)i, &data, &size, &crc) < 0 ||
            first + size <= at || dlr_crc32c(0, data, size) != crc)
            return dlr_fail(err, -EBADMSG, "block %u is corrupt", (unsigned)i);
        next = first + size < end ? first + size : end;
        memcpy(buf + (at - r->off), (char *)data + (at - first), next - at);
    }
    return 0;
}

static int open_source(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    int rc = ck->backend->peek(ck, rank, ret);

    if (rc < 0)
        *err = ck->err;
    return rc;
}

/* Of all the ranks that have a part of it. */
static int join_region(struct dlr_ckpt *ck, int rank, uint32_t world,
                       const struct dlr_slot_region *r, void *buf)
{
    const struct dlr_sources from = {.world = world, .open = open_source, .arg = ck};
    struct dlr_ckpt_region region = r->region;
    struct dlr_unmatched none = {0};
    struct dlr_regions one = {0};
    struct dlr_err err = {0};
    int rc;

    region.addr = buf;
    rc = dlr_regions_add(&one, &region, &err);
    if (rc == 0)
        rc = dlr_join(&from, rank, &one, &none, NULL, NULL, &err);
    dlr_regions_done(&one);
    if (rc < 0)
        ck->err = err;
    return rc;
}

/* Hands out what was found; its texts are kept in the handle. */
static void describe(struct dlr_ckpt *ck, const struct dlr_slot_region *found,
                     struct dlr_ckpt_region *ret)
{
    size_t n = strlen(found->region.name) + 1;

    memcpy(ck->peeked, found->region.name, n);
    dlr_format(ck->peeked + n, sizeof(ck->peeked) - n, "%s", found->dtype);
    *ret = found->region;
    ret->name = ck->peeked;
    ret->dtype = ck->peeked + n;
    ret->addr = NULL;
}

/* Maps the slot of a rank of the version that restore took or would take, which has
 * *ret_world.
 */
static int open_rank(struct dlr_ckpt *ck, const char *call, int rank,
                     uint32_t *ret_world, struct dlr_slot **ret)
{
    uint32_t world = ck->from_world;
    int rc = dlr_fork_check(ck);

    if (rc < 0)
        return rc;
    if (ck->last_step != DLR_PAGE_NEVER)
        return dlr_fail(&ck->err, -ENOENT,
                        "%s reads what restore loads, until the first begin", call);
    rc = world ? 1 : ck->backend->offer(ck, &world);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return dlr_fail(&ck->err, -ENOENT, "there is nothing to restore");
    if (rank < 0 || (uint32_t)rank >= world)
        return dlr_fail(&ck->err, -ENOENT, "the version has ranks 0 to %u, not %d",
                        world - 1, rank);
    *ret_world = world;
    return ck->backend->peek(ck, rank, ret);
}

int dlr_ckpt_peek(struct dlr_ckpt *ck, int rank, const char *name, void *buf,
                  uint64_t room, uint64_t *ret_bytes,
                  struct dlr_ckpt_region *ret_region)
{
    struct dlr_slot_region found;
    struct dlr_slot *slot;
    bool part = false;
    uint32_t world;
    int rc = open_rank(ck, "peek", rank, &world, &slot);

    if (rc < 0)
        return rc;
    rc = find(slot, name, &found, &part, &ck->err);
    if (rc == 0 && buf && room < found.used)
        rc = dlr_fail(&ck->err, -ERANGE, "region '%s' of rank %d has %llu bytes", name,
                      rank, (unsigned long long)found.used);
    else if (rc == 0 && buf)
        rc = part ? join_region(ck, rank, world, &found, buf)
                  : read_region(slot, &found, buf, &ck->err);
    if (rc == 0 || rc == -ERANGE)
        *ret_bytes = found.used;
    if (rc == 0 && ret_region)
        describe(ck, &found, ret_region);
    dlr_slot_unmap(slot);
    return rc;
}

/* The texts lie in a copy of the block, which nobody writes any more, and behind it. */
static int tell_regions(struct dlr_ckpt *ck, const struct dlr_slot *slot,
                        struct dlr_ckpt_region *ret, uint64_t *ret_bytes, unsigned max)
{
    struct dlr_slot_region found;
    struct walk walk;
    const void *meta;
    char *copy, *dtype;
    size_t bytes, most;
    unsigned i;
    bool part;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    most = bytes / sizeof(struct dlr_meta_entry); /* there cannot be more regions */
    most = max < most ? max : most;
    free(ck->told);
    ck->told = copy = malloc(bytes + most * sizeof(found.dtype) + 1);
    if (!copy)
        return dlr_fail(&ck->err, -ENOMEM, "no memory");
    memcpy(copy, meta, bytes);
    rc = walk_init(&walk, slot, copy, bytes, &ck->err);
    if (rc < 0)
        return rc;
    dtype = copy + bytes;
    for (i = 0; (rc = walk_next(&walk, &found, &part, &ck->err)) > 0; i++) {
        if (i >= max)
            continue;
        ret[i] = found.region;
        ret[i].dtype = memcpy(dtype, found.dtype, sizeof(found.dtype));
        dtype += sizeof(found.dtype);
        if (ret_bytes)
            ret_bytes[i] = found.used;
    }
    return rc < 0 ? rc : (int)i;
}

int dlr_ckpt_regions(struct dlr_ckpt *ck, int rank, struct dlr_ckpt_region *ret,
                     uint64_t *ret_bytes, unsigned max)
{
    struct dlr_slot *slot;
    uint32_t world;
    int rc = open_rank(ck, "regions", rank, &world, &slot);

    if (rc < 0)
        return rc;
    rc = tell_regions(ck, slot, ret, ret_bytes, max);
    dlr_slot_unmap(slot);
    return rc;
}

int dlr_ckpt_mark_bad(struct dlr_ckpt *ck, uint64_t step)
{
    int rc = dlr_fork_check(ck);

    if (rc < 0)
        return rc;
    if (ck->snapshot_thread &&
        dlr_snapshot_thread_busy(
            ck->snapshot_thread)) /* what is being saved now is meant too */
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE);
    return ck->backend->mark_bad(ck, step);
}
