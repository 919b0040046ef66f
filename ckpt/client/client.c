/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls. What they share with both back ends is here; see client.h. */
#include "ckpt/client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/client/early_copy.h"
#include "ckpt/client/fork.h"
#include "ckpt/client/region_layout.h"
#include "ckpt/client/step_time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"

static __thread struct dlr_err open_err;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlr_ckpt *left; /* what cannot be freed any more */

int dlr_client_open(const struct dlr_ckpt_conf *conf, const struct dlr_backend *backend,
                    struct dlr_ckpt **ret_ck)
{
    struct dlr_ckpt *ck = calloc(1, sizeof(*ck));
    int rc;

    if (!ck)
        return dlr_fail(&open_err, -ENOMEM, "no memory");
    ck->last_step = ck->saved_step = DLR_PAGE_NEVER;
    ck->forks = dlr_forks();
    ck->backend = backend;
    rc = dlr_client_conf_load(conf, &ck->conf, &ck->err);
    if (rc == 0)
        rc = ck->backend->open(ck);
    if (rc < 0) {
        open_err = ck->err;
        free(ck);
        return rc;
    }
    *ret_ck = ck;
    return 0;
}

int dlr_ckpt_add(struct dlr_ckpt *ck, const struct dlr_ckpt_region *region)
{
    int rc = dlr_layout_open(ck);

    return rc < 0 ? rc : dlr_regions_add(&ck->regions, region, &ck->err);
}

int dlr_ckpt_clear(struct dlr_ckpt *ck)
{
    int rc = dlr_layout_open(ck);

    if (rc == 0)
        dlr_regions_done(&ck->regions);
    return rc;
}

int dlr_ckpt_add_array(struct dlr_ckpt *ck, const char *name, enum dlr_ckpt_kind kind,
                       const char *dtype, uint32_t item_size, void *addr, uint64_t n)
{
    const struct dlr_ckpt_region region = {.name = name,
                                           .kind = kind,
                                           .dtype = dtype,
                                           .item_size = item_size,
                                           .ndim = 1,
                                           .global_shape = {n},
                                           .local_shape = {n},
                                           .addr = addr};

    return dlr_ckpt_add(ck, &region);
}

int dlr_ckpt_blob_size(struct dlr_ckpt *ck, const char *name, uint64_t bytes)
{
    unsigned i;

    if (dlr_regions_find(&ck->regions, name, &i) < 0 ||
        ck->regions.list[i].kind != DLR_CKPT_BLOB)
        return dlr_fail(&ck->err, -ENOENT, "no blob is called '%s'", name);
    if (bytes > ck->regions.bytes[i])
        return dlr_fail(&ck->err, -ERANGE, "blob '%s' has room for %" PRIu64 " bytes",
                        name, ck->regions.bytes[i]);
    ck->regions.used[i] = bytes;
    return 0;
}

static void turn_off(struct dlr_ckpt *ck, int rc)
{
    ck->off = rc < 0;
    if (ck->off)
        snprintf(ck->off_why, sizeof(ck->off_why), "nothing is saved any more: %.200s",
                 ck->err.text);
}

/* Saving begins to be possible. A failure turns saving off, once and for all. */
static int start(struct dlr_ckpt *ck)
{
    int rc = dlr_layout_close(ck);

    ck->started = true;
    if (rc == 0)
        rc = ck->backend->start(ck);
    turn_off(ck, rc);
    return rc;
}

/* The regions named since the last begin make another layout. As start(). */
static int change(struct dlr_ckpt *ck)
{
    int rc = dlr_layout_close(ck);

    if (rc == 0)
        rc = ck->backend->resize(ck);
    turn_off(ck, rc);
    return rc;
}

int dlr_ckpt_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max)
{
    int rc = dlr_fork_check(ck);

    return rc < 0 ? rc : ck->backend->list(ck, ret, max);
}

int dlr_ckpt_restore(struct dlr_ckpt *ck, uint64_t *ret_step)
{
    int rc = dlr_fork_check(ck);

    if (rc < 0)
        return rc;
    if (ck->started)
        return dlr_fail(&ck->err, -EBUSY,
                        "restore comes once and before the first begin");
    rc = dlr_layout_close(ck);
    if (rc == 0)
        rc = ck->backend->restore(ck, ret_step);
    if (rc < 0)
        return rc;
    ck->from_step = rc > 0 ? *ret_step : 0;
    /* Memory is reserved while the program computes its first step. What fails here is
     * told by begin: the restore itself went well.
     */
    start(ck);
    return rc;
}

