/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/write_behind.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/base/pending_error.h"
#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"

#define TOUCH_THREADS 2

enum state { IDLE, FILLING, PUT, WRITING };

struct entry {
    struct dlr_slot *slot;
    enum state state;
    uint64_t step;
};

struct dlr_write_behind {
    struct dlr_write_behind *next; /* of all that there are */
    pid_t pid;
    const struct dlr_write_behind_ops *ops;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct entry entries[DLR_WRITE_BEHIND_SLOTS];
    const struct entry *touching; /* its memory is being made there: it stays mapped */
    bool quit;
    struct dlr_untaken failed;
    _Atomic int64_t took_ns;
};

/* Under the lock: the one that was put first, or NULL. Steps increase. */
static struct entry *next_put(struct dlr_write_behind *b)
{
    struct entry *first = NULL;

    for (unsigned i = 0; i < DLR_WRITE_BEHIND_SLOTS; i++) {
        struct entry *e = &b->entries[i];

        if (e->state == PUT && (!first || e->step < first->step))
            first = e;
    }
    return first;
}

static void write_one(struct dlr_write_behind *b, struct entry *e)
{
    int64_t began = dlr_now_ns();
    struct dlr_err err = {0};
    int rc;

    e->state = WRITING;
    pthread_mutex_unlock(&b->lock);
    rc = b->ops->write(b->arg, e->slot, e->step, &err);
    atomic_store(&b->took_ns, dlr_now_ns() - began);
    pthread_mutex_lock(&b->lock);
    e->state = IDLE;
    if (rc < 0)
        dlr_untaken_note(&b->failed, rc, &err);
    pthread_cond_broadcast(&b->changed);
}

/* The first touch of memory takes longer than a copy into it: before the first save, if
 * it comes so late.
 */
static void touch(struct dlr_write_behind *b, struct entry *e)
{
    b->touching = e;
    pthread_mutex_unlock(&b->lock);
    dlr_slot_touch(e->slot, TOUCH_THREADS);
    pthread_mutex_lock(&b->lock);
    b->touching = NULL;
    pthread_cond_broadcast(&b->changed);
}

