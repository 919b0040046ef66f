/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: which version is restored, what other ranks had of it, and what is
 * saved from there on.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt/restore/load.h"
#include "ckpt/restore/reshape.h"
#include "ckpt/standalone/files.h"
#include "ckpt/standalone/lineage.h"
#include "ckpt/standalone/standalone.h"
#include "common/base/clock.h"

/* for a program that is being ended, whose writes the kernel has not */
#define LOCK_MS 10000

int dlr_standalone_take_directory(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;
    unsigned limit_ms = ck->conf.agree_ms < LOCK_MS ? ck->conf.agree_ms : LOCK_MS;
    int rc = al->locked
                 ? 0
                 : dlr_standalone_lock(al->own.dirfd, ck->conf.rank, ck->conf.world,
                                       limit_ms, &al->lock_fd, &ck->err);

    al->locked = rc == 0;
    al->own.locked = al->lock_fd >= 0;
    return rc;
}

int dlr_standalone_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max)
{
    const struct standalone *al = ck->mode;

    return dlr_standalone_versions(ck, al->own.dirfd, ret, max);
}

static int open_source(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct standalone *al = ck->mode;

    return dlr_standalone_open_rank(al->own.dirfd, &al->found, rank, ret, err);
}

int dlr_standalone_peek(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret)
{
    return open_source(ck, rank, ret, &ck->err);
}

static int load_step(struct dlr_ckpt *ck, uint32_t world)
{
    const struct dlr_sources from = {world, open_source, ck};
    struct dlr_slot *slot;
    bool cut;
    int rc;

    if (world != (uint32_t)ck->conf.world)
        return dlr_reshape(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                           ck->dev, &ck->err);
    rc = open_source(ck, ck->conf.rank, &slot, &ck->err);
    if (rc < 0)
        return rc;
    rc = dlr_load(slot, &ck->regions, &ck->unmatched, ck->ops, ck->dev, &ck->err);
    cut = ck->unmatched.differs && dlr_load_is_cut(slot, &ck->regions);
    dlr_slot_unmap(slot);
    if (cut)
        return dlr_reshape(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                           ck->dev, &ck->err);
    if (rc > 0)
        rc = dlr_join(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                      ck->dev, &ck->err);
    return rc;
}

int dlr_standalone_offer(struct dlr_ckpt *ck, uint32_t *ret_world)
{
    struct standalone *al = ck->mode;
    int rc = al->found.chosen ? 0 : dlr_standalone_take_directory(ck);

    if (rc == 0 && !al->found.chosen) {
        if (al->behind && /* its thread looks at what was found */
            dlr_write_behind_wait(al->behind, DLR_WRITE_BEHIND_FLUSH_MS) < 0)
            return dlr_fail(&ck->err, -ETIMEDOUT, "a file is still being written");
        dlr_save_interval_forget(&al->save_interval);
        rc = dlr_standalone_choose(ck, al->own.dirfd, &al->found);
        al->own.words = ck->conf.rank == 0;
    }
    *ret_world = al->found.world;
    return rc < 0 ? rc : al->found.world > 0;
}

/* From what was found. Rank 0 may be the only one that restores, and give the others
 * what it has.
 */
static void go_on_from_found(struct standalone *al)
{
    const struct dlr_standalone_found *found = &al->found;

    dlr_standalone_lineage_go_on(&al->own, found->step, found->line, found->program);
    if (al->own.rank == 0 && al->own.world > 1)
        dlr_standalone_line_say(al->lock_fd, al->own.from, al->own.line);
}

int dlr_standalone_restore(struct dlr_ckpt *ck, uint64_t *ret_step)
{
    struct standalone *al = ck->mode;
    uint32_t world = 0;
    int rc = dlr_standalone_offer(ck, &world);
    int64_t began = dlr_now_ns();

    if (rc <= 0)
        return rc;
    rc = load_step(ck, world);
    ck->load_ns = (uint64_t)(dlr_now_ns() - began);
    if (rc < 0)
        return rc;
    go_on_from_found(al);
    ck->from_world = world;
    *ret_step = al->found.step;
    return 1;
}

int dlr_standalone_go_on(struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;
    struct dlr_standalone_head head;
    int rc = dlr_standalone_take_directory(ck);

    if (rc < 0)
        return rc;
    rc = dlr_standalone_head(al->own.dirfd, 0, step, &head);
    if (rc < 0)
        return dlr_fail(&ck->err, rc,
                        "no version of step %" PRIu64
                        " in '%s' to go on from: rank 0's file: %s",
                        step, ck->conf.dir, strerror(-rc));
    al->found = (struct dlr_standalone_found){
        .chosen = true, .world = head.world, .step = step, .line = head.line};
    memcpy(al->found.program, head.program, sizeof(al->found.program));
    go_on_from_found(al);
    ck->from_world = head.world;
    return 0;
}
