/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/slot/meta.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/base/crc32c.h"

/* Where the parts of a block begin; all of it in 64 bits, so that no sum wraps. */
struct parts {
    uint64_t entries, dims, names, crcs, end;
};

static struct parts parts_of(const struct dlr_meta_head *head)
{
    struct parts p;

    p.entries = sizeof(*head);
    p.dims = p.entries + (uint64_t)head->nregions * sizeof(struct dlr_meta_entry);
    p.names = p.dims + (uint64_t)head->ndims * sizeof(uint64_t);
    p.crcs = p.names + head->names_bytes;
    p.end = p.crcs + (uint64_t)head->nblocks * sizeof(uint32_t);
    return p;
}

uint64_t dlr_slot_key(const char *text)
{
    return XXH64(text, strlen(text), 0);
}

int dlr_region_bytes(const struct dlr_ckpt_region *region, uint64_t *ret_bytes,
                     struct dlr_err *err)
{
    uint64_t bytes = region->item_size;

    if ((unsigned)region->kind > DLR_CKPT_BLOB)
        return dlr_fail(err, -EINVAL, "unknown kind %d", (int)region->kind);
    if (region->item_size == 0)
        return dlr_fail(err, -EINVAL, "an item of 0 bytes");
    if (region->ndim > DLR_CKPT_DIMS_MAX)
        return dlr_fail(err, -EINVAL, "%u dimensions, at most %d", region->ndim,
                        DLR_CKPT_DIMS_MAX);
    for (unsigned d = 0; d < region->ndim; d++) {
        uint64_t n = region->local_shape[d], whole = region->global_shape[d];

        if (n > whole || region->offset[d] > whole - n)
            return dlr_fail(err, -EINVAL, "the box leaves the array in dimension %u",
                            d);
        if (n != 0 && bytes > DLR_SLOT_DATA_MAX / n)
            return dlr_fail(err, -ERANGE, "the box is larger than 2^46 bytes");
        bytes *= n;
    }
    *ret_bytes = bytes;
    return 0;
}

uint32_t dlr_region_align(const struct dlr_ckpt_region *region)
{
    uint32_t align = region->item_size & -region->item_size;

    if (region->kind == DLR_CKPT_BLOB)
        return 1;
    return align < DLR_SLOT_ALIGN ? align : DLR_SLOT_ALIGN;
}

int dlr_meta_walk_init(struct dlr_meta_walk *walk, const void *meta, size_t bytes)
{
    *walk = (struct dlr_meta_walk){.meta = meta};
    if (bytes < sizeof(walk->head))
        return -EBADMSG;
    memcpy(&walk->head, meta, sizeof(walk->head));
    return parts_of(&walk->head).end + sizeof(uint32_t) == bytes ? 0 : -EBADMSG;
}

/* The three rows of u64 of one region. */
static void load_shape(const unsigned char *from, struct dlr_ckpt_region *r)
{
    size_t row = r->ndim * sizeof(uint64_t);

    memcpy(r->global_shape, from, row);
    memcpy(r->offset, from + row, row);
    memcpy(r->local_shape, from + 2 * row, row);
}

/* Whether the entry's bytes are those of its box and follow the regions before it. */
static bool placed_well(const struct dlr_meta_walk *walk,
                        const struct dlr_ckpt_region *r,
                        const struct dlr_meta_entry *entry)
{
    uint64_t room = walk->head.data_bytes, bytes;

    if (dlr_region_bytes(r, &bytes, NULL) < 0 || bytes != entry->bytes)
        return false;
    if (entry->used > bytes || (entry->kind != DLR_CKPT_BLOB && entry->used != bytes))
        return false;
    return entry->off == walk->end && entry->off % dlr_region_align(r) == 0 &&
           entry->off <= room && bytes <= room - entry->off;
}

int dlr_meta_next(struct dlr_meta_walk *walk, struct dlr_slot_region *ret)
{
    const struct parts at = parts_of(&walk->head);
    const unsigned char *meta = walk->meta;
    struct dlr_ckpt_region *r = &ret->region;
    struct dlr_meta_entry entry;

    if (walk->index == walk->head.nregions)
        return 0;
    memcpy(&entry, meta + at.entries + walk->index * sizeof(entry), sizeof(entry));
    if (entry.ndim > DLR_CKPT_DIMS_MAX ||
        walk->head.ndims - walk->dim < 3u * entry.ndim ||
        walk->head.names_bytes - walk->name <= entry.name_bytes)
        return -EBADMSG;
    *r = (struct dlr_ckpt_region){.kind = entry.kind,
                                  .item_size = entry.item_size,
                                  .ndim = entry.ndim,
                                  .name = (const char *)meta + at.names + walk->name,
                                  .dtype = ret->dtype};
    load_shape(meta + at.dims + walk->dim * sizeof(uint64_t), r);
    memcpy(ret->dtype, entry.dtype, sizeof(ret->dtype));
    if (ret->dtype[DLR_CKPT_DTYPE_MAX] != '\0' || entry.name_bytes == 0 ||
        entry.name_bytes > DLR_CKPT_NAME_MAX ||
        strnlen(r->name, entry.name_bytes + 1u) != entry.name_bytes)
        return -EBADMSG;
    if (!placed_well(walk, r, &entry))
        return -EBADMSG;
    ret->off = entry.off;
    ret->bytes = entry.bytes;
    ret->used = entry.used;
    walk->index++;
    walk->dim += 3u * entry.ndim;
    walk->name += entry.name_bytes + 1u;
    walk->end = entry.off + entry.bytes;
    return 1;
}

