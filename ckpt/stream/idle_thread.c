/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/idle_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

struct dlr_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    dlr_turns_fn drive;
    void *arg;
    bool low, ended;    /* whose turn it is; under lock */
    atomic_bool usable; /* there is a second thread, and it is known when it waits */
    int schedstat;      /* of the second thread */
    int64_t began_ns, waited_ns; /* of its turn, and until then */
    int64_t looked_ms;
    int64_t refrain_ms; /* until then it is not the second one's; of who drives */
};

bool dlr_turns_waited(int64_t waited_ns, int64_t turn_ns)
{
    return waited_ns > DLR_TURNS_WAITED_NS && waited_ns > turn_ns / 4;
}

/* Nanoseconds that the second thread has wanted a core and had none, -1: not known. */
static int64_t waited(const struct dlr_turns *t)
{
    char text[128];
    ssize_t n = pread(t->schedstat, text, sizeof(text) - 1, 0);
    int64_t ns;

    if (n <= 0)
        return -1;
    text[n] = '\0';
    return sscanf(text, "%*d %" SCNd64, &ns) == 1 ? ns : -1;
}

static void set_low(struct dlr_turns *t)
{
    const struct sched_param none = {0};

    t->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (waited(t) < 0 || sched_setscheduler(0, SCHED_IDLE, &none) < 0) /* this thread */
        dlr_debug("copies have no low priority: %m");
    else
        atomic_store(&t->usable, true);
}

static void *run_low(void *arg)
{
    struct dlr_turns *t = arg;

    set_low(t);
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

/* Until the loop is the caller's again. */
static void lend(struct dlr_turns *t)
{
    t->began_ns = dlr_now_ns();
    t->waited_ns = waited(t);
    pthread_mutex_lock(&t->lock);
    t->low = true;
    pthread_cond_broadcast(&t->changed);
    while (t->low)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void dlr_turns_run(struct dlr_turns *t)
{
    while (!t->ended && t->drive(t->arg, false))
        lend(t);
}

int dlr_turns_new(dlr_turns_fn drive, void *arg, struct dlr_turns **ret,
                  struct dlr_err *err)
{
    struct dlr_turns *t = calloc(1, sizeof(*t));
    pthread_t thread;

    if (!t)
        return dlr_fail(err, -ENOMEM, "out of memory");
    t->drive = drive;
    t->arg = arg;
    t->schedstat = -1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (pthread_create(&thread, NULL, run_low, t) == 0)
        pthread_detach(thread);
    *ret = t;
    return 0;
}

/* Looks once in a millisecond. */
static void look(struct dlr_turns *t, int64_t now_ms)
{
    if (now_ms == t->looked_ms)
        return;
    t->looked_ms = now_ms;
    if (!dlr_turns_waited(waited(t) - t->waited_ns, dlr_now_ns() - t->began_ns))
        return;
    dlr_debug("no idle core for copies: they have the priority of the process");
    dlr_turns_late(t, now_ms);
}

bool dlr_turns_over(struct dlr_turns *t, bool low, bool may_be_low, int64_t now_ms)
{
    if (low)
        look(t, now_ms);
    return low != (may_be_low && atomic_load(&t->usable) && now_ms >= t->refrain_ms);
}

void dlr_turns_late(struct dlr_turns *t, int64_t now_ms)
{
    t->refrain_ms = now_ms + DLR_TURNS_REFRAIN_MS;
}