int dlr_ckpt_go_on(struct dlr_ckpt *ck, uint64_t step)
{
    int rc = dlr_fork_check(ck);

    if (rc < 0)
        return rc;
    if (!ck->backend->go_on)
        return dlr_fail(&ck->err, -ENOTSUP,
                        "under a job a version is loaded by restore, on all ranks");
    if (ck->started)
        return dlr_fail(&ck->err, -EBUSY,
                        "go_on comes once and before restore and the first begin");
    return ck->backend->go_on(ck, step);
}

static struct dlr_audit_of audited(const struct dlr_ckpt *ck)
{
    return (struct dlr_audit_of){&ck->regions, ck->ops, ck->dev, ck->on_device,
                                 ck->src};
}

/* Starts the snapshot of a due step in slot. */
static int start_snapshot(struct dlr_ckpt *ck, struct dlr_slot *slot,
                          struct dlr_version version, void *stream)
{
    const struct dlr_copy_job job = {.slot = slot,
                                     .plan = ck->plan,
                                     .src = ck->src,
                                     .views = ck->views,
                                     .ops = ck->ops,
                                     .dev = ck->dev,
                                     .on_device = ck->on_device,
                                     .pin = ck->pin,
                                     .ret_spoilt = &ck->spoilt};
    const struct dlr_audit_of of = audited(ck);
    int rc = dlr_slot_begin(slot, ck->plan, version, ck->regions.used);

    if (rc < 0)
        return dlr_fail(&ck->err, rc, "the slot is too small for the regions");
    dlr_early_copy_take(ck);
    rc = ck->ops ? ck->ops->after(ck->dev, stream) : 0;
    if (rc < 0)
        return dlr_fail(&ck->err, rc, "%s refused to wait for the stream",
                        ck->ops->name);
    rc = dlr_audit_begin(&ck->audit, ck->conf.audit, &of, version.step);
    if (rc < 0 && ck->conf.audit != DLR_COUNT_AUTO) /* else it was not asked for */
        return dlr_fail(&ck->err, rc, "cannot audit the regions: %s", strerror(-rc));
    dlr_layout_pin(ck, slot);
    return dlr_snapshot_thread_begin(ck->snapshot_thread, &job, ck->host_waits);
}

/* Nobody waits for a save that does not come. */
static int save_nothing(struct dlr_ckpt *ck, uint64_t step)
{
    if (!ck->backend->plans && ck->snapshot_thread &&
        dlr_page_ordered(ck->page, step)) {
        atomic_fetch_add(&ck->page->given_up, 1);
        ck->backend->missed(ck, step, ck->off_why);
    }
    return 0;
}

static int save(struct dlr_ckpt *ck, uint64_t step, void *stream)
{
    struct dlr_version version;
    struct dlr_slot *slot;
    int rc;

    if (ck->off)
        return save_nothing(ck, step);
    rc = ck->backend->due(ck, step, &slot, &version);
    if (rc == 0)
        return 0;
    if (rc > 0) {
        rc = start_snapshot(ck, slot, version, stream);
        if (rc < 0)
            dlr_slot_set_state(slot, DLR_SLOT_DEAD);
    }
    if (rc < 0) {
        atomic_fetch_add(&ck->page->given_up, 1);
        ck->backend->missed(ck, step, ck->err.text);
        return rc;
    }
    atomic_fetch_add(&ck->page->saves, 1);
    return 1;
}

/* A graph would do the step again and again, and nothing of the call. */
static int refuse_capture(struct dlr_ckpt *ck, const char *call, void *stream)
{
    int rc = ck->dev ? ck->ops->usable(ck->dev, stream) : 0;

    if (rc != -EINPROGRESS)
        return 0; /* another failure is told where the stream is used */
    return dlr_fail(&ck->err, rc,
                    "%s was called while a %s graph is captured, which does "
                    "nothing of it when it runs: fence before the launch of the "
                    "graph, begin after it",
                    call, ck->ops->name);
}

int dlr_ckpt_due(const struct dlr_ckpt *ck, uint64_t step)
{
    if (!ck->started || !ck->closed_list)
        return 1;
    if (ck->backend->plans)
        return ck->backend->plans(ck, step);
    return dlr_page_ordered(ck->page, step);
}

