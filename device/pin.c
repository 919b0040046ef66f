/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pin.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"

#define RANGES 8          /* slots of a rank at a time, with those about to go */
#define PAUSE_MAX_MS 1000 /* after a piece: as long as it took, at most this */

struct range {
    char *from; /* NULL: unused */
    size_t bytes, done;
    bool gone; /* to be taken back */
};

struct dlr_pin {
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    pthread_t thread;
    pthread_mutex_t lock; /* held in no call of the device */
    pthread_cond_t changed;
    struct range ranges[RANGES];
    bool quit, off; /* off: one failed, no more are registered */
};

static bool overlaps(const struct range *r, const char *from, size_t bytes)
{
    return r->from && from < r->from + r->bytes && r->from < from + bytes;
}

static size_t piece(const struct range *r)
{
    return r->bytes - r->done < DLR_PIN_PIECE ? r->bytes - r->done : DLR_PIN_PIECE;
}

/* What goes comes first. */
static struct range *find_work(struct dlr_pin *pin)
{
    struct range *found = NULL;

    for (unsigned i = 0; i < RANGES; i++) {
        struct range *r = &pin->ranges[i];

        if (r->from && r->gone)
            return r;
        if (r->from && !pin->off && r->done < r->bytes && !found)
            found = r;
    }
    return found;
}

static bool any_gone(const struct dlr_pin *pin)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (pin->ranges[i].from && pin->ranges[i].gone)
            return true;
    return false;
}

/* Under the lock, which is let go meanwhile. */
static void take_back(struct dlr_pin *pin, struct range *r)
{
    char *from = r->from;
    size_t done = r->done, bytes = r->bytes;

    pthread_mutex_unlock(&pin->lock);
    for (size_t at = 0; at < done; at += DLR_PIN_PIECE)
        pin->ops->unpin(pin->dev, from + at);
    madvise(from, bytes, MADV_DOFORK);
    pthread_mutex_lock(&pin->lock);
    r->from = NULL;
    pthread_cond_broadcast(&pin->changed);
}

/* As long as the piece took: the driver and the program's memory map are left alone at
 * least half of the time; ends when something is to go.
 */
static void pause_for(struct dlr_pin *pin, int64_t took_ns)
{
    const int64_t most_ns = (int64_t)PAUSE_MAX_MS * 1000000;
    const struct timespec at = dlr_monotonic_in(took_ns < most_ns ? took_ns : most_ns);
    int rc = 0;

    while (rc == 0 && !pin->quit && !any_gone(pin))
        rc = pthread_cond_clockwait(&pin->changed, &pin->lock, CLOCK_MONOTONIC, &at);
}

/* What is registered of the slot stays until its next snapshot begins: a copy may be
 * under way.
 */
static void give_up(struct dlr_pin *pin, int rc)
{
    dlr_warn(
        "copies from the device go on through a staging buffer: %s cannot register "
        "the snapshot's memory: %s",
        pin->ops->name, strerror(-rc));
    pin->off = true; /* and so it is said once */
}

/* The next piece of r. Under the lock, which is let go meanwhile. */
static void take_piece(struct dlr_pin *pin, struct range *r)
{
    char *from = r->from + r->done;
    size_t n = piece(r);
    int64_t began = dlr_now_ns();
    int rc;

    pthread_mutex_unlock(&pin->lock);
    /* A forked child would get a copy of private memory that a device may write to. */
    madvise(from, n, MADV_DONTFORK);
    rc = pin->ops->pin(pin->dev, from, n);
    pthread_mutex_lock(&pin->lock);
    if (rc < 0) {
        give_up(pin, rc);
        return;
    }
    r->done += n;
    pthread_cond_broadcast(&pin->changed);
    pause_for(pin, dlr_now_ns() - began);
}

