/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: each rank writes its snapshots to files. There is nobody to decide, so that
 * every due step is saved by every rank or its fence says that it was not.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/agree.h"
#include "ckpt/alone_files.h"
#include "ckpt/client.h"
#include "ckpt/layout.h"
#include "ckpt/load.h"
#include "ckpt/reshape.h"
#include "ckpt/saved.h"
#include "ckpt/slot_meta.h"
#include "ckpt/stride.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"

#define KEEP 2 /* versions that all ranks have */

struct alone {
    int dirfd;
    struct dlr_slot *slot;
    struct dlr_stride stride;
    uint64_t step; /* of the snapshot under way */
    uint64_t
        newer_than; /* what is or was restored; older files are of this line of steps */
    bool restored, begun;
    bool words;           /* of that choice may be there */
    bool chosen;          /* what restore takes: */
    uint32_t offer_world; /* made newer_than; 0: there is nothing */
};

static int alone_open(struct dlr_ckpt *ck)
{
    struct alone *al = calloc(1, sizeof(*al));
    int rc = al ? dlr_mkdirs(ck->conf.dir, 0700, &ck->err)
                : dlr_fail(&ck->err, -ENOMEM, "no memory");

    if (rc < 0) {
        free(al);
        return rc;
    }
    al->dirfd = open(ck->conf.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck->page = aligned_alloc(DLR_PAGE_SIZE, DLR_PAGE_SIZE);
    if (al->dirfd < 0 || !ck->page) {
        rc = dlr_fail(&ck->err, al->dirfd < 0 ? -errno : -ENOMEM,
                      "cannot open '%s': %m", ck->conf.dir);
        dlr_cleanup_close(&al->dirfd);
        free(ck->page);
        free(al);
        return rc;
    }
    memset(ck->page, 0, DLR_PAGE_SIZE);
    atomic_store(&ck->page->begun_step, DLR_PAGE_NEVER);
    atomic_store(&ck->page->committed_step, DLR_PAGE_NEVER);
    ck->key = dlr_slot_key("alone");
    dlr_stride_init(&al->stride, ck->conf.every == DLR_COUNT_AUTO ? 0 : ck->conf.every,
                    ck->conf.budget, al->dirfd, ck->conf.rank, ck->conf.world);
    ck->mode = al;
    return 0;
}

static int alone_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max)
{
    struct alone *al = ck->mode;
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = dlr_alone_complete(al->dirfd, 1, &steps, &ck->err);
    unsigned out = 0;

    for (int i = 0; i < n && out < max; i++) {
        struct dlr_slot_info info, own;

        if (dlr_alone_map(al->dirfd, 0, steps[i], NULL, &info, &ck->err) < 0 ||
            !dlr_alone_all(al->dirfd, info.world, steps[i]))
            continue;
        if (dlr_alone_map(al->dirfd, ck->conf.rank, steps[i], NULL, &own, &ck->err) <
                0 ||
            own.world != info.world)
            own.data_bytes = 0;
        ret[out++] = (struct dlr_ckpt_version){0, steps[i], own.data_bytes, info.world};
    }
    return n < 0 ? n : (int)out;
}

static int made_by(void *arg, uint64_t step, uint32_t *ret_world)
{
    struct dlr_ckpt *ck = arg;
    struct alone *al = ck->mode;
    struct dlr_slot_info info;
    int rc = dlr_alone_map(al->dirfd, 0, step, NULL, &info, NULL);

    if (rc == 0)
        *ret_world = info.world;
    return rc;
}

static int check_file(void *arg, int rank, uint64_t step, uint32_t world,
                      const struct dlr_alive *alive)
{
    struct dlr_ckpt *ck = arg;
    struct alone *al = ck->mode;
    struct dlr_slot_info info;
    int rc = dlr_alone_check(al->dirfd, rank, step, alive, &info, NULL);

    if (rc == 0 && info.world != world)
        return -EBADMSG; /* a file of another line of steps */
    return rc;
}

/* What is newer was corrupt or of some ranks only. Were it still there when the first of us writes the same step
 * again, and all were killed then, files of two lines of steps would make a version. All wait for rank 0's
 * decision, so none has begun yet (who gave up loses what it has saved since, of a version that not all have). Not
 * removed: a program may yet refuse to go on from an older version, or from none.
 */
static int settle(void *arg, uint64_t from)
{
    struct dlr_ckpt *ck = arg;
    struct alone *al = ck->mode;
    struct dlr_err err;
    int rc = dlr_alone_set_aside(al->dirfd, -1, from, &err);

    if (rc < 0)
        dlr_warn("%s", err.text);
    return rc;
}

/* The same where nobody decides: of what others have nobody knows whether it is old. A rank that comes after
 * another has written the step again still finds a version of both; its own files are then of the old one.
 */
static void settle_own(struct dlr_ckpt *ck)
{
    struct alone *al = ck->mode;
    uint64_t from = al->offer_world > 0 ? al->newer_than + 1 : 0;
    struct dlr_err err;

    if (dlr_alone_set_aside(al->dirfd, ck->conf.rank, from, &err) < 0)
        dlr_warn("%s", err.text);
}

