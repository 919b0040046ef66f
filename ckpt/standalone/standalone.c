/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: each rank copies its snapshots to memory and writes them to files
 * behind the program. There is nobody to decide, so that every due step is saved by
 * every rank, or a fence says that it was not.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/base/page_commit.h"
#include "ckpt/client/client.h"
#include "ckpt/client/region_layout.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/slot/meta.h"
#include "ckpt/standalone/files.h"
#include "ckpt/standalone/launch_id.h"
#include "ckpt/standalone/lineage.h"
#include "ckpt/standalone/standalone.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"

static int alone_open(struct dlr_ckpt *ck)
{
    struct standalone *al = calloc(1, sizeof(*al));
    int rc = al ? dlr_mkdirs(ck->conf.dir, 0700, &ck->err)
                : dlr_fail(&ck->err, -ENOMEM, "no memory");

    if (rc < 0) {
        free(al);
        return rc;
    }
    al->lock_fd = -1;
    dlr_standalone_program(al->own.program);
    al->own.rank = ck->conf.rank;
    al->own.world = ck->conf.world;
    al->own.since_ns = al->own.opened_ns = (uint64_t)dlr_wall_ns();
    al->own.together = ck->conf.agree_ms > 0;
    atomic_init(&al->last_bad, UINT64_MAX);
    al->own.dirfd = open(ck->conf.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck->page = aligned_alloc(DLR_PAGE_SIZE, DLR_PAGE_SIZE);
    if (al->own.dirfd < 0 || !ck->page) {
        rc = dlr_fail(&ck->err, al->own.dirfd < 0 ? -errno : -ENOMEM,
                      "cannot open '%s': %m", ck->conf.dir);
        dlr_cleanup_close(&al->own.dirfd);
        free(ck->page);
        free(al);
        return rc;
    }
    memset(ck->page, 0, DLR_PAGE_SIZE);
    atomic_store(&ck->page->begun_step, DLR_PAGE_NEVER);
    atomic_store(&ck->page->committed_step, DLR_PAGE_NEVER);
    ck->key = dlr_slot_key("alone");
    dlr_save_interval_init(
        &al->save_interval, ck->conf.every == DLR_COUNT_AUTO ? 0 : ck->conf.every,
        ck->conf.budget, al->own.dirfd, ck->conf.rank, ck->conf.world);
    ck->mode = al;
    return 0;
}

/* Nothing of the program's is read for it any more: it is summed up and put, in
 * milliseconds.
 */
static void await_put(struct dlr_ckpt *ck)
{
    bool reads = ck->snapshot_thread && (ck->host_waits || ck->dev) &&
                 dlr_snapshot_thread_reading(ck->snapshot_thread);

    if (ck->snapshot_thread && !reads && dlr_snapshot_thread_busy(ck->snapshot_thread))
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE);
}

/* A version is there when every rank's file is: without ours it is not. */
static int alone_mark_bad(struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;
    const struct dlr_standalone_which which =
        dlr_standalone_own_files(&al->own, step, UINT64_MAX);
    int rc = dlr_standalone_take_directory(ck);

    if (rc < 0)
        return rc;
    al->found.chosen = false;
    atomic_store(&al->last_bad, step);
    await_put(ck); /* what a copy ends in after this knows of it */
    if (al->behind && dlr_write_behind_reject(al->behind, step) &&
        dlr_write_behind_wait(al->behind, DLR_WRITE_BEHIND_FLUSH_MS) < 0)
        return dlr_fail(&ck->err, -ETIMEDOUT, "step %" PRIu64 " is still being written",
                        step);
    return dlr_standalone_set_aside(al->own.dirfd, &which, &ck->err);
}

/* --- in the helper thread --------------------------------------------------------- */

static int write_file(struct dlr_ckpt *ck, struct dlr_slot *slot, uint64_t step,
                      struct dlr_err *err)
{
    struct standalone *al = ck->mode;
    struct dlr_slot_file_how how = {0}; /* it was summed just now */
    struct dlr_slot_file_part part = {.slot = slot};
    char name[NAME_MAX + 1], over[NAME_MAX + 1];
    const void *meta;
    size_t bytes;
    int rc = dlr_standalone_name(ck->conf.rank, step, name, sizeof(name));

    dlr_standalone_over_name(ck->conf.rank, over, sizeof(over));
    how.over = al->own.locked ? over : NULL;
    dlr_slot_meta(slot, &meta, &bytes);
    dlr_slot_rekey((void *)meta, bytes, al->own.line, al->own.program);
    if (rc == 0)
        rc = dlr_standalone_part(&al->own, step, err);
    if (rc == 0)
        rc = dlr_standalone_link_aside(al->own.dirfd, ck->conf.rank, step, err);
    return rc < 0 ? rc
                  : dlr_slot_file_write(&part, 1, al->own.dirfd, name, 0600, &how, err);
}

