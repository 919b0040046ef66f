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

/* the copy stops at its next block: this is far more than one takes */
#define LET_GO_MS 1000

struct dlr_snapshot_thread {
    const struct dlr_snapshot_thread_ops *ops;
    void *arg;
    struct dlr_copy *copy;
    pthread_t thread;
    int sock, event;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct dlr_copy_job job;
    bool queued, posted, quit, host_read;
    int64_t limit_ns; /* dlr_snapshot_thread_limit(); 0: none */
    struct dlr_untaken failed;

    /* Written under the lock, read without it by the program's thread. */
    atomic_bool asking, reading, busy;
    atomic_bool stop;
    _Atomic int64_t deadline_ns;
};

static void wake(struct dlr_snapshot_thread *snapshot_thread)
{
    uint64_t one = 1;

    /* Fails only when the counter is full, and then the thread is awake. */
    if (write(snapshot_thread->event, &one, sizeof(one)) < 0)
        return;
}

/* Until the device has come to what is copied nobody looks at the deadline: now it
 * begins.
 */
static void begun(void *arg)
{
    struct dlr_snapshot_thread *snapshot_thread = arg;

    pthread_mutex_lock(&snapshot_thread->lock);
    if (snapshot_thread->limit_ns)
        atomic_store(&snapshot_thread->deadline_ns,
                     dlr_now_ns() + snapshot_thread->limit_ns);
    pthread_mutex_unlock(&snapshot_thread->lock);
}

static void clear(struct dlr_snapshot_thread *snapshot_thread, atomic_bool *flag)
{
    pthread_mutex_lock(&snapshot_thread->lock);
    atomic_store(flag, false);
    pthread_cond_broadcast(&snapshot_thread->changed);
    pthread_mutex_unlock(&snapshot_thread->lock);
}

static void asked(void *arg)
{
    struct dlr_snapshot_thread *snapshot_thread = arg;

    clear(snapshot_thread, &snapshot_thread->asking);
}

/* What is summed from now on is the copy. */
static void fetched(void *arg)
{
    struct dlr_snapshot_thread *snapshot_thread = arg;

    if (!snapshot_thread->host_read)
        clear(snapshot_thread, &snapshot_thread->reading);
}

/* One snapshot: copy, let the sources go, finish. */
static void save(struct dlr_snapshot_thread *snapshot_thread)
{
    struct dlr_err err = {0};
    int rc = dlr_copy_run(snapshot_thread->copy, &snapshot_thread->job);

    clear(snapshot_thread, &snapshot_thread->asking);
    clear(snapshot_thread, &snapshot_thread->reading);
    rc = snapshot_thread->ops->finish(snapshot_thread->arg, rc, &err);

    pthread_mutex_lock(&snapshot_thread->lock);
    /* Who stopped it knows of it. What nobody has taken yet stays: behind a device's
     * copies the next begin comes before a fence.
     */
    if (rc < 0 && !atomic_load(&snapshot_thread->stop))
        dlr_untaken_note(&snapshot_thread->failed, rc, &err);
    atomic_store(&snapshot_thread->busy, false);
    pthread_cond_broadcast(&snapshot_thread->changed);
    pthread_mutex_unlock(&snapshot_thread->lock);
    snapshot_thread->ops->finished(snapshot_thread->arg);
}

/* Does what was asked for; false when the thread is to end. */
static bool serve(struct dlr_snapshot_thread *snapshot_thread)
{
    bool queued, posted, quit;
    uint64_t count;

    if (read(snapshot_thread->event, &count, sizeof(count)) < 0)
        return true;
    pthread_mutex_lock(&snapshot_thread->lock);
    queued = snapshot_thread->queued;
    posted = snapshot_thread->posted;
    quit = snapshot_thread->quit;
    snapshot_thread->queued = snapshot_thread->posted = false;
    pthread_mutex_unlock(&snapshot_thread->lock);
    if (posted)
        snapshot_thread->ops->posted(snapshot_thread->arg);
    if (queued)
        save(snapshot_thread);
    return !quit;
}

static void *run(void *arg)
{
    struct dlr_snapshot_thread *snapshot_thread = arg;
    struct pollfd fds[2] = {{snapshot_thread->event, POLLIN, 0},
                            {snapshot_thread->sock, POLLIN, 0}};

    for (;;) {
        if (poll(fds, 2, -1) < 0) /* ends by quit */
            continue;
        if (fds[1].revents && snapshot_thread->ops->receive(snapshot_thread->arg) < 0)
            fds[1].fd = -1;
        if (fds[0].revents && !serve(snapshot_thread))
            return NULL;
    }
}

static void release(struct dlr_snapshot_thread *snapshot_thread)
{
    dlr_copy_free(snapshot_thread->copy);
    close(snapshot_thread->event);
    pthread_cond_destroy(&snapshot_thread->changed);
    pthread_mutex_destroy(&snapshot_thread->lock);
    free(snapshot_thread);
}

int dlr_snapshot_thread_new(unsigned threads, const struct dlr_snapshot_thread_ops *ops,
                            void *arg, int sock, struct dlr_snapshot_thread **ret,
                            struct dlr_err *err)
{
    struct dlr_snapshot_thread *snapshot_thread = calloc(1, sizeof(*snapshot_thread));
    int rc;