/* The head alone: its CRC, and that its numbers fit each other and slot_bytes. */
static int check_head(const struct dlr_meta_head *head, uint64_t slot_bytes,
                      struct dlr_err *err)
{
    uint64_t blocks, meta_end;

    if (head->magic != DLR_META_MAGIC)
        return dlr_fail(err, -EBADMSG, "not a snapshot: magic is %08" PRIx32,
                        head->magic);
    if (head->version != DLR_META_VERSION || head->head_bytes != sizeof(*head))
        return dlr_fail(err, -EBADMSG, "unknown format version %u", head->version);
    if (head->crc != dlr_crc32c(0, head, offsetof(struct dlr_meta_head, crc)))
        return dlr_fail(err, -EBADMSG, "the head's checksum is wrong");
    if (head->nregions > DLR_META_REGIONS_MAX ||
        head->meta_bytes > DLR_META_BYTES_MAX || head->data_bytes > DLR_SLOT_DATA_MAX)
        return dlr_fail(err, -EBADMSG, "the head's counts are beyond any limit");
    if (parts_of(head).end + sizeof(uint32_t) != head->meta_bytes)
        return dlr_fail(err, -EBADMSG,
                        "the meta block's parts do not add up to %" PRIu32,
                        head->meta_bytes);
    blocks = (head->data_bytes + DLR_SLOT_BLOCK - 1) / DLR_SLOT_BLOCK;
    if (head->nblocks != blocks)
        return dlr_fail(err, -EBADMSG, "%" PRIu32 " blocks, not %" PRIu64,
                        head->nblocks, blocks);
    meta_end = (uint64_t)DLR_SLOT_PAGE + head->meta_bytes;
    if (head->data_off != dlr_align_up(meta_end, DLR_SLOT_PAGE))
        return dlr_fail(err, -EBADMSG, "the data begins in a wrong place");
    if (head->data_off > slot_bytes || head->data_bytes > slot_bytes - head->data_off)
        return dlr_fail(err, -EBADMSG,
                        "%" PRIu64 " bytes do not fit a slot of %" PRIu64,
                        head->data_off + head->data_bytes, slot_bytes);
    if (head->rank < 0 || head->world == 0 ||
        (uint32_t)head->rank / DLR_SLOT_OWNERS >= head->world)
        return dlr_fail(err, -EBADMSG, "rank %" PRId32 " of %" PRIu32, head->rank,
                        head->world);
    return 0;
}

static int check_regions(const void *meta, size_t bytes, struct dlr_err *err)
{
    struct dlr_slot_region region;
    struct dlr_meta_walk walk;
    int rc = dlr_meta_walk_init(&walk, meta, bytes);

    if (rc < 0)
        return dlr_fail(err, rc, "the meta block changed while it was read");
    do
        rc = dlr_meta_next(&walk, &region);
    while (rc > 0);
    if (rc < 0)
        return dlr_fail(err, rc, "region %" PRIu32 " is malformed", walk.index);
    if (walk.dim != walk.head.ndims ||
        dlr_align_up(walk.name, 8) != walk.head.names_bytes ||
        walk.end != walk.head.data_bytes)
        return dlr_fail(err, -EBADMSG, "the region table does not add up");
    return 0;
}

static void fill_info(const struct dlr_meta_head *head, struct dlr_slot_info *ret)
{
    *ret = (struct dlr_slot_info){
        .version = {head->round, head->step},
        .rank = head->rank,
        .world = head->world,
        .key = head->key,
        .layout = head->layout,
        .data_bytes = head->data_bytes,
        .nregions = head->nregions,
        .nblocks = head->nblocks,
        .share = {head->seat, head->seats},
    };
}

int dlr_slot_check_meta(const void *meta, size_t bytes, uint64_t slot_bytes,
                        struct dlr_slot_info *ret_info, struct dlr_err *err)
{
    struct dlr_meta_head head;
    uint32_t crc;
    int rc;

    if (bytes < sizeof(head))
        return dlr_fail(err, -EBADMSG, "a meta block of %zu bytes", bytes);
    memcpy(&head, meta, sizeof(head));
    rc = check_head(&head, slot_bytes, err);
    if (rc < 0)
        return rc;
    if (head.meta_bytes != bytes)
        return dlr_fail(err, -EBADMSG, "a meta block of %zu bytes that says %" PRIu32,
                        bytes, head.meta_bytes);
    memcpy(&crc, (const char *)meta + bytes - sizeof(crc), sizeof(crc));
    if (crc != dlr_crc32c(0, meta, bytes - sizeof(crc)))
        return dlr_fail(err, -EBADMSG, "the meta block's checksum is wrong");
    rc = check_regions(meta, bytes, err);
    if (rc < 0)
        return rc;
    if (ret_info)
        fill_info(&head, ret_info);
    return 0;
}