static void *run(void *arg)
{
    struct dlr_write_behind *b = arg;
    unsigned touched = 0;

    pthread_mutex_lock(&b->lock);
    for (;;) {
        struct entry *e = next_put(b);

        if (b->quit)
            break;
        if (e)
            write_one(b, e);
        else if (touched < DLR_WRITE_BEHIND_SLOTS)
            touch(b, &b->entries[touched++]);
        else
            pthread_cond_wait(&b->changed, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* --- the end of the process ------------------------------------------------------- */

/* A program may end without closing what it has opened, and exit() asks nobody but its
 * handlers.
 */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlr_write_behind *all_of_them;

static void enlist(struct dlr_write_behind *b)
{
    b->pid = getpid();
    pthread_mutex_lock(&all_lock);
    b->next = all_of_them;
    all_of_them = b;
    pthread_mutex_unlock(&all_lock);
}

static void delist(const struct dlr_write_behind *b)
{
    struct dlr_write_behind **at = &all_of_them;

    pthread_mutex_lock(&all_lock);
    while (*at && *at != b)
        at = &(*at)->next;
    if (*at)
        *at = b->next;
    pthread_mutex_unlock(&all_lock);
}

/* A forked child has no thread that would write. */
__attribute__((destructor)) static void flush(void)
{
    struct dlr_err err = {0};

    for (struct dlr_write_behind *b = all_of_them; b; b = b->next) {
        if (b->pid != getpid())
            continue;
        if (b->ops->ending)
            b->ops->ending(b->arg);
        if (dlr_write_behind_wait(b, DLR_WRITE_BEHIND_FLUSH_MS) < 0)
            dlr_warn(
                "what was saved last was not written within %d s: the program ends",
                DLR_WRITE_BEHIND_FLUSH_MS / 1000);
        else if (dlr_write_behind_failure(b, &err) < 0)
            dlr_warn("%s", err.text);
        if (b->ops->ended && !dlr_write_behind_busy(b))
            b->ops->ended(b->arg);
    }
}

/* --- start and end ---------------------------------------------------------------- */

static void release(struct dlr_write_behind *b)
{
    for (unsigned i = 0; i < DLR_WRITE_BEHIND_SLOTS; i++)
        dlr_slot_unmap(b->entries[i].slot);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int dlr_write_behind_new(uint64_t bytes, const struct dlr_write_behind_ops *ops,
                         void *arg, struct dlr_write_behind **ret, struct dlr_err *err)
{
    struct dlr_write_behind *b = calloc(1, sizeof(*b));
    int rc = 0;

    if (!b)
        return dlr_fail(err, -ENOMEM, "no memory");
    b->ops = ops;
    b->arg = arg;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    for (unsigned i = 0; rc == 0 && i < DLR_WRITE_BEHIND_SLOTS; i++)
        rc = dlr_slot_anonymous(bytes, &b->entries[i].slot, err);
    if (rc == 0)
        rc = dlr_thread_start("dlr-behind", run, b, &b->thread, err);
    if (rc < 0) {
        release(b);
        return rc;
    }
    enlist(b);
    *ret = b;
    return 0;
}

void dlr_write_behind_leave(struct dlr_write_behind *b)
{
    delist(b);
}

struct dlr_write_behind *dlr_write_behind_free(struct dlr_write_behind *b)
{
    if (!b)
        return NULL;
    delist(b);
    pthread_mutex_lock(&b->lock);
    b->quit = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    release(b);
    return NULL;
}

/* Under the lock: one that nobody uses, or NULL. */
static struct entry *idle(struct dlr_write_behind *b)
{
    for (unsigned i = 0; i < DLR_WRITE_BEHIND_SLOTS; i++)
        if (b->entries[i].state == IDLE)
            return &b->entries[i];
    return NULL;
}

int dlr_write_behind_take(struct dlr_write_behind *b, int64_t timeout_ms,
                          struct dlr_slot ***ret_slot)
{
    const struct timespec until = dlr_monotonic_in(timeout_ms * 1000000);
    struct entry *e;
    int rc = 0;

    pthread_mutex_lock(&b->lock);
    while (!(e = idle(b)) && rc == 0)
        rc = -pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &until);
    if (e) {
        e->state = FILLING;
        *ret_slot = &e->slot;
    }
    pthread_mutex_unlock(&b->lock);
    return e ? 0 : -ETIMEDOUT;
}

static struct entry *entry_of(struct dlr_slot **slot)
{
    return (struct entry *)((char *)slot - offsetof(struct entry, slot));
}

/* A slot that is touched must not be unmapped: its owner waits, for as long as the
 * touch of one slot takes.
 */
void dlr_write_behind_settle(struct dlr_write_behind *b, struct dlr_slot **slot)
{
    pthread_mutex_lock(&b->lock);
    while (b->touching == entry_of(slot))
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void pass_on(struct dlr_write_behind *b, struct dlr_slot **slot,
                    enum state state, uint64_t step)
{
    struct entry *e = entry_of(slot);

    pthread_mutex_lock(&b->lock);
    e->state = state;
    e->step = step;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

void dlr_write_behind_put(struct dlr_write_behind *b, struct dlr_slot **slot,
                          uint64_t step)
{
    pass_on(b, slot, PUT, step);
}

void dlr_write_behind_drop(struct dlr_write_behind *b, struct dlr_slot **slot)
{
    pass_on(b, slot, IDLE, 0);
}

bool dlr_write_behind_reject(struct dlr_write_behind *b, uint64_t step)
{
    bool writing = false;

    pthread_mutex_lock(&b->lock);
    for (unsigned i = 0; i < DLR_WRITE_BEHIND_SLOTS; i++) {
        struct entry *e = &b->entries[i];

        if (e->state == PUT && e->step >= step)
            e->state = IDLE;
        writing = writing || (e->state == WRITING && e->step >= step);
    }
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return writing;
}

/* Under the lock. */
static bool is_busy(const struct dlr_write_behind *b)
{
    for (unsigned i = 0; i < DLR_WRITE_BEHIND_SLOTS; i++)
        if (b->entries[i].state == PUT || b->entries[i].state == WRITING)
            return true;
    return false;
}

bool dlr_write_behind_busy(struct dlr_write_behind *b)
{
    bool busy;

    pthread_mutex_lock(&b->lock);
    busy = is_busy(b);
    pthread_mutex_unlock(&b->lock);
    return busy;
}

int dlr_write_behind_wait(struct dlr_write_behind *b, int64_t timeout_ms)
{
    const struct timespec until = dlr_monotonic_in(timeout_ms * 1000000);
    int rc = 0;

    pthread_mutex_lock(&b->lock);
    while (rc == 0 && is_busy(b))
        rc = -pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &until);
    rc = is_busy(b) ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

int64_t dlr_write_behind_took_ns(const struct dlr_write_behind *b)
{
    return atomic_load(&b->took_ns);
}

int dlr_write_behind_failure(struct dlr_write_behind *b, struct dlr_err *err)
{
    int rc;

    if (!dlr_untaken_is(&b->failed))
        return 0;
    pthread_mutex_lock(&b->lock);
    rc = dlr_untaken_take(&b->failed, err);
    pthread_mutex_unlock(&b->lock);
    return rc;
}