static int open_source(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct alone *al = ck->mode;
    struct dlr_slot_info info;

    return dlr_alone_map(al->dirfd, rank, al->newer_than, ret, &info, err);
}

static int alone_peek(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret)
{
    return open_source(ck, rank, ret, &ck->err);
}

/* A version is there when every rank's file is: without ours it is not. */
static int alone_mark_bad(struct dlr_ckpt *ck, uint64_t step)
{
    struct alone *al = ck->mode;

    al->chosen = false;
    return dlr_alone_remove(al->dirfd, ck->conf.rank, ck->conf.world, step, UINT64_MAX,
                            &ck->err);
}

static int load_step(struct dlr_ckpt *ck, uint32_t world)
{
    const struct dlr_sources from = {world, open_source, ck};
    struct dlr_slot *slot;
    int rc;

    if (world != (uint32_t)ck->conf.world)
        return dlr_reshape(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                           ck->dev, &ck->err);
    rc = open_source(ck, ck->conf.rank, &slot, &ck->err);
    if (rc < 0)
        return rc;
    rc = dlr_load(slot, &ck->regions, &ck->unmatched, ck->ops, ck->dev, &ck->err);
    dlr_slot_unmap(slot);
    if (rc > 0)
        rc = dlr_join(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                      ck->dev, &ck->err);
    return rc;
}

/* The steps, newest first, of which every rank that made it has a file: what a start has begun to write
 * before this rank came is not among them. Their number.
 */
static int find_steps(struct dlr_ckpt *ck, uint64_t **ret_steps)
{
    struct alone *al = ck->mode;
    DLR_AUTO_FREE uint64_t *all = NULL;
    DLR_AUTO_FREE uint64_t *steps = NULL; /* of a version that world ranks made */
    int n = dlr_alone_complete(al->dirfd, 1, &all, &ck->err), out = 0, m = 0;
    uint32_t world = 0, made = 0;

    for (int i = 0; i < n; i++) {
        if (made_by(ck, all[i], &made) < 0)
            continue;
        if (made != world) {
            free(DLR_STEAL(steps));
            m = dlr_alone_complete(al->dirfd, (int)made, &steps, &ck->err);
            if (m < 0)
                return m;
            world = made;
        }
        for (int k = 0; k < m; k++)
            if (steps[k] == all[i])
                all[out++] = all[i];
    }
    *ret_steps = DLR_STEAL(all);
    return n < 0 ? n : out;
}

/* Reads the files of all ranks: each that does comes to the same without a word between them. */
static void choose_alone(struct dlr_ckpt *ck, const uint64_t *steps, unsigned n)
{
    struct alone *al = ck->mode;

    for (unsigned i = 0; i < n; i++) {
        uint32_t world = 0;
        int rc = made_by(ck, steps[i], &world);

        for (uint32_t rank = 0; rc == 0 && rank < world; rank++)
            rc = check_file(ck, (int)rank, steps[i], world, NULL);
        if (rc < 0)
            continue; /* an older one may be whole */
        al->newer_than = steps[i];
        al->offer_world = world;
        return;
    }
}

/* The newest version that all its ranks have whole, for good: what restore takes is what
 * dlr_ckpt_regions() has told.
 */
static int choose(struct dlr_ckpt *ck)
{
    struct alone *al = ck->mode;
    const struct dlr_agree with = {
        al->dirfd, ck->conf.rank, ck->conf.world, ck->conf.agree_ms,
        made_by,   check_file,    settle,         ck};
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = find_steps(ck, &steps), rc = -ENOTSUP;
    struct dlr_err err;

    if (n < 0)
        return n;
    dlr_stride_forget(&al->stride);
    al->chosen = true;
    al->words = ck->conf.rank == 0;
    al->offer_world = 0;
    if (n > 0 && with.world > 1 && with.limit_ms > 0) {
        rc = dlr_agree_choose(&with, steps, (unsigned)n, &al->newer_than,
                              &al->offer_world, &err);
        if (rc < 0)
            dlr_warn("reading the files of all ranks: %s", err.text);
        if (rc == 0)
            al->offer_world = 0;
    }
    if (rc < 0) { /* with n == 0 nor will others find anything */
        choose_alone(ck, steps, (unsigned)n);
        if (with.world > 1) /* alone it removes what is newer when it begins */
            settle_own(ck);
    }
    return 0;
}

static int alone_offer(struct dlr_ckpt *ck, uint32_t *ret_world)
{
    struct alone *al = ck->mode;
    int rc = al->chosen ? 0 : choose(ck);

    *ret_world = al->offer_world;
    return rc < 0 ? rc : al->offer_world > 0;
}

static int alone_restore(struct dlr_ckpt *ck, uint64_t *ret_step)
{
    struct alone *al = ck->mode;
    uint32_t world = 0;
    int rc = alone_offer(ck, &world);
    int64_t began = dlr_now_ns();

    if (rc <= 0)
        return rc;
    rc = load_step(ck, world);
    ck->load_ns = (uint64_t)(dlr_now_ns() - began);
    if (rc < 0)
        return rc;
    al->restored = true;
    ck->from_world = world;
    *ret_step = al->newer_than;
    return 1;
}

