/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/aside.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct dlr_aside {
    dlr_aside_fn fn;
    void *arg;
    pthread_t thread;
    int fd, rc;
};

static void *work(void *arg)
{
    struct dlr_aside *a = arg;

    a->rc = a->fn(a->arg);
    eventfd_write(a->fd, 1);
    return NULL;
}

int dlr_aside_start(dlr_aside_fn fn, void *arg, struct dlr_aside **ret)
{
    struct dlr_aside *a = calloc(1, sizeof(*a));
    int rc;

    if (!a)
        return -ENOMEM;
    a->fn = fn;
    a->arg = arg;
    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = a->fd < 0 ? -errno : -pthread_create(&a->thread, NULL, work, a);
    if (rc < 0) {
        if (a->fd >= 0)
            close(a->fd);
        free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

int dlr_aside_fd(const struct dlr_aside *a)
{
    return a->fd;
}

int dlr_aside_end(struct dlr_aside *a, int *ret_rc)
{
    struct pollfd done = {.fd = a->fd, .events = POLLIN};

    if (poll(&done, 1, 0) != 1)
        return -EAGAIN;
    pthread_join(a->thread, NULL);
    *ret_rc = a->rc;
    close(a->fd);
    free(a);
    return 0;
}

static int clear(struct dlr_aside_lane *lane)
{
    int rc;

    if (!lane->late)
        return 0;
    if (dlr_aside_end(lane->late, &rc) < 0)
        return -EBUSY;
    lane->forget(lane->arg);
    *lane = (struct dlr_aside_lane){0};
    return 0;
}

int dlr_aside_call(struct dlr_aside_lane *lane, dlr_aside_fn fn, void *arg,
                   void (*forget)(void *arg), int64_t limit_ms)
{
    struct dlr_aside *a = NULL;
    struct pollfd done = {.events = POLLIN};
    int result, rc = clear(lane);

    if (rc == 0)
        rc = dlr_aside_start(fn, arg, &a);
    if (rc < 0) {
        forget(arg);
        return -EBUSY;
    }
    done.fd = a->fd;
    poll(&done, 1, (int)limit_ms);
    if (dlr_aside_end(a, &result) == 0)
        return result;
    *lane = (struct dlr_aside_lane){.late = a, .arg = arg, .forget = forget};
    return -ETIMEDOUT;
}
