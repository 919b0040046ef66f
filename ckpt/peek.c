/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls about names that do not match, other ranks' regions, and bad versions. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/client.h"
#include "ckpt/reshape.h"
#include "ckpt/slot_meta.h"
#include "common/cleanup.h"
#include "common/str.h"

int dlr_ckpt_allow(struct dlr_ckpt *ck, unsigned what)
{
    if (what & ~(unsigned)(DLR_CKPT_LEFTOVER | DLR_CKPT_MISSING))
        return dlr_fail(&ck->err, -EINVAL, "allow takes LEFTOVER and MISSING, not %u",
                        what);
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

/* 0 with *ret filled; name and dtype point into the slot and into *ret. *ret_part: the slot has a part
 * of it, and *ret describes the whole.
 */
static int find(const struct dlr_slot *slot, const char *name,
                struct dlr_slot_region *ret, bool *ret_part, struct dlr_err *err)
{
    struct dlr_ckpt_region whole;
    struct dlr_slot_info info;
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    rc = bytes ? dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err)
               : dlr_fail(err, -EBADMSG, "the snapshot's head is corrupt");
    if (rc == 0)
        rc = dlr_meta_walk_init(&walk, meta, bytes);
    while (rc == 0 && (rc = dlr_meta_next(&walk, ret)) > 0) {
        if (dlr_streq(ret->region.name, name)) {
            *ret_part = dlr_share_is_part(&ret->region, info.share, &whole);
            if (!*ret_part)
                return 0;
            ret->region = whole;
            return dlr_region_bytes(&whole, &ret->used, err);
        }
        rc = 0;
    }
    return rc < 0 ? rc : dlr_fail(err, -ENOENT, "that rank had no region '%s'", name);
}

/* The chunks that region lies in, each checked, their part of it copied. */
static int read_region(const struct dlr_slot *slot, const struct dlr_slot_region *r,
                       char *buf, struct dlr_err *err)
{
    uint64_t end = r->off + r->used;
    size_t size;
    uint32_t crc;
    void *data;

    for (uint64_t at = r->off, next; at < end; at = next) {
        uint64_t i = at / DLR_SLOT_CHUNK, first = i * DLR_SLOT_CHUNK;

        if (dlr_slot_chunk(slot, (uint32_t)i, &data, &size, &crc) < 0 ||
            first + size <= at || dlr_crc32c(0, data, size) != crc)
            return dlr_fail(err, -EBADMSG, "chunk %u is corrupt", (unsigned)i);
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
static int join_region(struct dlr_ckpt *ck, int rank, const struct dlr_slot_region *r,
                       void *buf)
{
    const struct dlr_sources from = {
        .world = ck->from_world, .open = open_source, .arg = ck};
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

int dlr_ckpt_peek(struct dlr_ckpt *ck, int rank, const char *name, void *buf,
                  uint64_t room, uint64_t *ret_bytes,
                  struct dlr_ckpt_region *ret_region)
{
    struct dlr_slot_region found;
    struct dlr_slot *slot;
    bool part = false;
    int rc;

    if (!ck->from_world || ck->last_step != DLR_PAGE_NEVER)
        return dlr_fail(&ck->err, -ENOENT,
                        "peek reads what restore loaded, until the first begin");
    if (rank < 0 || (uint32_t)rank >= ck->from_world)
        return dlr_fail(&ck->err, -ENOENT, "the version has ranks 0 to %u, not %d",
                        ck->from_world - 1, rank);
    rc = ck->backend->peek(ck, rank, &slot);
    if (rc < 0)
        return rc;
    rc = find(slot, name, &found, &part, &ck->err);
    if (rc == 0 && buf && room < found.used)
        rc = dlr_fail(&ck->err, -ERANGE, "region '%s' of rank %d has %llu bytes", name,
                      rank, (unsigned long long)found.used);
    else if (rc == 0 && buf)
        rc = part ? join_region(ck, rank, &found, buf)
                  : read_region(slot, &found, buf, &ck->err);
    if (rc == 0 || rc == -ERANGE)
        *ret_bytes = found.used;
    if (rc == 0 && ret_region)
        describe(ck, &found, ret_region);
    dlr_slot_unmap(slot);
    return rc;
}

int dlr_ckpt_mark_bad(struct dlr_ckpt *ck, uint64_t step)
{
    if (getpid() != ck->pid)
        return dlr_fail(&ck->err, -EPERM, "a forked child has no checkpoint");
    if (ck->saver &&
        dlr_saver_busy(ck->saver)) /* what is being saved now is meant too */
        dlr_saver_wait(ck->saver, ck->conf.fence_ms, true);
    return ck->backend->mark_bad(ck, step);
}