/* --- in the helper thread ---------------------------------------------------------- */

/* What is older than the second newest version that all ranks have is not needed. */
static int drop_old(struct dlr_ckpt *ck, struct dlr_err *err)
{
    struct alone *al = ck->mode;
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = dlr_alone_complete(al->dirfd, ck->conf.world, &steps, err);

    if (n > 0 && al->words && steps[0] > al->newer_than) {
        dlr_agree_forget(al->dirfd); /* all ranks have gone on from it */
        al->words = false;
    }
    if (n < KEEP)
        return n < 0 ? n : 0;
    return dlr_alone_remove(al->dirfd, ck->conf.rank, ck->conf.world, 0,
                            steps[KEEP - 1], err);
}

static int write_file(struct dlr_ckpt *ck, struct dlr_err *err)
{
    struct alone *al = ck->mode;
    const struct dlr_saved_how how = {0}; /* it was summed just now */
    struct dlr_saved_part part = {.slot = al->slot};
    char name[NAME_MAX + 1];
    int rc = dlr_alone_name(ck->conf.rank, al->step, name, sizeof(name));

    return rc < 0 ? rc : dlr_saved_write(&part, 1, al->dirfd, name, 0600, &how, err);
}

static int finish(void *arg, int rc, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct alone *al = ck->mode;

    if (rc == 0) {
        dlr_slot_seal(al->slot, ck->plan);
        rc = write_file(ck, err);
    } else {
        dlr_layout_given_up(ck, al->step, rc, err);
    }
    if (rc < 0) {
        atomic_fetch_add(&ck->page->given_up, 1);
        return rc;
    }
    atomic_fetch_add(&ck->page->copied_bytes, dlr_slot_plan_data(ck->plan));
    atomic_store(&ck->page->committed_step, al->step);
    return drop_old(ck, err);
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

static const struct dlr_saver_ops saver_ops = {finish, finished, posted, receive};

/* --- in the program's thread ------------------------------------------------------- */

static int alone_start(struct dlr_ckpt *ck)
{
    struct alone *al = ck->mode;
    int rc = dlr_slot_anonymous(dlr_slot_plan_bytes(ck->plan), &al->slot, &ck->err);

    return rc < 0 ? rc
                  : dlr_saver_new(dlr_layout_threads(ck), &saver_ops, ck, -1,
                                  &ck->saver, &ck->err);
}

static int alone_resize(struct dlr_ckpt *ck)
{
    struct alone *al = ck->mode;

    if (dlr_slot_bytes(al->slot) >= dlr_slot_plan_bytes(ck->plan))
        return 0;
    al->slot = dlr_layout_unmap(ck, al->slot);
    return dlr_slot_anonymous(dlr_slot_plan_bytes(ck->plan), &al->slot, &ck->err);
}

/* Removes what belongs to another line of steps than the one that begins now: a later start
 * must not mix them.
 */
static int drop_others(struct dlr_ckpt *ck, uint64_t step)
{
    struct alone *al = ck->mode;
    uint64_t from = al->restored ? al->newer_than + 1 : step;

    al->begun = true;
    dlr_stride_forget(&al->stride);
    return dlr_alone_remove(al->dirfd, ck->conf.rank, ck->conf.world, from, UINT64_MAX,
                            &ck->err);
}

static int alone_due(struct dlr_ckpt *ck, uint64_t step, struct dlr_slot **ret_slot,
                     struct dlr_version *ret_version)
{
    struct alone *al = ck->mode;
    const struct dlr_stride_cost cost = {atomic_load(&ck->page->saves),
                                         atomic_load(&ck->page->blocked_ns)};
    int rc = al->begun ? 0 : drop_others(ck, step);
    bool due = dlr_stride_due(&al->stride, step);

    dlr_stride_begin(&al->stride, step, dlr_now_ns(), &cost);
    if (rc < 0 || !due)
        return rc;
    if (dlr_saver_busy(ck->saver))
        return dlr_fail(&ck->err, -EBUSY, "the last snapshot is not finished");
    al->step = step;
    *ret_slot = al->slot;
    *ret_version = (struct dlr_version){0, step};
    return 1;
}

static bool alone_plans(const struct dlr_ckpt *ck, uint64_t step)
{
    const struct alone *al = ck->mode;

    return dlr_stride_due(&al->stride, step);
}

static void alone_missed(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
}

static void alone_close(struct dlr_ckpt *ck)
{
    struct alone *al = ck->mode;

    dlr_slot_unmap(al->slot);
    close(al->dirfd);
    free(al);
    free(ck->page);
}

const struct dlr_backend dlr_backend_alone = {
    .open = alone_open,
    .list = alone_list,
    .offer = alone_offer,
    .restore = alone_restore,
    .peek = alone_peek,
    .mark_bad = alone_mark_bad,
    .start = alone_start,
    .resize = alone_resize,
    .due = alone_due,
    .missed = alone_missed,
    .torn = alone_missed,
    .close = alone_close,
    .plans = alone_plans,
    .fence_whole = true,
};
