/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/copy_crc.h"
#include "ckpt/base/crc32c.h"
#include "ckpt/base/thread_affinity.h"
#include "ckpt/client/copy_stage.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

#define BLOCK DLR_DEVICE_CUT /* between two looks at whether to give up */
#define GATHER 8192u /* of a view, in the first-level cache until it is written */
#define BLOCKS_PER_WINDOW (DLR_DEVICE_HALF / DLR_SLOT_BLOCK)

struct dlr_copy {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[DLR_COPY_THREADS_MAX];
    unsigned nthreads; /* helpers beside the caller */
    const struct dlr_copy_job *job;
    uint64_t turn;   /* counts jobs */
    unsigned inside; /* helpers at work on job */
    bool quit;
    _Atomic uint32_t next; /* block */
    _Atomic int rc;
    struct dlr_copy_stage stage; /* of a device's snapshot: instead of next */
    const void **hosts;          /* where its windows have come to */
    unsigned windows;            /* of them there is room for */
};

/* What has come from a device: data from a byte of the data area on. */
struct stage {
    const unsigned char *host;
    uint64_t from;
    unsigned window;
    int rc; /* of comparing it with what it was there */
    unsigned spoilt;
};

static int given_up(const struct dlr_copy_job *job)
{
    int64_t deadline = atomic_load_explicit(job->deadline_ns, memory_order_relaxed);

    if (atomic_load_explicit(job->stop, memory_order_relaxed))
        return -ECANCELED;
    return deadline != 0 && dlr_now_ns() > deadline ? -ETIMEDOUT : 0;
}

/* Sets bytes to zero and sums them. */
static uint32_t pad(unsigned char *dst, uint64_t bytes, uint32_t crc)
{
    memset(dst, 0, bytes);
    return dlr_crc32c(crc, dst, bytes);
}

/* A piece that has come from the device, into the slot already where that is
 * registered; the device may know what its sum was there.
 */
static uint32_t put_staged(const struct dlr_copy_job *job, struct stage *stage,
                           const struct dlr_slot_piece *p, unsigned char *dst,
                           uint32_t crc)
{
    uint64_t at = p->off - stage->from;
    const unsigned char *src = stage->host + at;
    uint32_t all = src == dst ? dlr_crc32c(crc, dst, p->bytes)
                              : dlr_copy_crc(dst, src, p->bytes, crc);
    uint32_t there;

    if (stage->rc == 0 &&
        job->ops->expect(job->dev, stage->window, at, p->bytes, &there) &&
        dlr_crc32c_join(crc, there, dlr_crc32c_op(p->bytes)) != all) {
        stage->rc = -EBADMSG;
        stage->spoilt = p->region;
    }
    return all;
}

/* A view's bytes are summed on their way, too. */
static uint32_t put_view(const struct dlr_strides *view, const char *src, uint64_t at,
                         unsigned char *dst, uint64_t bytes, uint32_t crc)
{
    _Alignas(64) unsigned char block[GATHER];

    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < GATHER ? bytes - done : GATHER;
        dlr_strides_gather(view, src, at + done, block, n);
        crc = dlr_copy_crc(dst + done, block, n, crc);
    }
    return crc;
}

/* A piece of a region to where it belongs; returns crc with it. */
static uint32_t put(const struct dlr_copy_job *job, struct stage *stage,
                    const struct dlr_slot_piece *p, unsigned char *dst, uint32_t crc)
{
    const char *src = job->src[p->region];

    if (job->ops && job->on_device[p->region])
        return put_staged(job, stage, p, dst, crc);
    if (!job->views || !job->views[p->region])
        return dlr_copy_crc(dst, src + p->at, p->bytes, crc);
    return put_view(job->views[p->region], src, p->at, dst, p->bytes, crc);
}

/* Fills bytes [from, to) of the data area: pieces of regions. Returns
 * crc with them.
 */
static uint32_t fill(const struct dlr_copy_job *job, struct stage *stage, uint64_t from,
                     uint64_t to, uint32_t crc)
{
    struct dlr_slot_piece p;

    while (from < to) {
        unsigned char *dst = dlr_slot_data(job->slot, job->plan, from);

        if (!dlr_slot_plan_piece(job->plan, from, to, &p))
            return pad(dst, to - from, crc);
        crc = pad(dst, p.off - from, crc);
        crc = put(job, stage, &p, dst + (p.off - from), crc);
        from = p.off + p.bytes;
    }
    return crc;
}

