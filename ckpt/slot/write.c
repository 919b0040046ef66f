/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/slot/write.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"

struct place {
    uint64_t off, bytes;
    uint64_t at;     /* where they begin in the region */
    unsigned region; /* of the program's list */
};

struct dlr_slot_plan {
    struct dlr_meta_head head;
    unsigned char *tables; /* entries, dims, names: the block between head and CRCs */
    size_t tables_bytes;
    struct place *places; /* one per region, ascending, as the entries are */
    uint64_t shared;
};

/* Sums up what n regions need of a rank with head's share. */
static int count(const struct dlr_ckpt_region *regions, unsigned n,
                 struct dlr_meta_head *head, struct dlr_err *err)
{
    const struct dlr_share share = {head->seat, head->seats};
    uint64_t data = 0, names = 0, dims = 0, meta;

    if (n > DLR_META_REGIONS_MAX)
        return dlr_fail(err, -ERANGE, "%u regions, at most %u", n,
                        DLR_META_REGIONS_MAX);
    for (unsigned i = 0; i < n; i++) {
        struct dlr_ckpt_region part;
        struct dlr_err why;
        uint64_t bytes, at;
        int rc = dlr_region_bytes(&regions[i], &bytes, &why);

        if (rc < 0)
            return dlr_fail(err, rc, "region '%s': %s", regions[i].name, why.text);
        if (dlr_share_cut(&regions[i], share, &part, &at))
            dlr_region_bytes(&part, &bytes, NULL);
        data += bytes;
        if (data > DLR_SLOT_DATA_MAX - DLR_SLOT_BLOCK)
            return dlr_fail(err, -ERANGE, "the regions are larger than 2^46 bytes");
        names += strlen(regions[i].name) + 1;
        dims += 3u * regions[i].ndim;
    }
    names = dlr_align_up(names, 8);
    head->data_bytes = data;
    head->nregions = n;
    head->ndims = (uint32_t)dims;
    head->names_bytes = (uint32_t)names;
    head->nblocks = (uint32_t)((data + DLR_SLOT_BLOCK - 1) / DLR_SLOT_BLOCK);
    meta = sizeof(*head) + n * sizeof(struct dlr_meta_entry) + dims * sizeof(uint64_t) +
           names + ((uint64_t)head->nblocks + 1) * sizeof(uint32_t);
    if (meta > DLR_META_BYTES_MAX)
        return dlr_fail(err, -ERANGE, "the region table needs %" PRIu64 " bytes", meta);
    head->meta_bytes = (uint32_t)meta;
    head->data_off = dlr_align_up(DLR_SLOT_PAGE + meta, DLR_SLOT_PAGE);
    return 0;
}

uint64_t dlr_slot_size(const struct dlr_ckpt_region *regions, unsigned n)
{
    struct dlr_meta_head head = {0};

    if (count(regions, n, &head, NULL) < 0)
        return 0;
    return head.data_off + dlr_align_up(head.data_bytes, DLR_SLOT_PAGE);
}

/* The regions of each alignment in turn, largest first, in the order they were named.
 */
static void put_in_order(struct place *places, const struct dlr_ckpt_region *regions,
                         unsigned n)
{
    unsigned at = 0;

    for (uint32_t align = DLR_SLOT_ALIGN; align > 0; align /= 2)
        for (unsigned i = 0; i < n; i++)
            if (dlr_region_align(&regions[i]) == align)
                places[at++].region = i;
}

static uint64_t hash_shared(const struct dlr_ckpt_region *r)
{
    uint64_t hash = XXH64(r->name, strlen(r->name), r->item_size);

    hash = XXH64(r->dtype, strlen(r->dtype), hash);
    return XXH64(r->global_shape, r->ndim * sizeof(r->global_shape[0]), hash);
}

static void write_tables(struct dlr_slot_plan *plan,
                         const struct dlr_ckpt_region *regions)
{
    const struct dlr_share share = {plan->head.seat, plan->head.seats};
    struct dlr_meta_entry *entry = (struct dlr_meta_entry *)plan->tables;
    uint64_t *dim = (uint64_t *)(entry + plan->head.nregions);
    char *name = (char *)(dim + plan->head.ndims);
    uint64_t off = 0;

    for (unsigned i = 0; i < plan->head.nregions; i++, entry++) {
        struct place *p = &plan->places[i];
        struct dlr_ckpt_region part, *r = &part;
        size_t row = regions[p->region].ndim * sizeof(*dim);

        if (dlr_share_cut(&regions[p->region], share, &part, &p->at))
            plan->shared += hash_shared(r);
        dlr_region_bytes(r, &entry->bytes, NULL);
        entry->used = entry->bytes;
        entry->off = off;
        entry->kind = (uint8_t)r->kind;
        entry->ndim = (uint8_t)r->ndim;
        entry->item_size = r->item_size;
        entry->name_bytes = (uint16_t)strlen(r->name);
        memcpy(entry->dtype, r->dtype, strnlen(r->dtype, DLR_CKPT_DTYPE_MAX));
        memcpy(dim, r->global_shape, row);
        memcpy(dim + r->ndim, r->offset, row);
        memcpy(dim + 2 * r->ndim, r->local_shape, row);
        dim += 3 * r->ndim;
        memcpy(name, r->name, entry->name_bytes);
        name += entry->name_bytes + 1;
        p->off = off;
        p->bytes = entry->bytes;
        off += entry->bytes;
    }
}