static void *run(void *arg)
{
    struct dlr_pin *pin = arg;

    pthread_mutex_lock(&pin->lock);
    for (;;) {
        struct range *r = find_work(pin);

        if (r && r->gone)
            take_back(pin, r);
        else if (pin->quit)
            break;
        else if (r)
            take_piece(pin, r);
        else
            pthread_cond_wait(&pin->changed, &pin->lock); /* ends by want, drop, free */
    }
    pthread_mutex_unlock(&pin->lock);
    return NULL;
}

int dlr_pin_new(const struct dlr_device_ops *ops, struct dlr_device *dev,
                struct dlr_pin **ret, struct dlr_err *err)
{
    struct dlr_pin *pin = calloc(1, sizeof(*pin));
    int rc;

    if (!pin)
        return dlr_fail(err, -ENOMEM, "no memory");
    pin->ops = ops;
    pin->dev = dev;
    pthread_mutex_init(&pin->lock, NULL);
    pthread_cond_init(&pin->changed, NULL);
    rc = dlr_thread_start("dlr-pin", run, pin, &pin->thread, err);
    if (rc < 0) {
        pthread_cond_destroy(&pin->changed);
        pthread_mutex_destroy(&pin->lock);
        free(pin);
        return rc;
    }
    *ret = pin;
    return 0;
}

pthread_t dlr_pin_thread(const struct dlr_pin *pin)
{
    return pin->thread;
}

struct dlr_pin *dlr_pin_free(struct dlr_pin *pin)
{
    if (!pin)
        return NULL;
    pthread_mutex_lock(&pin->lock);
    pin->quit = true;
    for (unsigned i = 0; i < RANGES; i++)
        pin->ranges[i].gone = true;
    pthread_cond_broadcast(&pin->changed);
    pthread_mutex_unlock(&pin->lock);
    pthread_join(pin->thread, NULL);
    pthread_cond_destroy(&pin->changed);
    pthread_mutex_destroy(&pin->lock);
    free(pin);
    return NULL;
}

void dlr_pin_want(struct dlr_pin *pin, void *from, size_t bytes)
{
    struct range *unused = NULL;
    bool there = false;

    pthread_mutex_lock(&pin->lock);
    for (unsigned i = 0; i < RANGES; i++) {
        struct range *r = &pin->ranges[i];
        bool same = r->from == from && r->bytes == bytes && !r->gone;

        there |= same;
        if (!same && overlaps(r, from, bytes))
            r->gone = true;
        if (pin->off && r->done < r->bytes)
            r->gone = true;
        if (!r->from && !unused)
            unused = r;
    }
    if (!there && unused && !pin->off && bytes > 0)
        *unused = (struct range){from, bytes, 0, false};
    pthread_cond_broadcast(&pin->changed);
    pthread_mutex_unlock(&pin->lock);
}

bool dlr_pin_ready(struct dlr_pin *pin, const void *from, size_t bytes)
{
    const char *at = from;
    bool ready = false;

    pthread_mutex_lock(&pin->lock);
    for (unsigned i = 0; i < RANGES; i++) {
        const struct range *r = &pin->ranges[i];

        ready |= overlaps(r, at, bytes) && !r->gone && at >= r->from &&
                 at + bytes <= r->from + r->done;
    }
    pthread_mutex_unlock(&pin->lock);
    return ready;
}

void dlr_pin_drop(struct dlr_pin *pin, const void *from, size_t bytes)
{
    bool any = true;

    pthread_mutex_lock(&pin->lock);
    while (any) {
        any = false;
        for (unsigned i = 0; i < RANGES; i++) {
            struct range *r = &pin->ranges[i];

            if (!overlaps(r, from, bytes))
                continue;
            any = true;
            r->gone = true;
        }
        pthread_cond_broadcast(&pin->changed);
        if (any) /* ends when the thread has taken them back */
            pthread_cond_wait(&pin->changed, &pin->lock);
    }
    pthread_mutex_unlock(&pin->lock);
}