static int copy_block(const struct dlr_copy_job *job, struct stage *stage, uint32_t i)
{
    uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK, all = dlr_slot_plan_data(job->plan);
    uint64_t to = all - from < DLR_SLOT_BLOCK ? all : from + DLR_SLOT_BLOCK;
    uint32_t crc = 0;

    while (from < to) {
        uint64_t n = to - from < BLOCK ? to - from : BLOCK;
        int rc = given_up(job);

        if (rc < 0)
            return rc;
        crc = fill(job, stage, from, from + n, crc);
        from += n;
    }
    if (stage->rc < 0)
        return stage->rc;
    dlr_slot_set_crc(job->slot, job->plan, i, crc);
    return 0;
}

/* Takes blocks until none is left or one failed. */
static void work(struct dlr_copy *copy, const struct dlr_copy_job *job)
{
    uint32_t n = dlr_slot_plan_blocks(job->plan);
    struct stage none = {0}; /* all is host memory */

    for (;;) {
        uint32_t i = atomic_fetch_add(&copy->next, 1);
        int rc;

        if (i >= n || atomic_load(&copy->rc) < 0)
            return;
        rc = copy_block(job, &none, i);
        if (rc < 0)
            atomic_store(&copy->rc, rc);
    }
}

/* One block that has come; the first failure counts. */
static void work_staged(struct dlr_copy *copy, const struct dlr_copy_job *job,
                        uint32_t i)
{
    unsigned window = i / BLOCKS_PER_WINDOW;
    struct stage stage = {copy->hosts[window], window * (uint64_t)DLR_DEVICE_HALF,
                          window, 0, 0};
    int none = 0, rc = copy_block(job, &stage, i);

    if (rc < 0 && atomic_compare_exchange_strong(&copy->rc, &none, rc) &&
        rc == -EBADMSG && job->ret_spoilt)
        *job->ret_spoilt = stage.spoilt;
    dlr_copy_stage_through(&copy->stage);
}

/* wait: to the end of the snapshot, else what there is. */
static void take_staged(struct dlr_copy *copy, const struct dlr_copy_job *job,
                        bool wait)
{
    uint32_t i;

    while (atomic_load(&copy->rc) == 0 && dlr_copy_stage_take(&copy->stage, wait, &i))
        work_staged(copy, job, i);
}

static void *helper(void *arg)
{
    struct dlr_copy *copy = arg;
    uint64_t seen = 0;

    pthread_mutex_lock(&copy->lock);
    for (;;) {
        const struct dlr_copy_job *job;

        while (!copy->quit && (copy->turn == seen || !copy->job))
            pthread_cond_wait(&copy->changed, &copy->lock);
        if (copy->quit)
            break;
        seen = copy->turn;
        job = copy->job;
        copy->inside++;
        pthread_mutex_unlock(&copy->lock);
        if (job->ops)
            take_staged(copy, job, true);
        else
            work(copy, job);
        pthread_mutex_lock(&copy->lock);
        copy->inside--;
        pthread_cond_broadcast(&copy->changed);
    }
    pthread_mutex_unlock(&copy->lock);
    return NULL;
}

int dlr_copy_new(unsigned threads, struct dlr_copy **ret, struct dlr_err *err)
{
    struct dlr_copy *copy = calloc(1, sizeof(*copy));
    int rc = 0;

    if (!copy)
        return dlr_fail(err, -ENOMEM, "no memory");
    pthread_mutex_init(&copy->lock, NULL);
    pthread_cond_init(&copy->changed, NULL);
    dlr_copy_stage_init(&copy->stage);
    while (rc == 0 && copy->nthreads + 1 < threads &&
           copy->nthreads < DLR_COPY_THREADS_MAX) {
        rc = dlr_thread_start("dlr-copy", helper, copy, &copy->threads[copy->nthreads],
                              NULL);
        if (rc == 0)
            copy->nthreads++;
    }
    if (rc < 0) {
        dlr_copy_free(copy);
        return dlr_fail(err, rc, "cannot start %u copy threads: %s", threads,
                        strerror(-rc));
    }
    *ret = copy;
    return 0;
}

