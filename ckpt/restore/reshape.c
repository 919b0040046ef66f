/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/restore/reshape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/layout/box.h"
#include "ckpt/restore/load.h"
#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

/* What a region of ours still lacks. */
struct wanted {
    struct dlr_box *rest; /* [nrest], disjoint */
    unsigned nrest;
    bool found;    /* the name was in some slot; dlr_join(): a part of it in our own */
    bool whole;    /* nothing is wanted any more */
    bool compared; /* with a second rank that has the same */
};

struct reshape {
    const struct dlr_sources *from;
    int rank;
    bool join; /* only what our own slot has a part of */
    struct dlr_regions *rs;
    struct wanted *want;
    struct dlr_unmatched *unmatched;
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    struct dlr_err *err;

    /* the slot looked at */
    int source;
    unsigned seen; /* slots before it */
    bool corrupt;  /* it, and not the program, is why nothing can be loaded */
    const struct dlr_slot *slot;
    const char *data;
    struct dlr_slot_info info;
    unsigned char *vouched; /* per block: its CRC was right */
    uint32_t passed;        /* of a file: blocks before it were let go */
};

/* --- bytes ------------------------------------------------------------------------ */

/* Of a file: what is before block i takes no memory any more. Who goes back reads and
 * checks anew.
 */
static void let_go(struct reshape *x, uint32_t i)
{
    if (!dlr_slot_is_read(x->slot) || i == x->passed)
        return;
    dlr_slot_pass(x->slot, i);
    if (i > x->passed)
        memset(x->vouched + x->passed, 0, i - x->passed);
    x->passed = i;
}

/* Every block that data [off, off + bytes) touches is as its CRC says. */
static int vouch(struct reshape *x, uint64_t off, uint64_t bytes)
{
    uint64_t last = (off + bytes - 1) / DLR_SLOT_BLOCK;

    for (uint64_t i = off / DLR_SLOT_BLOCK; i <= last; i++) {
        size_t size;
        uint32_t crc;
        void *data;

        if (i >= x->info.nblocks ||
            (!x->vouched[i] &&
             (dlr_slot_block(x->slot, (uint32_t)i, &data, &size, &crc) < 0 ||
              dlr_crc32c(0, data, size) != crc))) {
            x->corrupt = true;
            return dlr_fail(x->err, -EBADMSG,
                            "rank %d: block %" PRIu64 " of %" PRIu32 " is corrupt",
                            x->source, i, x->info.nblocks);
        }
        x->vouched[i] = 1;
        let_go(x, (uint32_t)i);
    }
    return 0;
}

struct move {
    struct reshape *x;
    const char *src;  /* the source region's first byte */
    uint64_t src_off; /* its place in the data */
    unsigned region;  /* of ours */
    uint32_t item;
    bool compare; /* instead of copying */
};

static bool is_same(const struct dlr_regions *rs, unsigned i, uint64_t at,
                    const char *src, uint64_t bytes)
{
    const char *addr = rs->list[i].addr;
    char packed[4096];

    if (!rs->views[i])
        return memcmp(addr + at, src, bytes) == 0;
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < sizeof(packed) ? bytes - done : sizeof(packed);
        dlr_strides_gather(rs->views[i], addr, at + done, packed, n);
        if (memcmp(packed, src + done, n) != 0)
            return false;
    }
    return true;
}

/* Bytes from 'from' of the source region on, all of one block, so that its sum warms
 * the cache.
 */
static int move_some(const struct move *m, uint64_t from, uint64_t to, uint64_t bytes)
{
    int rc = vouch(m->x, m->src_off + from, bytes);

    if (rc < 0)
        return rc;
    if (m->compare)
        return is_same(m->x->rs, m->region, to, m->src + from, bytes) ? 0 : -EUCLEAN;
    rc = dlr_load_put(m->x->rs, m->region, to, m->src + from, bytes, m->x->ops,
                      m->x->dev);
    return rc < 0 ? dlr_fail(m->x->err, rc, "cannot write to the device: %s",
                             strerror(-rc))
                  : 0;
}

