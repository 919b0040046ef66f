/* SPDX-License-Identifier: Apache-2.0 */
/* A call that may not come back. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "health/checks.h"

struct bounded {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done, left;
    void (*fn)(void *arg);
    void *arg;
};

static void *run_bounded(void *arg)
{
    struct bounded *b = arg;
    bool left;

    b->fn(b->arg);
    pthread_mutex_lock(&b->lock);
    b->is_done = true;
    left = b->left;
    pthread_cond_signal(&b->done);
    pthread_mutex_unlock(&b->lock);
    if (left) {
        free(b->arg);
        free(b);
    }
    return NULL;
}

static int start_detached(struct bounded *b)
{
    pthread_attr_t attr;
    pthread_t thread;
    int rc = pthread_attr_init(&attr);

    if (rc)
        return -rc;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&thread, &attr, run_bounded, b);
    pthread_attr_destroy(&attr);
    return -rc;
}

int dlr_health_bounded(void (*fn)(void *arg), void *arg, int64_t timeout_ms)
{
    struct bounded *b = calloc(1, sizeof(*b));
    struct timespec until = dlr_monotonic_in(timeout_ms * 1000000);
    int rc = 0;
    bool done;

    if (!b)
        return -ENOMEM;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->done, NULL);
    b->fn = fn;
    b->arg = arg;
    rc = start_detached(b);
    if (rc < 0) {
        free(b);
        return rc;
    }
    pthread_mutex_lock(&b->lock);
    while (!b->is_done && rc == 0)
        rc = pthread_cond_clockwait(&b->done, &b->lock, CLOCK_MONOTONIC, &until);
    done = b->is_done;
    b->left = !done;
    pthread_mutex_unlock(&b->lock);
    if (done)
        free(b);
    return done ? 0 : -ETIMEDOUT;
}