void dlr_copy_affinity(struct dlr_copy *copy, const uint64_t *cpus)
{
    for (unsigned i = 0; i < copy->nthreads; i++)
        dlr_thread_affinity(copy->threads[i], cpus);
}

struct dlr_copy *dlr_copy_free(struct dlr_copy *copy)
{
    if (!copy)
        return NULL;
    pthread_mutex_lock(&copy->lock);
    copy->quit = true;
    pthread_cond_broadcast(&copy->changed);
    pthread_mutex_unlock(&copy->lock);
    for (unsigned i = 0; i < copy->nthreads; i++)
        pthread_join(copy->threads[i], NULL);
    pthread_cond_destroy(&copy->changed);
    pthread_mutex_destroy(&copy->lock);
    dlr_copy_stage_done(&copy->stage);
    free(copy->hosts);
    free(copy);
    return NULL;
}

struct fetch {
    const struct dlr_copy_job *job;
    const char *src;
    size_t at; /* in the window */
    unsigned window;
};

static int fetch_rows(void *arg, const struct dlr_strides_rows *r)
{
    const struct fetch *f = arg;

    return f->job->ops->fetch_rows(f->job->dev, f->window, f->at + r->packed,
                                   f->src + r->from, r->size, r->rows, r->pitch);
}

static int fetch_piece(const struct dlr_copy_job *job, unsigned window, size_t at,
                       const struct dlr_slot_piece *p)
{
    const char *src = job->src[p->region];
    struct fetch f = {job, src, at, window};

    if (!job->views || !job->views[p->region])
        return job->ops->fetch(job->dev, window, at, src + p->at, p->bytes);
    return dlr_strides_walk(job->views[p->region], p->at, p->bytes, fetch_rows, &f);
}

/* A snapshot from a device: windows that were asked for, and that have come. */
struct flow {
    struct dlr_copy *copy;
    const struct dlr_copy_job *job;
    unsigned windows, asked, come;
};

static uint64_t window_end(const struct dlr_copy_job *job, uint64_t from)
{
    uint64_t all = dlr_slot_plan_data(job->plan);

    return all - from < DLR_DEVICE_HALF ? all : from + DLR_DEVICE_HALF;
}

/* Where a window's bytes of the data area belong, if the device writes there; else
 * NULL.
 */
static void *straight(const struct dlr_copy_job *job, uint64_t from)
{
    void *dst = dlr_slot_data(job->slot, job->plan, from);

    return job->pin && dlr_pin_ready(job->pin, dst, window_end(job, from) - from)
               ? dst
               : NULL;
}

/* Whether the device has a part in a window. */
static bool from_device(const struct dlr_copy_job *job, unsigned window)
{
    uint64_t at = window * (uint64_t)DLR_DEVICE_HALF, end = window_end(job, at);
    struct dlr_slot_piece p;

    for (; dlr_slot_plan_piece(job->plan, at, end, &p); at = p.off + p.bytes)
        if (job->on_device[p.region])
            return true;
    return false;
}

/* Starts the device's copies of a window. */
static int ask_window(const struct dlr_copy_job *job, unsigned window, void *to)
{
    uint64_t from = window * (uint64_t)DLR_DEVICE_HALF, at = from;
    uint64_t end = window_end(job, from);
    struct dlr_slot_piece p;
    int rc = 0, flushed;

    job->ops->clear(job->dev, window, to);
    while (rc == 0 && dlr_slot_plan_piece(job->plan, at, end, &p)) {
        if (job->on_device[p.region])
            rc = fetch_piece(job, window, p.off - from, &p);
        at = p.off + p.bytes;
    }
    flushed = job->ops->flush(job->dev, window);
    return rc < 0 ? rc : flushed;
}

/* Nothing more is asked for: from now on a stream can be made to wait for it. */
static int end_asking(struct flow *f)
{
    int rc = f->job->ops->asked(f->job->dev);

    if (f->job->asked)
        f->job->asked(f->job->arg);
    return rc;
}

/* As many windows as there is room for. Those that have come are done with: where a
 * window needs the room of the last but one, that is what it waits for.
 */