/* In the thread behind. */
static int write_behind(void *arg, struct dlr_slot *slot, uint64_t step,
                        struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct standalone *al = ck->mode;
    int rc = write_file(ck, slot, step, err);

    if (rc < 0) {
        atomic_fetch_add(&ck->page->given_up, 1);
        return rc;
    }
    dlr_page_commit(ck->page, step);
    return dlr_standalone_drop_old(&al->own, step, err);
}

static void ending(void *arg)
{
    await_put(arg);
}

/* Nothing more is written. */
static void ended(void *arg)
{
    const struct dlr_ckpt *ck = arg;
    const struct standalone *al = ck->mode;

    if (al->own.begun && al->own.locked)
        dlr_standalone_forget_over(al->own.dirfd, ck->conf.rank);
}

static const struct dlr_write_behind_ops behind_ops = {write_behind, ending, ended};

static int finish(void *arg, int rc, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct standalone *al = ck->mode;
    struct dlr_slot **slot = al->slot;

    al->slot = NULL;
    if (rc < 0) {
        dlr_layout_given_up(ck, al->step, rc, err);
        atomic_fetch_add(&ck->page->given_up, 1);
    } else {
        dlr_slot_seal(*slot, ck->plan);
        atomic_fetch_add(&ck->page->copied_bytes, dlr_slot_plan_data(ck->plan));
    }
    if (rc == 0 && al->step < atomic_load(&al->last_bad))
        dlr_write_behind_put(al->behind, slot, al->step);
    else
        dlr_write_behind_drop(al->behind, slot);
    return rc;
}

static void finished(void *arg)
{
}

static void posted(void *arg)
{
}

static int receive(void *arg)
{
    return -ENOTCONN;
}

static const struct dlr_snapshot_thread_ops snapshot_thread_ops = {finish, finished,
                                                                   posted, receive};

/* --- in the program's thread ------------------------------------------------------ */

static int alone_start(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;
    int rc = dlr_standalone_take_directory(ck);

    if (rc == 0)
        rc = dlr_write_behind_new(dlr_slot_plan_bytes(ck->plan), &behind_ops, ck,
                                  &al->behind, &ck->err);
    return rc < 0
               ? rc
               : dlr_snapshot_thread_new(dlr_layout_threads(ck), &snapshot_thread_ops,
                                         ck, -1, &ck->snapshot_thread, &ck->err);
}

/* Slots grow when they are taken: what is being written stays where it is. */
static int alone_resize(struct dlr_ckpt *ck)
{
    return 0;
}

static int grow(struct dlr_ckpt *ck, struct dlr_slot **slot)
{
    struct standalone *al = ck->mode;
    uint64_t bytes = dlr_slot_plan_bytes(ck->plan);
    struct dlr_slot *longer;
    int rc;

    if (dlr_slot_bytes(*slot) >= bytes)
        return 0;
    rc = dlr_slot_anonymous(bytes, &longer, &ck->err);
    if (rc < 0)
        return rc;
    dlr_write_behind_settle(al->behind, slot);
    dlr_layout_unmap(ck, *slot);
    *slot = longer;
    return 0;
}

static int begin(struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;

    dlr_save_interval_forget(&al->save_interval);
    dlr_standalone_lock_use(al->lock_fd, al);
    return dlr_standalone_begin(&al->own, ck->key, step, &ck->err);
}

/* Said once, and only where a stride is given: else it becomes longer by itself. */
static void tell_wait(const struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;

    if (ck->conf.every == DLR_COUNT_AUTO || al->wait_reported)
        return;
    al->wait_reported = true;
    dlr_warn("the save of step %" PRIu64 " waits until a file of an earlier one is "
             "written to '%s', and later ones may (DLROVER_CKPT_EVERY=auto saves as "
             "often as files are written)",
             step, ck->conf.dir);
}

/* A step that one rank leaves out counts for none: with both slots in use it waits, and
 * what that takes makes rank 0 choose a longer stride for all.
 */
