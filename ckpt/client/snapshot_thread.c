/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/snapshot_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ckpt/base/pending_error.h"
#include "ckpt/base/thread_affinity.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

#define LET_GO_MS                                                                      \
    1000 /* the copy stops at its next block: this is far more than one takes */

struct dlr_saver {
    const struct dlr_saver_ops *ops;
    void *arg;
    struct dlr_copy *copy;
    pthread_t thread;
    int sock, event;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct dlr_copy_job job;
    bool queued, posted, quit, host_read;
    int64_t limit_ns; /* dlr_saver_limit(); 0: none */
    struct dlr_untaken failed;

    /* Written under the lock, read without it by the program's thread. */
    atomic_bool asking, reading, busy;
    atomic_bool stop;
    _Atomic int64_t deadline_ns;
};

static void wake(struct dlr_saver *saver)
{
    uint64_t one = 1;

    /* Fails only when the counter is full, and then the thread is awake. */
    if (write(saver->event, &one, sizeof(one)) < 0)
        return;
}

/* Until the device has come to what is copied nobody looks at the deadline: now it begins. */
static void begun(void *arg)
{
    struct dlr_saver *saver = arg;

    pthread_mutex_lock(&saver->lock);
    if (saver->limit_ns)
        atomic_store(&saver->deadline_ns, dlr_now_ns() + saver->limit_ns);
    pthread_mutex_unlock(&saver->lock);
}