    if (!snapshot_thread)
        return dlr_fail(err, -ENOMEM, "no memory");
    snapshot_thread->ops = ops;
    snapshot_thread->arg = arg;
    snapshot_thread->sock = sock;
    snapshot_thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (snapshot_thread->event < 0) {
        rc = -errno;
        free(snapshot_thread);
        return dlr_fail(err, rc, "cannot make an event: %s", strerror(-rc));
    }
    pthread_mutex_init(&snapshot_thread->lock, NULL);
    pthread_cond_init(&snapshot_thread->changed, NULL);
    rc = dlr_copy_new(threads, &snapshot_thread->copy, err);
    if (rc == 0)
        rc = dlr_thread_start("dlr-saver", run, snapshot_thread,
                              &snapshot_thread->thread, err);
    if (rc < 0) {
        release(snapshot_thread);
        return rc;
    }
    *ret = snapshot_thread;
    return 0;
}

void dlr_snapshot_thread_affinity(struct dlr_snapshot_thread *snapshot_thread,
                                  const uint64_t *cpus)
{
    dlr_thread_affinity(snapshot_thread->thread, cpus);
    dlr_copy_affinity(snapshot_thread->copy, cpus);
}

struct dlr_snapshot_thread *
dlr_snapshot_thread_free(struct dlr_snapshot_thread *snapshot_thread)
{
    if (!snapshot_thread)
        return NULL;
    atomic_store(&snapshot_thread->stop, true);
    pthread_mutex_lock(&snapshot_thread->lock);
    snapshot_thread->quit = true;
    pthread_mutex_unlock(&snapshot_thread->lock);
    wake(snapshot_thread);
    pthread_join(snapshot_thread->thread, NULL);
    release(snapshot_thread);
    return NULL;
}

int dlr_snapshot_thread_begin(struct dlr_snapshot_thread *snapshot_thread,
                              const struct dlr_copy_job *job, bool host_read)
{
    if (dlr_snapshot_thread_busy(snapshot_thread))
        return -EBUSY;
    pthread_mutex_lock(&snapshot_thread->lock);
    snapshot_thread->job = *job;
    snapshot_thread->job.asked = asked;
    snapshot_thread->job.begun = begun;
    snapshot_thread->job.fetched = fetched;
    snapshot_thread->job.arg = snapshot_thread;
    snapshot_thread->job.stop = &snapshot_thread->stop;
    snapshot_thread->job.deadline_ns = &snapshot_thread->deadline_ns;
    snapshot_thread->queued = true;
    snapshot_thread->host_read = host_read;
    snapshot_thread->limit_ns = 0;
    atomic_store(&snapshot_thread->stop, false);
    atomic_store(&snapshot_thread->deadline_ns, 0);
    atomic_store(&snapshot_thread->asking, true);
    atomic_store(&snapshot_thread->reading, true);
    atomic_store(&snapshot_thread->busy, true);
    pthread_mutex_unlock(&snapshot_thread->lock);
    wake(snapshot_thread);
    return 0;
}

void dlr_snapshot_thread_post(struct dlr_snapshot_thread *snapshot_thread)
{
    pthread_mutex_lock(&snapshot_thread->lock);
    snapshot_thread->posted = true;
    pthread_mutex_unlock(&snapshot_thread->lock);
    wake(snapshot_thread);
}

bool dlr_snapshot_thread_reading(const struct dlr_snapshot_thread *snapshot_thread)
{
    return atomic_load_explicit(&snapshot_thread->reading, memory_order_acquire);
}

bool dlr_snapshot_thread_busy(const struct dlr_snapshot_thread *snapshot_thread)
{
    return atomic_load_explicit(&snapshot_thread->busy, memory_order_acquire);
}

bool dlr_snapshot_thread_failed(const struct dlr_snapshot_thread *snapshot_thread)
{
    return dlr_untaken_is(&snapshot_thread->failed);
}

/* Under the lock: waits until *flag is false. -ETIMEDOUT. */
static int wait_for(struct dlr_snapshot_thread *snapshot_thread,
                    const atomic_bool *flag, int64_t timeout_ms)
{
    const struct timespec until = dlr_monotonic_in(timeout_ms * 1000000);
    int rc = 0;

    while (rc == 0 && atomic_load(flag))
        rc = -pthread_cond_clockwait(&snapshot_thread->changed, &snapshot_thread->lock,
                                     CLOCK_MONOTONIC, &until);
    return atomic_load(flag) ? -ETIMEDOUT : 0;
}

int dlr_snapshot_thread_wait(struct dlr_snapshot_thread *snapshot_thread,
                             int64_t timeout_ms, enum dlr_snapshot_thread_until until)
{
    const atomic_bool *flag = until == DLR_SNAPSHOT_WHOLE   ? &snapshot_thread->busy
                              : until == DLR_SNAPSHOT_ASKED ? &snapshot_thread->asking
                                                            : &snapshot_thread->reading;
    int rc;

    pthread_mutex_lock(&snapshot_thread->lock);
    rc = wait_for(snapshot_thread, flag, timeout_ms);
    if (rc < 0) {
        atomic_store(&snapshot_thread->stop, true);
        wait_for(snapshot_thread, &snapshot_thread->reading, LET_GO_MS);
    }
    pthread_mutex_unlock(&snapshot_thread->lock);
    return rc;
}

void dlr_snapshot_thread_limit(struct dlr_snapshot_thread *snapshot_thread,
                               int64_t timeout_ms)
{
    pthread_mutex_lock(&snapshot_thread->lock);
    snapshot_thread->limit_ns = timeout_ms * 1000000;
    atomic_store(&snapshot_thread->deadline_ns,
                 dlr_now_ns() + snapshot_thread->limit_ns);
    pthread_mutex_unlock(&snapshot_thread->lock);
}

int dlr_snapshot_thread_result(struct dlr_snapshot_thread *snapshot_thread,
                               struct dlr_err *err)
{
    int rc;

    pthread_mutex_lock(&snapshot_thread->lock);
    rc = dlr_untaken_take(&snapshot_thread->failed, err);
    pthread_mutex_unlock(&snapshot_thread->lock);
    return rc;
}
