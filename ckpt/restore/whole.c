/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/restore/whole.h"

#include <errno.h>
#include <stdlib.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/restore/load.h"
#include "ckpt/restore/reshape.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"
#include "common/base/cleanup.h"

struct whole {
    struct dlr_slot_info info;
    struct dlr_slot_region *saved; /* [info.nregions] */
    struct dlr_ckpt_region *list;  /* the same, whole */
    uint64_t *used;
    unsigned parts;
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    struct dlr_regions regions; /* whose memory is slot */
};

static void done(struct whole *w)
{
    free(w->saved);
    free(w->list);
    free(w->used);
    dlr_slot_plan_free(w->plan);
    dlr_slot_unmap(w->slot);
    dlr_regions_done(&w->regions);
}

static int read_table(struct whole *w, const struct dlr_slot *slot, struct dlr_err *err)
{
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    rc = bytes ? dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &w->info, err)
               : dlr_fail(err, -EBADMSG, "the snapshot's head is corrupt");
    if (rc < 0)
        return rc;
    w->saved = calloc(w->info.nregions + 1u, sizeof(*w->saved));
    w->list = calloc(w->info.nregions + 1u, sizeof(*w->list));
    w->used = calloc(w->info.nregions + 1u, sizeof(*w->used));
    if (!w->saved || !w->list || !w->used)
        return dlr_fail(err, -ENOMEM, "no memory for %u regions", w->info.nregions);
    if (dlr_meta_walk_init(&walk, meta, bytes) < 0)
        return dlr_fail(err, -EBADMSG, "the meta block changed while it was read");
    for (uint32_t i = 0; i < w->info.nregions; i++) {
        if (dlr_meta_next(&walk, &w->saved[i]) <= 0)
            return dlr_fail(err, -EBADMSG, "region %u is malformed", i);
        w->used[i] = w->saved[i].used;
        if (dlr_share_is_part(&w->saved[i].region, w->info.share, &w->list[i]))
            w->parts++;
        else
            w->list[i] = w->saved[i].region;
    }
    return 0;
}

/* A slot with room for all of it, and its places as the regions of a program. */
static int make_room(struct whole *w, struct dlr_err *err)
{
    const struct dlr_slot_owner owner = {w->info.key, w->info.rank, w->info.world, {0}};
    unsigned n = w->info.nregions;
    struct dlr_slot_piece p;
    int rc = dlr_slot_plan_new(w->list, n, &owner, &w->plan, err);

    if (rc == 0)
        rc = dlr_slot_anonymous(dlr_slot_plan_bytes(w->plan), &w->slot, err);
    if (rc < 0)
        return rc;
    dlr_slot_begin(w->slot, w->plan, w->info.version, w->used);
    for (uint64_t at = 0, end = dlr_slot_plan_data(w->plan);
         dlr_slot_plan_piece(w->plan, at, end, &p); at = p.off + p.bytes)
        w->list[p.region].addr = dlr_slot_data(w->slot, w->plan, p.off);
    for (unsigned i = 0; rc == 0 && i < n; i++)
        rc = dlr_regions_add(&w->regions, &w->list[i], err);
    return rc;
}

static void seal(const struct whole *w)
{
    uint64_t all = dlr_slot_plan_data(w->plan);

    for (uint64_t at = 0; at < all; at += DLR_SLOT_BLOCK) {
        uint64_t n = all - at < DLR_SLOT_BLOCK ? all - at : DLR_SLOT_BLOCK;

        dlr_slot_set_crc(w->slot, w->plan, (uint32_t)(at / DLR_SLOT_BLOCK),
                         dlr_crc32c(0, dlr_slot_data(w->slot, w->plan, at), n));
    }
    dlr_slot_seal(w->slot, w->plan);
}

int dlr_slot_whole(const struct dlr_slot *slot, dlr_slot_open_fn open, void *arg,
                   struct dlr_slot **ret, struct dlr_err *err)
{
    DLR_CLEANUP(done) struct whole w = {0};
    struct dlr_sources from = {.open = open, .arg = arg};
    struct dlr_unmatched none = {0};
    int rc = read_table(&w, slot, err);

    if (rc < 0 || w.parts == 0)
        return rc;
    from.world = w.info.world;
    rc = make_room(&w, err);
    if (rc == 0)
        rc = dlr_load(slot, &w.regions, &none, NULL, NULL, err);
    if (rc > 0)
        rc = dlr_join(&from, w.info.rank, &w.regions, &none, NULL, NULL, err);
    dlr_unmatched_done(&none);
    if (rc < 0)
        return rc;
    seal(&w);
    *ret = DLR_STEAL(w.slot);
    return 1;
}