static int take_slot(struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;
    int rc;

    if (!dlr_standalone_lock_is_used_by(al->lock_fd, al))
        return dlr_fail(&ck->err, -EBUSY,
                        "another checkpoint that this program opened saves in '%s' as "
                        "rank %d: give each a directory",
                        ck->conf.dir, ck->conf.rank);
    if (ck->host_waits &&
        dlr_snapshot_thread_reading(ck->snapshot_thread)) /* there was no fence */
        return dlr_fail(&ck->err, -EBUSY, "the last snapshot is not finished");
    if (dlr_snapshot_thread_busy(
            ck->snapshot_thread)) /* a device may be at its copies */
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE);
    if (dlr_snapshot_thread_busy(ck->snapshot_thread)) /* it still has its slot */
        return dlr_fail(&ck->err, -EBUSY, "the last snapshot is not finished");
    rc = dlr_write_behind_take(al->behind, 0, &al->slot);
    if (rc < 0) {
        int64_t began = dlr_now_ns();

        tell_wait(ck, step);
        rc = dlr_write_behind_take(al->behind, ck->conf.fence_ms, &al->slot);
        al->waited_ns += (uint64_t)(dlr_now_ns() - began);
    }
    return rc < 0 ? dlr_fail(&ck->err, -EBUSY,
                             "the snapshots before step %" PRIu64
                             " were not written within %u ms",
                             step, ck->conf.fence_ms)
                  : 0;
}

/* The program has asked for a step, and none was saved since. */
static bool is_asked(const struct dlr_ckpt *ck, uint64_t step)
{
    uint64_t wanted = atomic_load(&ck->page->wanted);

    return wanted > 0 && step >= wanted &&
           (ck->saved_step == DLR_PAGE_NEVER || ck->saved_step < wanted);
}

static bool alone_plans(const struct dlr_ckpt *ck, uint64_t step)
{
    const struct standalone *al = ck->mode;

    return dlr_save_interval_due(&al->save_interval, step) || is_asked(ck, step);
}

static int alone_due(struct dlr_ckpt *ck, uint64_t step, struct dlr_slot **ret_slot,
                     struct dlr_version *ret_version)
{
    struct standalone *al = ck->mode;
    const struct dlr_save_interval_cost cost = {
        atomic_load(&ck->page->saves), atomic_load(&ck->page->blocked_ns),
        al->waited_ns, dlr_write_behind_busy(al->behind),
        dlr_write_behind_took_ns(al->behind)};
    int rc = al->own.begun ? 0 : begin(ck, step);
    bool due = alone_plans(ck, step);

    dlr_save_interval_begin(&al->save_interval, step, dlr_now_ns(), &cost);
    if (rc < 0 || !due)
        return rc;
    rc = take_slot(ck, step);
    if (rc == 0)
        rc = grow(ck, al->slot);
    if (rc < 0)
        return rc;
    al->step = step;
    atomic_store(&al->last_bad, UINT64_MAX);
    *ret_slot = *al->slot;
    *ret_version = (struct dlr_version){0, step};
    return 1;
}

/* What was taken for it is free again. */
static void alone_missed(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
    struct standalone *al = ck->mode;

    if (al->slot)
        dlr_write_behind_drop(al->behind, al->slot);
    al->slot = NULL;
}

/* A file stands. */
static void alone_torn(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
}

static int alone_late(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;

    return al->behind ? dlr_write_behind_failure(al->behind, &ck->err) : 0;
}

static int alone_comes(struct dlr_ckpt *ck, uint64_t step)
{
    struct standalone *al = ck->mode;

    if (ck->saved_step == DLR_PAGE_NEVER || ck->saved_step < step)
        return 0;
    if (dlr_snapshot_thread_busy(ck->snapshot_thread) ||
        dlr_write_behind_busy(al->behind))
        return 1;
    return alone_late(ck);
}

static int alone_flush(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;

    if (al->behind && dlr_write_behind_wait(al->behind, DLR_WRITE_BEHIND_FLUSH_MS) < 0)
        return dlr_fail(&ck->err, -ETIMEDOUT,
                        "what was saved was not written to '%s' within %d s",
                        ck->conf.dir, DLR_WRITE_BEHIND_FLUSH_MS / 1000);
    return alone_late(ck);
}

static void alone_leave(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;

    if (al->behind)
        dlr_write_behind_leave(al->behind);
}

static void alone_close(struct dlr_ckpt *ck)
{
    struct standalone *al = ck->mode;

    dlr_write_behind_free(al->behind);
    ended(ck);
    dlr_standalone_unlock(al->lock_fd);
    close(al->own.dirfd);
    free(al);
    free(ck->page);
}

const struct dlr_backend dlr_backend_standalone = {
    .open = alone_open,
    .list = dlr_standalone_list,
    .offer = dlr_standalone_offer,
    .restore = dlr_standalone_restore,
    .go_on = dlr_standalone_go_on,
    .peek = dlr_standalone_peek,
    .mark_bad = alone_mark_bad,
    .start = alone_start,
    .resize = alone_resize,
    .due = alone_due,
    .missed = alone_missed,
    .torn = alone_torn,
    .close = alone_close,
    .plans = alone_plans,
    .late = alone_late,
    .comes = alone_comes,
    .flush = alone_flush,
    .leave = alone_leave,
};
