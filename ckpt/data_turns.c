/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/data_turns.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

struct dlr_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    dlr_turns_fn drive;
    void *arg;
    bool has_low;  /* there is a second thread */
    clockid_t cpu; /* its CPU time */
    atomic_int tid;
    bool low, ended; /* whose turn it is; under lock */
    atomic_bool starves;
    int64_t refrain_ms; /* until then it is not the second one's; of who drives */
};

bool dlr_starving_see(struct dlr_starving *s, int64_t ran_ns, bool wants,
                      int64_t now_ns)
{
    int64_t ran = ran_ns - s->ran_ns, passed = now_ns - s->at_ns;
    bool starved = s->known && wants && (double)ran < DLR_TURNS_SHARE * (double)passed;

    s->looks = starved ? s->looks + 1 : 0;
    s->ran_ns = ran_ns;
    s->at_ns = now_ns;
    s->known = true;
    return s->looks >= DLR_TURNS_LOOKS;
}

static void set_low(void)
{
    const struct sched_param none = {0};

    if (sched_setscheduler(0, SCHED_IDLE, &none) < 0) /* of this thread */
        dlr_debug("copies have no low priority: %m");
}

static void *run_low(void *arg)
{
    struct dlr_turns *t = arg;

    set_low();
    atomic_store(&t->tid, gettid());
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (!t->low)
            pthread_cond_wait(&t->changed, &t->lock);
        pthread_mutex_unlock(&t->lock);
        t->ended = !t->drive(t->arg, true); /* nobody reads it before low is false */
        pthread_mutex_lock(&t->lock);
        t->low = false;
        pthread_cond_broadcast(&t->changed);
        if (t->ended)
            break;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* Whether the thread is on a core or waits for one; true where that cannot be known. */
static bool wants_core(int tid)
{
    char path[64], text[256], *end;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return true;
    text[n] = '\0';
    end = strrchr(text, ')');
    return !end || end[1] != ' ' || end[2] == 'R';
}

static int64_t ran_ns(clockid_t cpu)
{
    struct timespec t = {0};

    clock_gettime(cpu, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Until the loop is ours again. */
static void watch(struct dlr_turns *t)
{
    struct dlr_starving starving = {0};

    while (t->low) {
        struct timespec at;

        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_nsec += DLR_TURNS_LOOK_MS * 1000000;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&t->changed, &t->lock, &at) == ETIMEDOUT &&
            dlr_starving_see(&starving, ran_ns(t->cpu),
                             wants_core(atomic_load(&t->tid)), dlr_now_ns()))
            atomic_store(&t->starves, true);
    }
}

void dlr_turns_run(struct dlr_turns *t)
{
    while (t->drive(t->arg, false)) {
        pthread_mutex_lock(&t->lock);
        t->low = true;
        pthread_cond_broadcast(&t->changed);
        watch(t);
        pthread_mutex_unlock(&t->lock);
        if (t->ended)
            return;
    }
}

int dlr_turns_new(dlr_turns_fn drive, void *arg, struct dlr_turns **ret,
                  struct dlr_err *err)
{
    struct dlr_turns *t = calloc(1, sizeof(*t));
    pthread_condattr_t attr;
    pthread_t thread;

    if (!t)
        return dlr_fail(err, -ENOMEM, "out of memory");
    t->drive = drive;
    t->arg = arg;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&thread, NULL, run_low, t) == 0) {
        t->has_low = pthread_getcpuclockid(thread, &t->cpu) == 0;
        pthread_detach(thread);
    }
    *ret = t;
    return 0;
}

bool dlr_turns_over(struct dlr_turns *t, bool low, bool may_be_low, int64_t now_ms)
{
    if (low && atomic_exchange(&t->starves, false)) {
        dlr_debug("copies starve at idle priority: they have that of the process");
        dlr_turns_late(t, now_ms);
    }
    return low != (t->has_low && may_be_low && now_ms >= t->refrain_ms);
}

void dlr_turns_late(struct dlr_turns *t, int64_t now_ms)
{
    t->refrain_ms = now_ms + DLR_TURNS_REFRAIN_MS;
}
