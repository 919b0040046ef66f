/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    struct dlr_job *first, **last;
};

struct dlr_work {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue todo, done;
    int fd;
};

static void push(struct queue *q, struct dlr_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static struct dlr_job *pop(struct queue *q)
{
    struct dlr_job *job = q->first;

    if (job) {
        q->first = job->next;
        if (!q->first)
            q->last = &q->first;
    }
    return job;
}

static void *run(void *arg)
{
    struct dlr_work *w = arg;
    uint64_t one = 1;

    for (;;) {
        struct dlr_job *job;

        pthread_mutex_lock(&w->lock);
        while (!(job = pop(&w->todo)))
            pthread_cond_wait(&w->more, &w->lock);
        pthread_mutex_unlock(&w->lock);
        job->rc = job->run(job, &job->err);
        pthread_mutex_lock(&w->lock);
        push(&w->done, job);
        pthread_mutex_unlock(&w->lock);
        (void)!write(w->fd, &one, sizeof(one));
    }
    return NULL;
}

/* As many as can be had: 0 when there is one. */
static int start(struct dlr_work *w, unsigned threads)
{
    pthread_t thread;
    int rc = 0;

    for (unsigned i = 0; i < threads && rc == 0; i++) {
        rc = -pthread_create(&thread, NULL, run, w);
        if (rc == 0)
            pthread_detach(thread);
        else if (i > 0)
            return 0;
    }
    return rc;
}

int dlr_work_new(unsigned threads, struct dlr_work **ret, struct dlr_err *err)
{
    struct dlr_work *w = calloc(1, sizeof(*w));
    int rc;

    if (!w)
        return dlr_fail(err, -ENOMEM, "out of memory");
    w->todo.last = &w->todo.first;
    w->done.last = &w->done.first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = w->fd < 0 ? -errno : start(w, threads ? threads : 1);
    if (rc < 0) {
        if (w->fd >= 0)
            close(w->fd);
        free(w);
        return dlr_fail(err, rc, "cannot start a thread: %s", strerror(-rc));
    }
    *ret = w;
    return 0;
}

void dlr_work_add(struct dlr_work *work, struct dlr_job *job)
{
    pthread_mutex_lock(&work->lock);
    push(&work->todo, job);
    pthread_cond_signal(&work->more);
    pthread_mutex_unlock(&work->lock);
}

int dlr_work_fd(const struct dlr_work *work)
{
    return work->fd;
}

void dlr_work_finish(struct dlr_work *work)
{
    struct dlr_job *job;
    uint64_t n;

    (void)!read(work->fd, &n, sizeof(n));
    do {
        pthread_mutex_lock(&work->lock);
        job = pop(&work->done);
        pthread_mutex_unlock(&work->lock);
        if (job)
            job->done(job);
    } while (job);
}