static int ask(struct flow *f)
{
    const struct dlr_copy_job *job = f->job;
    int rc = 0;

    if (f->asked == f->windows)
        return 0;
    while (rc == 0 && f->asked < f->windows) {
        void *to = straight(job, f->asked * (uint64_t)DLR_DEVICE_HALF);
        bool needed = from_device(job, f->asked);

        if (needed && f->asked >= f->come + 2 && !job->ops->ahead(job->dev, to))
            return 0;
        if (needed)
            rc = ask_window(job, f->asked, to);
        f->asked++;
    }
    return rc < 0 ? rc : end_asking(f);
}

/* The next window has come: its blocks are for whoever has time. */
static int await_window(struct flow *f)
{
    const struct dlr_copy_job *job = f->job;
    uint32_t n = dlr_slot_plan_blocks(job->plan), come;
    int rc = f->come == 0 ? job->ops->reach(job->dev) : 0;

    if (rc == 0 && f->come == 0 && job->begun)
        job->begun(job->arg);
    if (rc == 0 && from_device(job, f->come))
        rc = job->ops->wait(job->dev, f->come, &f->copy->hosts[f->come]);
    if (rc < 0)
        return rc;
    come = ++f->come * BLOCKS_PER_WINDOW;
    if (f->come == f->windows && job->fetched)
        job->fetched(job->arg);
    dlr_copy_stage_come(&f->copy->stage, come < n ? come : n);
    return 0;
}

/* The device copies while what has come is summed. */
static int pump(struct flow *f)
{
    struct dlr_copy *copy = f->copy;
    int rc = 0;

    while (rc == 0 && f->come < f->windows) {
        rc = ask(f);
        if (rc == 0)
            rc = await_window(f);
        take_staged(copy, f->job, false);
        if (f->asked < f->windows)
            dlr_copy_stage_settle(&copy->stage);
        if (rc == 0)
            rc = atomic_load(&copy->rc);
    }
    return rc;
}

/* After a failure: waits until nothing is read any more. */
static void drain(struct flow *f)
{
    const struct dlr_copy_job *job = f->job;
    const void *host;

    if (f->asked < f->windows)
        end_asking(f);
    for (; f->come < f->asked; f->come++)
        if (from_device(job, f->come))
            job->ops->wait(job->dev, f->come, &host);
    if (job->fetched)
        job->fetched(job->arg);
}

static int make_room(struct flow *f)
{
    struct dlr_copy *copy = f->copy;
    const void **hosts;

    if (f->windows > copy->windows) {
        hosts = reallocarray(copy->hosts, f->windows, sizeof(*hosts));
        if (!hosts)
            return -ENOMEM;
        copy->hosts = hosts;
        copy->windows = f->windows;
    }
    return f->job->ops->reserve(f->job->dev, f->windows);
}

static void run_device(struct dlr_copy *copy, const struct dlr_copy_job *job)
{
    uint32_t n = dlr_slot_plan_blocks(job->plan);
    struct flow f = {copy, job, (n + BLOCKS_PER_WINDOW - 1) / BLOCKS_PER_WINDOW, 0, 0};
    int entered = job->ops->enter(job->dev), rc = entered, none = 0;

    if (rc == 0)
        rc = make_room(&f);
    if (rc == 0)
        rc = pump(&f);
    if (rc < 0)
        atomic_compare_exchange_strong(&copy->rc, &none, rc);
    if (rc < 0 && entered == 0)
        drain(&f);
    dlr_copy_stage_end(&copy->stage, rc < 0);
    dlr_copy_stage_settle(&copy->stage);
    if (entered == 0)
        job->ops->leave(job->dev);
}

int dlr_copy_run(struct dlr_copy *copy, const struct dlr_copy_job *job)
{
    pthread_mutex_lock(&copy->lock);
    atomic_store(&copy->next, 0);
    atomic_store(&copy->rc, 0);
    dlr_copy_stage_begin(&copy->stage);
    copy->job = job;
    copy->turn++;
    pthread_cond_broadcast(&copy->changed);
    pthread_mutex_unlock(&copy->lock);
    if (job->ops)
        run_device(copy, job);
    else
        work(copy, job);
    pthread_mutex_lock(&copy->lock);
    copy->job = NULL;
    while (copy->inside > 0)
        pthread_cond_wait(&copy->changed, &copy->lock);
    pthread_mutex_unlock(&copy->lock);
    return atomic_load(&copy->rc);
}