int dlr_ckpt_begin(struct dlr_ckpt *ck, uint64_t step, void *stream)
{
    int64_t now = dlr_now_ns(), audit_ns;
    uint64_t took;
    int rc = 0;

    if (dlr_forked(ck))
        return 0;
    if (!ck->started)
        rc = start(ck);
    else if (!ck->off && !ck->closed_list)
        rc = change(ck);
    else if (ck->off && ck->err.code < 0 && ck->last_step == DLR_PAGE_NEVER)
        rc = ck->err.code; /* what failed after restore is told once */
    if (rc == 0 && refuse_capture(ck, "begin", stream) < 0)
        return ck->err.code;
    if (!dlr_step_announce(ck, step, now))
        return dlr_fail(&ck->err, -EINVAL, "step %" PRIu64 " does not follow %" PRIu64,
                        step, ck->last_step);
    audit_ns = ck->audit.ns;
    if ((rc == 0 || ck->off) &&
        (ck->backend->plans || dlr_page_ordered(ck->page, step))) {
        int saved = save(ck, step, stream);

        rc = rc < 0 ? rc : saved;
    }
    took = (uint64_t)(dlr_now_ns() - now);
    atomic_fetch_add_explicit(&ck->page->begin_ns, took, memory_order_relaxed);
    if (rc > 0) {
        ck->saving_step = true;
        ck->saved_step = step;
        atomic_fetch_add_explicit(&ck->page->blocked_ns,
                                  dlr_step_without_audit(ck, took, audit_ns),
                                  memory_order_relaxed);
    }
    return rc;
}

int dlr_ckpt_progress(struct dlr_ckpt *ck, uint64_t step)
{
    if (dlr_forked(ck))
        return 0;
    if (!dlr_step_announce(ck, step, dlr_now_ns()))
        return dlr_fail(&ck->err, -EINVAL, "step %" PRIu64 " does not follow %" PRIu64,
                        step, ck->last_step);
    if (ck->snapshot_thread && dlr_page_ordered(ck->page, step))
        ck->backend->missed(ck, step, "this step was reported without begin");
    return 0;
}

/* The stream waits instead of the host, and nobody where all was copied in begin. It is
 * told so when the device has all copies to do, and needs the host for none: what a
 * stream waits for is never still to come from here. 0; negative: the host waits on.
 * *ret_rc: whether it was in time.
 */
static int hold_stream(struct dlr_ckpt *ck, void *stream, int *ret_rc)
{
    int rc = ck->dev ? dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                                DLR_SNAPSHOT_ASKED)
                     : 0;

    *ret_rc = rc;
    if (rc == 0 && ck->dev)
        rc = ck->ops->hold(ck->dev, stream);
    if (rc == 0)
        dlr_snapshot_thread_limit(ck->snapshot_thread, ck->conf.fence_ms);
    return rc;
}

/* captured: the stream cannot be made to wait. */
static int wait_copies(struct dlr_ckpt *ck, void *stream, bool captured)
{
    /* The audit needs the device for itself. */
    bool whole = ck->audit.open && ck->audit.waits;
    int rc = 0;

    if (whole ? dlr_snapshot_thread_busy(ck->snapshot_thread)
              : dlr_snapshot_thread_reading(ck->snapshot_thread)) {
        if (!whole && !captured && !ck->host_waits && hold_stream(ck, stream, &rc) == 0)
            return 0;
        if (rc == 0)
            rc = dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                          whole ? DLR_SNAPSHOT_WHOLE
                                                : DLR_SNAPSHOT_FREE);
        if (rc < 0)
            return dlr_fail(&ck->err, rc,
                            "the snapshot of step %" PRIu64
                            " was not finished within %u ms",
                            ck->last_step, ck->conf.fence_ms);
    }
    return dlr_snapshot_thread_result(ck->snapshot_thread, &ck->err);
}

/* Nothing is read any more and the program has not gone on: what differs changed too
 * early. What is on stream was given to it before the fence, so it is waited for.
 */
static int audit(struct dlr_ckpt *ck, void *stream)
{
    const struct dlr_audit_of of = audited(ck);
    uint64_t step = ck->audit.step;
    bool by_default = ck->audit.own;
    struct dlr_err why;
    uint64_t changed;
    unsigned first = 0;
    int rc = ck->audit.open && ck->audit.waits ? ck->ops->after(ck->dev, stream) : 0, n;

    n = rc < 0 ? rc : dlr_audit_end(&ck->audit, &of, &first);
    if (n == 0 || (n < 0 && by_default))
        return 0;
    if (n < 0)
        return dlr_fail(&ck->err, n, "cannot audit the regions of step %" PRIu64 ": %s",
                        step, strerror(-n));
    changed = atomic_fetch_add(&ck->page->changed, 1);
    rc = dlr_fail(&why, -EBADMSG,
                  "region '%s' (%d in all) changed between begin and fence of step "
                  "%" PRIu64 ": write it after the fence only, or name it as a BLOB, "
                  "which begin copies",
                  ck->regions.list[first].name, n, step);
    if (!by_default || changed == 0)
        dlr_warn("%s", why.text);
    ck->backend->torn(ck, step, why.text);
    if (by_default) /* nobody has asked for it: the program goes on as without it */
        return 0;
    ck->err = why;
    return rc;
}

/* What could not be made durable after its own fence. */
static int late(struct dlr_ckpt *ck)
{
    return ck->backend->late ? ck->backend->late(ck) : 0;
}