int dlr_slot_plan_new(const struct dlr_ckpt_region *regions, unsigned n,
                      const struct dlr_slot_owner *owner,
                      struct dlr_slot_plan **ret_plan, struct dlr_err *err)
{
    struct dlr_meta_head head = {.magic = DLR_META_MAGIC,
                                 .version = DLR_META_VERSION,
                                 .head_bytes = sizeof(head),
                                 .rank = owner->rank,
                                 .world = owner->world,
                                 .key = owner->key,
                                 .seat = owner->share.seat,
                                 .seats = owner->share.seats};
    struct dlr_slot_plan *plan;
    int rc = count(regions, n, &head, err);

    if (rc < 0)
        return rc;
    plan = calloc(1, sizeof(*plan));
    if (!plan)
        return dlr_fail(err, -ENOMEM, "no memory");
    plan->head = head;
    plan->tables_bytes =
        head.meta_bytes - sizeof(head) - (head.nblocks + (size_t)1) * sizeof(uint32_t);
    plan->tables = calloc(1, plan->tables_bytes + 1);
    plan->places = calloc(n + (size_t)1, sizeof(*plan->places));
    if (!plan->tables || !plan->places) {
        dlr_slot_plan_free(plan);
        return dlr_fail(err, -ENOMEM, "no memory for a table of %u regions", n);
    }
    put_in_order(plan->places, regions, n);
    write_tables(plan, regions);
    plan->head.layout = XXH64(plan->tables, plan->tables_bytes, 0);
    *ret_plan = plan;
    return 0;
}

struct dlr_slot_plan *dlr_slot_plan_free(struct dlr_slot_plan *plan)
{
    if (plan) {
        free(plan->tables);
        free(plan->places);
        free(plan);
    }
    return NULL;
}

uint64_t dlr_slot_plan_bytes(const struct dlr_slot_plan *plan)
{
    return plan->head.data_off + dlr_align_up(plan->head.data_bytes, DLR_SLOT_PAGE);
}

uint64_t dlr_slot_plan_data(const struct dlr_slot_plan *plan)
{
    return plan->head.data_bytes;
}

uint32_t dlr_slot_plan_blocks(const struct dlr_slot_plan *plan)
{
    return plan->head.nblocks;
}

uint64_t dlr_slot_plan_shared(const struct dlr_slot_plan *plan)
{
    return plan->shared;
}

bool dlr_slot_plan_piece(const struct dlr_slot_plan *plan, uint64_t from, uint64_t to,
                         struct dlr_slot_piece *ret)
{
    unsigned low = 0, high = plan->head.nregions;

    if (from >= to)
        return false;
    while (low < high) { /* the first region that ends after from */
        unsigned mid = low + (high - low) / 2;

        if (plan->places[mid].off + plan->places[mid].bytes > from)
            high = mid;
        else
            low = mid + 1;
    }
    for (; low < plan->head.nregions; low++) {
        const struct place *p = &plan->places[low];
        uint64_t end = p->off + p->bytes;

        if (p->off >= to)
            return false;
        if (p->bytes == 0)
            continue;
        ret->region = p->region;
        ret->off = p->off > from ? p->off : from;
        ret->at = p->at + ret->off - p->off;
        ret->bytes = (end < to ? end : to) - ret->off;
        return true;
    }
    return false;
}

static unsigned char *meta_of(struct dlr_slot *slot)
{
    return (unsigned char *)dlr_slot_base(slot) + DLR_SLOT_PAGE;
}

int dlr_slot_begin(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                   struct dlr_version version, const uint64_t *used)
{
    struct dlr_meta_head head = plan->head;
    struct dlr_meta_entry *entry;

    if (dlr_slot_bytes(slot) < dlr_slot_plan_bytes(plan))
        return -ENOSPC;
    dlr_slot_set_state(slot, DLR_SLOT_OPEN);
    head.round = version.round;
    head.step = version.step;
    memcpy(meta_of(slot), &head, sizeof(head));
    entry = (struct dlr_meta_entry *)(meta_of(slot) + sizeof(head));
    memcpy(entry, plan->tables, plan->tables_bytes);
    for (unsigned i = 0; used && i < head.nregions; i++)
        if (entry[i].kind == DLR_CKPT_BLOB)
            entry[i].used = used[plan->places[i].region];
    return 0;
}

void *dlr_slot_data(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                    uint64_t off)
{
    return (char *)dlr_slot_base(slot) + plan->head.data_off + off;
}

void dlr_slot_set_crc(struct dlr_slot *slot, const struct dlr_slot_plan *plan,
                      uint32_t i, uint32_t crc)
{
    unsigned char *crcs = meta_of(slot) + sizeof(plan->head) + plan->tables_bytes;

    memcpy(crcs + i * sizeof(crc), &crc, sizeof(crc));
}

void dlr_slot_seal(struct dlr_slot *slot, const struct dlr_slot_plan *plan)
{
    unsigned char *meta = meta_of(slot);
    size_t body = plan->head.meta_bytes - sizeof(uint32_t);
    struct dlr_meta_head head;
    uint32_t crc;

    memcpy(&head, meta, sizeof(head));
    head.wall_ns = (uint64_t)dlr_wall_ns();
    head.crc = dlr_crc32c(0, &head, offsetof(struct dlr_meta_head, crc));
    memcpy(meta, &head, sizeof(head));
    crc = dlr_crc32c(0, meta, body);
    memcpy(meta + body, &crc, sizeof(crc));
    dlr_slot_set_state(slot, DLR_SLOT_SEALED);
}
