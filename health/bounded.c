/* SPDX-License-Identifier: Apache-2.0 */
/* A call that may not come back. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "health/checks.h"

#define DEVICE_TIMEOUT_MS 1000

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

struct device_query {
    struct dlr_health_env env;
    struct dlr_health_result result;
    void (*check)(const struct dlr_health_env *env, struct dlr_health_result *ret);
    char root[];
};

static void ask_device(void *arg)
{
    struct device_query *q = arg;

    q->check(&q->env, &q->result);
}

void dlr_health_device(const struct dlr_health_env *env, struct dlr_health_result *ret,
                       const char *what,
                       void (*check)(const struct dlr_health_env *env,
                                     struct dlr_health_result *ret))
{
    size_t size = strlen(env->root) + 1;
    struct device_query *q = calloc(1, sizeof(*q) + size);
    int rc = -ENOMEM;

    if (q) {
        memcpy(q->root, env->root, size);
        q->env.root = q->root;
        q->result = *ret;
        q->check = check;
        rc = dlr_health_bounded(ask_device, q, DEVICE_TIMEOUT_MS);
    }
    if (rc == 0)
        *ret = q->result;
    else if (rc == -ETIMEDOUT)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "%s cannot be read within %d ms", what,
                       DEVICE_TIMEOUT_MS);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "cannot check: %s", strerror(-rc));
    if (rc != -ETIMEDOUT) /* else the thread's */
        free(q);
}