static void clear(struct dlr_saver *saver, atomic_bool *flag)
{
    pthread_mutex_lock(&saver->lock);
    atomic_store(flag, false);
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

static void asked(void *arg)
{
    struct dlr_saver *saver = arg;

    clear(saver, &saver->asking);
}

/* What is summed from now on is the copy. */
static void fetched(void *arg)
{
    struct dlr_saver *saver = arg;

    if (!saver->host_read)
        clear(saver, &saver->reading);
}

/* One snapshot: copy, let the sources go, finish. */
static void save(struct dlr_saver *saver)
{
    struct dlr_err err = {0};
    int rc = dlr_copy_run(saver->copy, &saver->job);

    clear(saver, &saver->asking);
    clear(saver, &saver->reading);
    rc = saver->ops->finish(saver->arg, rc, &err);

    pthread_mutex_lock(&saver->lock);
    /* Who stopped it knows of it. What nobody has taken yet stays: behind a device's copies the next begin
     * comes before a fence.
     */
    if (rc < 0 && !atomic_load(&saver->stop))
        dlr_untaken_note(&saver->failed, rc, &err);
    atomic_store(&saver->busy, false);
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    saver->ops->finished(saver->arg);
}

/* Does what was asked for; false when the thread is to end. */
static bool serve(struct dlr_saver *saver)
{
    bool queued, posted, quit;
    uint64_t count;

    if (read(saver->event, &count, sizeof(count)) < 0)
        return true;
    pthread_mutex_lock(&saver->lock);
    queued = saver->queued;
    posted = saver->posted;
    quit = saver->quit;
    saver->queued = saver->posted = false;
    pthread_mutex_unlock(&saver->lock);
    if (posted)
        saver->ops->posted(saver->arg);
    if (queued)
        save(saver);
    return !quit;
}

static void *run(void *arg)
{
    struct dlr_saver *saver = arg;
    struct pollfd fds[2] = {{saver->event, POLLIN, 0}, {saver->sock, POLLIN, 0}};

    for (;;) {
        if (poll(fds, 2, -1) < 0) /* ends by quit */
            continue;
        if (fds[1].revents && saver->ops->receive(saver->arg) < 0)
            fds[1].fd = -1;
        if (fds[0].revents && !serve(saver))
            return NULL;
    }
}

static void release(struct dlr_saver *saver)
{
    dlr_copy_free(saver->copy);
    close(saver->event);
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    free(saver);
}

int dlr_saver_new(unsigned threads, const struct dlr_saver_ops *ops, void *arg,
                  int sock, struct dlr_saver **ret, struct dlr_err *err)
{
    struct dlr_saver *saver = calloc(1, sizeof(*saver));
    int rc;

    if (!saver)
        return dlr_fail(err, -ENOMEM, "no memory");
    saver->ops = ops;
    saver->arg = arg;
    saver->sock = sock;
    saver->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (saver->event < 0) {
        rc = -errno;
        free(saver);
        return dlr_fail(err, rc, "cannot make an event: %s", strerror(-rc));
    }
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    rc = dlr_copy_new(threads, &saver->copy, err);
    if (rc == 0)
        rc = dlr_thread_start("dlr-saver", run, saver, &saver->thread, err);
    if (rc < 0) {
        release(saver);
        return rc;
    }
    *ret = saver;
    return 0;
}

void dlr_saver_place(struct dlr_saver *saver, const uint64_t *cpus)
{
    dlr_place(saver->thread, cpus);
    dlr_copy_place(saver->copy, cpus);
}

struct dlr_saver *dlr_saver_free(struct dlr_saver *saver)
{
    if (!saver)
        return NULL;
    atomic_store(&saver->stop, true);
    pthread_mutex_lock(&saver->lock);
    saver->quit = true;
    pthread_mutex_unlock(&saver->lock);
    wake(saver);
    pthread_join(saver->thread, NULL);
    release(saver);
    return NULL;
}

int dlr_saver_begin(struct dlr_saver *saver, const struct dlr_copy_job *job,
                    bool host_read)
{
    if (dlr_saver_busy(saver))
        return -EBUSY;
    pthread_mutex_lock(&saver->lock);
    saver->job = *job;
    saver->job.asked = asked;
    saver->job.begun = begun;
    saver->job.fetched = fetched;
    saver->job.arg = saver;
    saver->job.stop = &saver->stop;
    saver->job.deadline_ns = &saver->deadline_ns;
    saver->queued = true;
    saver->host_read = host_read;
    saver->limit_ns = 0;
    atomic_store(&saver->stop, false);
    atomic_store(&saver->deadline_ns, 0);
    atomic_store(&saver->asking, true);
    atomic_store(&saver->reading, true);
    atomic_store(&saver->busy, true);
    pthread_mutex_unlock(&saver->lock);
    wake(saver);
    return 0;
}

void dlr_saver_post(struct dlr_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    saver->posted = true;
    pthread_mutex_unlock(&saver->lock);
    wake(saver);
}

bool dlr_saver_reading(const struct dlr_saver *saver)
{
    return atomic_load_explicit(&saver->reading, memory_order_acquire);
}

bool dlr_saver_busy(const struct dlr_saver *saver)
{
    return atomic_load_explicit(&saver->busy, memory_order_acquire);
}

bool dlr_saver_failed(const struct dlr_saver *saver)
{
    return dlr_untaken_is(&saver->failed);
}

/* Under the lock: waits until *flag is false. -ETIMEDOUT. */
static int wait_for(struct dlr_saver *saver, const atomic_bool *flag,
                    int64_t timeout_ms)
{
    const struct timespec until = dlr_monotonic_in(timeout_ms * 1000000);
    int rc = 0;

    while (rc == 0 && atomic_load(flag))
        rc = -pthread_cond_clockwait(&saver->changed, &saver->lock, CLOCK_MONOTONIC,
                                     &until);
    return atomic_load(flag) ? -ETIMEDOUT : 0;
}

int dlr_saver_wait(struct dlr_saver *saver, int64_t timeout_ms,
                   enum dlr_saver_until until)
{
    const atomic_bool *flag = until == DLR_SAVER_WHOLE   ? &saver->busy
                              : until == DLR_SAVER_ASKED ? &saver->asking
                                                         : &saver->reading;
    int rc;

    pthread_mutex_lock(&saver->lock);
    rc = wait_for(saver, flag, timeout_ms);
    if (rc < 0) {
        atomic_store(&saver->stop, true);
        wait_for(saver, &saver->reading, LET_GO_MS);
    }
    pthread_mutex_unlock(&saver->lock);
    return rc;
}

void dlr_saver_limit(struct dlr_saver *saver, int64_t timeout_ms)
{
    pthread_mutex_lock(&saver->lock);
    saver->limit_ns = timeout_ms * 1000000;
    atomic_store(&saver->deadline_ns, dlr_now_ns() + saver->limit_ns);
    pthread_mutex_unlock(&saver->lock);
}

int dlr_saver_result(struct dlr_saver *saver, struct dlr_err *err)
{
    int rc;

    pthread_mutex_lock(&saver->lock);
    rc = dlr_untaken_take(&saver->failed, err);
    pthread_mutex_unlock(&saver->lock);
    return rc;
}
