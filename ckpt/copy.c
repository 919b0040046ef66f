/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/copy.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/copy_sum.h"
#include "ckpt/place.h"
#include "common/clock.h"

#define BLOCK DLR_DEVICE_CUT /* between two looks at whether to give up */
#define GATHER 8192u /* of a view, in the first-level cache until it is written */
#define CHUNKS_PER_HALF (DLR_DEVICE_HALF / DLR_SLOT_CHUNK)

struct dlr_copy {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[DLR_COPY_THREADS_MAX];
    unsigned nthreads; /* helpers beside the caller */
    const struct dlr_copy_job *job;
    uint64_t turn;   /* counts jobs */
    unsigned inside; /* helpers at work on job */
    bool quit;
    _Atomic uint32_t next; /* chunk */
    _Atomic int rc;
};

/* What is staged from a device: data from a byte of the data area on. */
struct stage {
    const unsigned char *host;
    uint64_t from;
    unsigned half;
    int rc; /* of comparing it with what it was there */
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

/* A piece that has come from the device, into the slot already where that is registered; the
 * device may know what its sum was there.
 */
static uint32_t put_staged(const struct dlr_copy_job *job, struct stage *stage,
                           const struct dlr_slot_piece *p, unsigned char *dst,
                           uint32_t crc)
{
    uint64_t at = p->off - stage->from;
    const unsigned char *src = stage->host + at;
    uint32_t all = src == dst ? dlr_crc32c(crc, dst, p->bytes)
                              : dlr_copy_sum(dst, src, p->bytes, crc);
    uint32_t there;

    if (stage->rc == 0 &&
        job->ops->expect(job->dev, stage->half, at, p->bytes, &there) &&
        dlr_crc32c_join(crc, there, dlr_crc32c_op(p->bytes)) != all) {
        stage->rc = -EBADMSG;
        if (job->ret_spoilt)
            *job->ret_spoilt = p->region;
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
        crc = dlr_copy_sum(dst + done, block, n, crc);
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
        return dlr_copy_sum(dst, src + p->at, p->bytes, crc);
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

static int copy_chunk(const struct dlr_copy_job *job, struct stage *stage, uint32_t i)
{
    uint64_t from = (uint64_t)i * DLR_SLOT_CHUNK, all = dlr_slot_plan_data(job->plan);
    uint64_t to = all - from < DLR_SLOT_CHUNK ? all : from + DLR_SLOT_CHUNK;
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

/* Takes chunks until none is left or one failed. */
static void work(struct dlr_copy *copy, const struct dlr_copy_job *job)
{
    uint32_t n = dlr_slot_plan_chunks(job->plan);
    struct stage none = {0}; /* all is host memory */

    for (;;) {
        uint32_t i = atomic_fetch_add(&copy->next, 1);
        int rc;

        if (i >= n || atomic_load(&copy->rc) < 0)
            return;
        rc = copy_chunk(job, &none, i);
        if (rc < 0)
            atomic_store(&copy->rc, rc);
    }
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
    sigset_t all, old;
    int rc = 0;

    if (!copy)
        return dlr_fail(err, -ENOMEM, "no memory");
    pthread_mutex_init(&copy->lock, NULL);
    pthread_cond_init(&copy->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's business */
    while (rc == 0 && copy->nthreads + 1 < threads &&
           copy->nthreads < DLR_COPY_THREADS_MAX) {
        rc = -pthread_create(&copy->threads[copy->nthreads], NULL, helper, copy);
        if (rc == 0)
            copy->nthreads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc < 0) {
        dlr_copy_free(copy);
        return dlr_fail(err, rc, "cannot start %u copy threads: %s", threads,
                        strerror(-rc));
    }
    *ret = copy;
    return 0;
}

void dlr_copy_place(struct dlr_copy *copy, const uint64_t *cpus)
{
    for (unsigned i = 0; i < copy->nthreads; i++)
        dlr_place(copy->threads[i], cpus);
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
    free(copy);
    return NULL;
}

struct fetch {
    const struct dlr_copy_job *job;
    const char *src;
    size_t at; /* in the half */
    unsigned half;
};

static int fetch_rows(void *arg, const struct dlr_strides_rows *r)
{
    const struct fetch *f = arg;

    return f->job->ops->fetch_rows(f->job->dev, f->half, f->at + r->packed,
                                   f->src + r->from, r->size, r->rows, r->pitch);
}

static int fetch_piece(const struct dlr_copy_job *job, unsigned half, size_t at,
                       const struct dlr_slot_piece *p)
{
    const char *src = job->src[p->region];
    struct fetch f = {job, src, at, half};

    if (!job->views || !job->views[p->region])
        return job->ops->fetch(job->dev, half, at, src + p->at, p->bytes);
    return dlr_strides_walk(job->views[p->region], p->at, p->bytes, fetch_rows, &f);
}

/* Where these bytes of the data area belong, if the device writes there; else NULL. */
static void *straight(const struct dlr_copy_job *job, uint64_t from, uint64_t to)
{
    void *dst = dlr_slot_data(job->slot, job->plan, from);

    return job->pin && dlr_pin_ready(job->pin, dst, to - from) ? dst : NULL;
}

/* Starts the device's copies of the chunks that half of the stage takes. */
static int fetch_half(const struct dlr_copy_job *job, unsigned half, uint64_t from)
{
    uint64_t all = dlr_slot_plan_data(job->plan), at = from;
    uint64_t to = all - from < DLR_DEVICE_HALF ? all : from + DLR_DEVICE_HALF;
    struct dlr_slot_piece p;
    int rc = 0, flushed;

    job->ops->clear(job->dev, half, straight(job, from, to));
    while (rc == 0 && dlr_slot_plan_piece(job->plan, at, to, &p)) {
        if (job->on_device[p.region])
            rc = fetch_piece(job, half, p.off - from, &p);
        at = p.off + p.bytes;
    }
    flushed = job->ops->flush(job->dev, half);
    return rc < 0 ? rc : flushed;
}

/* One half is fetched while the other is copied and summed. One thread: the device is the
 * slower side of this.
 */
static int run_device(const struct dlr_copy_job *job)
{
    uint32_t n = dlr_slot_plan_chunks(job->plan);
    int rc = job->ops->enter(job->dev);
    unsigned half = 0;

    if (rc < 0)
        return rc;
    if (n > 0)
        rc = fetch_half(job, 0, 0);
    if (rc == 0)
        rc = job->ops->reach(job->dev); /* the copies are queued behind it */
    if (rc == 0 && job->begun)
        job->begun(job->arg);
    for (uint32_t i = 0; rc == 0 && i < n; i += CHUNKS_PER_HALF, half ^= 1) {
        struct stage stage = {NULL, (uint64_t)i * DLR_SLOT_CHUNK, half, 0};

        if (n - i > CHUNKS_PER_HALF)
            rc = fetch_half(job, half ^ 1, stage.from + DLR_DEVICE_HALF);
        if (rc == 0)
            rc = job->ops->wait(job->dev, half, (const void **)&stage.host);
        for (uint32_t k = i; rc == 0 && k < n && k < i + CHUNKS_PER_HALF; k++)
            rc = copy_chunk(job, &stage, k);
    }
    for (half = 0; rc < 0 && half < 2; half++) { /* then nothing is read any more */
        const void *host;

        job->ops->wait(job->dev, half, &host);
    }
    job->ops->leave(job->dev);
    return rc;
}

int dlr_copy_run(struct dlr_copy *copy, const struct dlr_copy_job *job)
{
    if (job->ops)
        return run_device(job);
    pthread_mutex_lock(&copy->lock);
    atomic_store(&copy->next, 0);
    atomic_store(&copy->rc, 0);
    copy->job = job;
    copy->turn++;
    pthread_cond_broadcast(&copy->changed);
    pthread_mutex_unlock(&copy->lock);
    work(copy, job);
    pthread_mutex_lock(&copy->lock);
    copy->job = NULL;
    while (copy->inside > 0)
        pthread_cond_wait(&copy->changed, &copy->lock);
    pthread_mutex_unlock(&copy->lock);
    return atomic_load(&copy->rc);
}