static int run(void *arg, uint64_t from, uint64_t to, uint64_t items)
{
    const struct move *m = arg;
    uint64_t bytes = items * m->item, n;
    int rc = 0;

    from *= m->item;
    to *= m->item;
    for (; rc == 0 && bytes > 0; from += n, to += n, bytes -= n) {
        n = DLR_SLOT_BLOCK - (m->src_off + from) % DLR_SLOT_BLOCK;
        n = n < bytes ? n : bytes;
        rc = move_some(m, from, to, n);
    }
    return rc;
}

static struct move mover(struct reshape *x, const struct dlr_slot_region *there,
                         unsigned i)
{
    return (struct move){.x = x,
                         .src = x->data + there->off,
                         .src_off = there->off,
                         .region = i,
                         .item = there->region.item_size};
}

/* --- regions ---------------------------------------------------------------------- */

static int take_whole(struct reshape *x, const struct dlr_slot_region *there,
                      unsigned i)
{
    struct move m = mover(x, there, i);
    int rc = dlr_load_same_box(there, &x->rs->list[i], x->rs->bytes[i], x->err);

    m.item = 1;
    if (rc == 0)
        rc = run(&m, 0, 0, there->used);
    if (rc < 0)
        return rc;
    x->rs->used[i] = there->used;
    x->want[i].whole = true;
    return 0;
}

/* Copies what the source has of one box that is wanted; adds what is left to rest. */
static int take_part(struct move *m, const struct dlr_box *there,
                     const struct dlr_box *here, const struct dlr_box *want,
                     struct dlr_box *rest, unsigned *nrest)
{
    struct dlr_box part;
    int rc;

    if (!dlr_box_cut(want, there, &part)) {
        rest[(*nrest)++] = *want;
        return 0;
    }
    rc = dlr_box_runs(&part, there, here, run, m);
    *nrest += dlr_box_minus(want, &part, rest + *nrest);
    return rc;
}

/* Two ranks that name the same items must have the same in them, or one of them is
 * lost.
 */
static int compare(struct move *m, const struct dlr_box *there,
                   const struct dlr_box *here, unsigned i)
{
    struct reshape *x = m->x;
    struct dlr_box part;
    int rc;

    if (x->want[i].compared || !dlr_box_cut(here, there, &part) ||
        (x->ops && x->ops->owns(x->rs->list[i].addr)))
        return 0;
    x->want[i].compared = true;
    m->compare = true;
    rc = dlr_box_runs(&part, there, here, run, m);
    if (rc == -EUCLEAN)
        return dlr_fail(x->err, -EBADMSG,
                        "region '%s' was the same box on several ranks, with other "
                        "contents on rank %d: only the same number of ranks can load "
                        "it (or name it LOCAL)",
                        x->rs->list[i].name, x->source);
    return rc;
}

static int take_boxes(struct reshape *x, const struct dlr_slot_region *there,
                      unsigned i)
{
    const struct dlr_ckpt_region *r = &there->region, *mine = &x->rs->list[i];
    struct wanted *w = &x->want[i];
    struct dlr_box theirs = dlr_box_of(r), ours = dlr_box_of(mine), *rest;
    struct move m = mover(x, there, i);
    bool before = w->nrest == 0 || !dlr_box_eq(&w->rest[0], &ours);
    unsigned n = 0;
    int rc = 0;

    if (r->ndim != mine->ndim ||
        memcmp(r->global_shape, mine->global_shape, r->ndim * sizeof(uint64_t)) != 0)
        return dlr_load_same_box(there, mine, x->rs->bytes[i], x->err);
    rest = calloc(w->nrest * 2 * (size_t)(mine->ndim + 1) + 1, sizeof(*rest));
    if (!rest)
        return dlr_fail(x->err, -ENOMEM, "no memory");
    for (unsigned k = 0; rc == 0 && k < w->nrest; k++)
        rc = take_part(&m, &theirs, &ours, &w->rest[k], rest, &n);
    free(w->rest);
    w->rest = rest;
    w->nrest = n;
    w->whole = n == 0;
    return rc < 0 || !before || r->kind == DLR_CKPT_REPLICATED
               ? rc
               : compare(&m, &theirs, &ours, i);
}

