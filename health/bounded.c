/* SPDX-License-Identifier: Apache-2.0 */
/* A call that may not come back, in a thread or in a process. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
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

/* Waits for the child, which is left behind when it does not come back. Its exit code,
 * or -errno.
 */
static int await(pid_t child, int pidfd, int64_t timeout_ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int64_t until_ms = dlr_now_ms() + timeout_ms, left_ms = timeout_ms;
    int status = 0, rc;

    do {
        rc = poll(&p, 1, (int)left_ms);
        left_ms = until_ms - dlr_now_ms();
    } while (rc < 0 && errno == EINTR && left_ms > 0);
    if (rc <= 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, WNOHANG);
        return -ETIMEDOUT;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

int dlr_health_apart(int (*fn)(void *arg), void *arg, int64_t timeout_ms)
{
    DLR_AUTO_CLOSE int pidfd = -1;
    pid_t child = fork();

    if (child == 0) {
        /* srun waits for the end of what a task's child holds */
        close_range(0, ~0U, 0);
        _exit(fn(arg));
    }
    if (child < 0)
        return -errno;
    pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (pidfd < 0) {
        kill(child, SIGKILL);
        return -ENOSYS;
    }
    return await(child, pidfd, timeout_ms);
}

struct device_query {
    struct dlr_health_env env;
    struct dlr_health_result result;
    void (*check)(const struct dlr_health_env *env, struct dlr_health_result *ret);
    char texts[]; /* of env, one behind the other */
};

static void ask_device(void *arg)
{
    struct device_query *q = arg;

    q->check(&q->env, &q->result);
}

static const char *keep(char **at, const char *text)
{
    char *copy = *at;

    if (!text)
        return NULL;
    strcpy(copy, text);
    *at += strlen(text) + 1;
    return copy;
}

static struct device_query *new_query(const struct dlr_health_env *env)
{
    const char *texts[] = {env->root, env->inject, env->node};
    struct device_query *q;
    size_t size = 0;
    char *at;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    q = calloc(1, sizeof(*q) + size);
    if (!q)
        return NULL;
    at = q->texts;
    q->env.root = keep(&at, env->root);
    q->env.inject = keep(&at, env->inject);
    q->env.node = keep(&at, env->node);
    return q;
}

void dlr_health_device(const struct dlr_health_env *env, struct dlr_health_result *ret,
                       const char *what,
                       void (*check)(const struct dlr_health_env *env,
                                     struct dlr_health_result *ret))
{
    struct device_query *q = new_query(env);
    int rc = -ENOMEM;

    if (q) {
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