int dlr_ckpt_fence(struct dlr_ckpt *ck, void *stream)
{
    uint64_t took;
    int64_t now, audit_ns = ck->audit.ns;
    bool alone = ck->audit.open && ck->audit.waits; /* all of it is the audit's */
    int refused, rc;

    if (dlr_forked(ck))
        return 0;
    refused = refuse_capture(ck, "fence", stream);
    if (!ck->snapshot_thread ||
        !(dlr_snapshot_thread_busy(ck->snapshot_thread) ||
          dlr_snapshot_thread_failed(ck->snapshot_thread) || ck->audit.open))
        return refused < 0 ? refused : late(ck);
    now = dlr_now_ns();
    rc = wait_copies(ck, stream, refused < 0);
    if (rc == 0)
        rc = refused < 0 ? refused : audit(ck, stream);
    ck->audit.open = false;
    took = (uint64_t)(dlr_now_ns() - now);
    atomic_fetch_add_explicit(&ck->page->fence_ns, took, memory_order_relaxed);
    if (alone)
        ck->audit.ns = audit_ns + (int64_t)took;
    atomic_fetch_add_explicit(&ck->page->blocked_ns,
                              dlr_step_without_audit(ck, took, audit_ns),
                              memory_order_relaxed);
    return rc < 0 ? rc : late(ck);
}

int dlr_ckpt_flush(struct dlr_ckpt *ck)
{
    int rc;

    if (!ck->snapshot_thread || dlr_forked(ck))
        return 0;
    if (dlr_snapshot_thread_busy(ck->snapshot_thread) &&
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE) < 0)
        return dlr_fail(&ck->err, -ETIMEDOUT,
                        "the snapshot of step %" PRIu64
                        " was not finished within %u ms",
                        ck->last_step, ck->conf.fence_ms);
    rc = dlr_snapshot_thread_result(ck->snapshot_thread, &ck->err);
    return rc < 0 || !ck->backend->flush ? rc : ck->backend->flush(ck);
}

void dlr_ckpt_stats(const struct dlr_ckpt *ck, struct dlr_ckpt_stats *ret)
{
    struct dlr_page *page = ck->page;
    uint64_t committed = atomic_load(&page->committed_step);

    *ret = (struct dlr_ckpt_stats){
        .saves = atomic_load(&page->saves),
        .given_up = atomic_load(&page->given_up),
        .committed_step = committed == DLR_PAGE_NEVER ? 0 : committed,
        .begin_ns = atomic_load(&page->begin_ns),
        .fence_ns = atomic_load(&page->fence_ns),
        .copied_bytes = atomic_load(&page->copied_bytes),
        .changed = atomic_load(&page->changed),
        .skipped = atomic_load(&page->skipped),
        .held_ns = atomic_load(&page->held_ns),
        .load_ns = ck->load_ns,
    };
}

const char *dlr_ckpt_error(const struct dlr_ckpt *ck)
{
    const struct dlr_err *err = ck ? &ck->err : &open_err;

    return err->text[0] ? err->text : "no error";
}

/* Calls that free or unregister memory wait for all streams of the device. Better some
 * memory, to the program's end, than a program that does not end.
 */
static void leave_behind(struct dlr_ckpt *ck)
{
    dlr_warn(
        "a GPU's stream does not come to its last snapshot: memory for copies stays");
    pthread_mutex_lock(&left_lock);
    ck->left = left;
    left = ck;
    pthread_mutex_unlock(&left_lock);
}

void dlr_ckpt_close(struct dlr_ckpt *ck)
{
    if (!ck || dlr_forked(ck))
        return;
    if (ck->snapshot_thread && dlr_snapshot_thread_busy(ck->snapshot_thread))
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE);
    if (ck->snapshot_thread &&
        dlr_snapshot_thread_reading(
            ck->snapshot_thread)) { /* its thread needs all of it */
        dlr_warn("the copies of step %" PRIu64 " do not end: going on without",
                 ck->last_step);
        return;
    }
    if (ck->backend->flush && ck->backend->flush(ck) < 0) {
        dlr_warn("%s", ck->err.text);
        if (ck->err.code == -ETIMEDOUT) { /* here too */
            ck->backend->leave(ck);
            return;
        }
    }
    ck->snapshot_thread = dlr_snapshot_thread_free(ck->snapshot_thread);
    if (ck->dev && !ck->ops->over(ck->dev)) {
        leave_behind(ck);
        return;
    }
    ck->pin = dlr_pin_free(ck->pin); /* before its memory goes */
    ck->backend->close(ck);
    if (ck->dev)
        ck->ops->close(ck->dev);
    dlr_layout_done(ck);
    dlr_unmatched_done(&ck->unmatched);
    dlr_regions_done(&ck->regions);
    free(ck->told);
    free(ck);
}