/* A part, or all of it where the node had one rank. */
static int take_replicated(struct reshape *x, const struct dlr_slot_region *there,
                           unsigned i)
{
    struct dlr_ckpt_region whole;
    bool part = dlr_share_is_part(&there->region, x->info.share, &whole);

    if (x->join && x->source == x->rank)
        x->want[i].found = part;
    if (x->want[i].whole || (x->join && !x->want[i].found))
        return 0;
    return part ? take_boxes(x, there, i) : take_whole(x, there, i);
}

static int take(struct reshape *x, const struct dlr_slot_region *there, unsigned i)
{
    struct wanted *w = &x->want[i];
    int rc;

    if (x->join && there->region.kind != DLR_CKPT_REPLICATED)
        return 0;
    rc = dlr_load_same_type(there, &x->rs->list[i], x->err);
    if (rc < 0)
        return rc;
    if (x->join)
        return take_replicated(x, there, i);
    w->found = true;
    switch (there->region.kind) {
    case DLR_CKPT_SHARD:
        if (x->rs->bytes[i] > 0)
            return take_boxes(x, there, i);
        w->whole = true;
        return 0;
    case DLR_CKPT_REPLICATED:
        return take_replicated(x, there, i);
    default:
        return x->source == x->rank ? take_whole(x, there, i) : 0;
    }
}

/* --- slots ------------------------------------------------------------------------ */

static bool is_among(const struct dlr_names *names, const char *name)
{
    for (unsigned i = 0; i < names->n; i++)
        if (dlr_streq(names->list[i], name))
            return true;
    return false;
}

/* Left over is only what each rank has: the ranks of a program may have names of their
 * own, which another of its ranks now asks for.
 */
static int note_strange(struct reshape *x, struct dlr_names *strange)
{
    struct dlr_names *left = &x->unmatched->left, both = {0};
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < strange->n && !x->join; i++)
        if (x->seen == 0 || is_among(left, strange->list[i]))
            rc = dlr_names_add(&both, strange->list[i]);
    dlr_names_done(strange);
    dlr_names_done(left);
    *left = both;
    return rc;
}

static int look_at(struct reshape *x)
{
    struct dlr_names strange = {0};
    struct dlr_slot_region there;
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;
    int rc;

    dlr_slot_meta(x->slot, &meta, &bytes);
    x->corrupt = true;
    if (bytes == 0)
        return dlr_fail(x->err, -EBADMSG, "rank %d: the head is corrupt", x->source);
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(x->slot), &x->info, x->err);
    if (rc < 0 || dlr_meta_walk_init(&walk, meta, bytes) < 0)
        return -EBADMSG;
    x->corrupt = false;
    x->data = (const char *)dlr_slot_base(x->slot) + walk.head.data_off;
    x->vouched = calloc(x->info.nblocks + 1u, 1);
    x->passed = 0;
    rc = x->vouched ? 0 : dlr_fail(x->err, -ENOMEM, "no memory");
    while (rc == 0 && (rc = dlr_meta_next(&walk, &there)) > 0) {
        unsigned i;

        /* Regions lie one after the other: nothing is looked at that is before. */
        dlr_slot_pass(x->slot, (uint32_t)(there.off / DLR_SLOT_BLOCK));
        rc = dlr_regions_find(x->rs, there.region.name, &i) == 0
                 ? take(x, &there, i)
                 : dlr_names_add(&strange, there.region.name);
    }
    free(x->vouched);
    if (rc == 0)
        return note_strange(x, &strange);
    dlr_names_done(&strange);
    return rc;
}

static bool enough(const struct reshape *x)
{
    if (x->join ? x->seen < 1 : x->unmatched->left.n > 0 || x->seen < 2)
        return false;
    for (unsigned i = 0; i < x->rs->n; i++)
        if (!x->want[i].whole && (!x->join || x->want[i].found))
            return false;
    return true;
}