/* The head as it is at this moment; another process may write it at any time, so every
 * use works on such a copy.
 */
static int load_head(const struct dlr_slot *slot, struct dlr_meta_head *ret,
                     struct dlr_err *err)
{
    memcpy(ret, (char *)dlr_slot_base(slot) + DLR_SLOT_PAGE, sizeof(*ret));
    return check_head(ret, dlr_slot_bytes(slot), err);
}

int dlr_slot_info(const struct dlr_slot *slot, struct dlr_slot_info *ret)
{
    struct dlr_meta_head head;
    int rc = load_head(slot, &head, NULL);

    if (rc == 0)
        fill_info(&head, ret);
    return rc;
}

bool dlr_slot_damaged(const struct dlr_slot *slot)
{
    enum dlr_slot_state state = dlr_slot_state(slot);
    struct dlr_slot_info info;

    return (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
           dlr_slot_info(slot, &info) < 0;
}

void dlr_slot_meta(const struct dlr_slot *slot, const void **ret_meta,
                   size_t *ret_bytes)
{
    struct dlr_meta_head head;

    *ret_meta = (char *)dlr_slot_base(slot) + DLR_SLOT_PAGE;
    *ret_bytes = load_head(slot, &head, NULL) < 0 ? 0 : head.meta_bytes;
}

int dlr_slot_block(const struct dlr_slot *slot, uint32_t i, void **ret_data,
                   size_t *ret_bytes, uint32_t *ret_crc)
{
    char *base = dlr_slot_base(slot);
    struct dlr_meta_head head;
    uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK, left;
    int rc = load_head(slot, &head, NULL);

    if (rc < 0)
        return rc;
    if (i >= head.nblocks)
        return -ERANGE;
    left = head.data_bytes - from;
    *ret_data = base + head.data_off + from;
    *ret_bytes = left < DLR_SLOT_BLOCK ? left : DLR_SLOT_BLOCK;
    memcpy(ret_crc, base + DLR_SLOT_PAGE + parts_of(&head).crcs + i * sizeof(uint32_t),
           sizeof(*ret_crc));
    return dlr_slot_fetch(slot, i, *ret_data, *ret_bytes);
}

int dlr_slot_put_meta(struct dlr_slot *slot, const void *meta, size_t bytes,
                      struct dlr_err *err)
{
    int rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), NULL, err);

    if (rc < 0)
        return rc;
    dlr_slot_set_state(slot, DLR_SLOT_OPEN);
    memcpy((char *)dlr_slot_base(slot) + DLR_SLOT_PAGE, meta, bytes);
    return 0;
}

int dlr_slot_verify(const struct dlr_slot *slot, struct dlr_err *err)
{
    return dlr_slot_verify_alive(slot, NULL, err);
}

int dlr_slot_verify_alive(const struct dlr_slot *slot, const struct dlr_alive *alive,
                          struct dlr_err *err)
{
    struct dlr_slot_info info;
    const void *meta;
    size_t bytes;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    if (bytes == 0) {
        struct dlr_meta_head head;

        rc = load_head(slot, &head, err);
        return rc < 0 ? rc
                      : dlr_fail(err, -EBADMSG, "the head changed while it was read");
    }
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err);
    for (uint32_t i = 0; rc == 0 && i < info.nblocks; i++) {
        size_t size;
        uint32_t crc;
        void *data;

        rc = dlr_slot_block(slot, i, &data, &size, &crc);
        if (rc < 0)
            return dlr_fail(err, -EBADMSG, "block %" PRIu32 " cannot be read: %s", i,
                            strerror(-rc));
        dlr_slot_pass(slot, i);
        if (alive)
            alive->f(alive->arg);
        if (dlr_crc32c(0, data, size) != crc)
            return dlr_fail(err, -EBADMSG,
                            "block %" PRIu32 " of %" PRIu32 " is corrupt", i,
                            info.nblocks);
    }
    return rc;
}

void dlr_slot_rekey(void *meta, size_t bytes, uint64_t key, const char *program)
{
    struct dlr_meta_head head;
    uint32_t crc;

    memcpy(&head, meta, sizeof(head));
    head.key = key;
    if (program)
        strncpy(head.program, program, sizeof(head.program) - 1);
    head.crc = dlr_crc32c(0, &head, offsetof(struct dlr_meta_head, crc));
    memcpy(meta, &head, sizeof(head));
    crc = dlr_crc32c(0, meta, bytes - sizeof(crc));
    memcpy((char *)meta + bytes - sizeof(crc), &crc, sizeof(crc));
}