static int look_at_rank(struct reshape *x, int rank)
{
    struct dlr_slot *slot;
    int rc = x->from->open(x->from->arg, rank, &slot, x->err);

    x->source = rank;
    x->corrupt = rc < 0;
    if (rc < 0)
        return rc;
    x->slot = slot;
    rc = look_at(x);
    dlr_slot_unmap(slot);
    x->seen++;
    return rc;
}

/* Its own, those near, and then one after the other; each once. */
static int look_at_all(struct reshape *x)
{
    uint32_t world = x->from->world, first = (uint32_t)x->rank % world;
    DLR_AUTO_FREE bool *seen = calloc(world, sizeof(*seen));
    uint32_t nnear = x->join ? x->from->nnear : 0; /* they are of this world */
    int rc = seen ? 0 : dlr_fail(x->err, -ENOMEM, "no memory");

    for (uint32_t k = 0; rc == 0 && k < 1 + nnear + world && !enough(x); k++) {
        uint32_t rank = (first + k - (k > 0 ? nnear : 0)) % world;

        if (k > 0 && k <= nnear)
            rank = (uint32_t)x->from->near[k - 1];
        if (rank >= world || seen[rank])
            continue;
        seen[rank] = true;
        rc = look_at_rank(x, (int)rank);
    }
    return rc;
}

static int note_missing(struct reshape *x)
{
    for (unsigned i = 0; i < x->rs->n; i++) {
        const struct wanted *w = &x->want[i];
        const struct dlr_ckpt_region *r = &x->rs->list[i];

        if (w->whole || (x->join && !w->found))
            continue;
        if (w->found && (r->kind == DLR_CKPT_SHARD || r->kind == DLR_CKPT_REPLICATED))
            return dlr_fail(x->err, -EBADMSG,
                            "region '%s': item %" PRIu64 " of dimension 0 and others "
                            "are in no rank's copy",
                            r->name, r->ndim ? w->rest[0].off[0] : 0);
        if (dlr_names_add(&x->unmatched->missing, r->name) < 0)
            return dlr_fail(x->err, -ENOMEM, "no memory");
    }
    return x->join ? 0 : dlr_unmatched_check(x->unmatched, x->err);
}

static int wish(struct reshape *x)
{
    for (unsigned i = 0; i < x->rs->n; i++) {
        struct wanted *w = &x->want[i];

        w->rest = malloc(sizeof(*w->rest));
        if (!w->rest)
            return dlr_fail(x->err, -ENOMEM, "no memory");
        w->rest[0] = dlr_box_of(&x->rs->list[i]);
        w->nrest = 1;
    }
    return 0;
}

static int put_together(struct reshape *x)
{
    DLR_AUTO_FREE struct wanted *want = calloc(x->rs->n + 1u, sizeof(*want));
    int rc;

    if (!want)
        return dlr_fail(x->err, -ENOMEM, "no memory");
    x->want = want;
    rc = wish(x);
    if (rc == 0)
        rc = look_at_all(x);
    if (rc == 0)
        rc = note_missing(x);
    x->unmatched->differs = rc == -EBADMSG && !x->corrupt;
    x->unmatched->corrupt_of =
        rc == -EBADMSG && x->corrupt ? (uint32_t)x->source + 1 : 0;
    for (unsigned i = 0; i < x->rs->n; i++)
        free(want[i].rest);
    return rc;
}

int dlr_reshape(const struct dlr_sources *from, int rank, struct dlr_regions *rs,
                struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
                struct dlr_device *dev, struct dlr_err *err)
{
    struct reshape x = {.from = from,
                        .rank = rank,
                        .rs = rs,
                        .unmatched = unmatched,
                        .ops = ops,
                        .dev = dev,
                        .err = err};

    dlr_unmatched_done(unmatched);
    return put_together(&x);
}

int dlr_join(const struct dlr_sources *from, int rank, struct dlr_regions *rs,
             struct dlr_unmatched *unmatched, const struct dlr_device_ops *ops,
             struct dlr_device *dev, struct dlr_err *err)
{
    struct reshape x = {.from = from,
                        .rank = rank,
                        .join = true,
                        .rs = rs,
                        .unmatched = unmatched,
                        .ops = ops,
                        .dev = dev,
                        .err = err};

    return put_together(&x);
}
