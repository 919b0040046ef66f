/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/offload.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"

#define ARG_AT 64 /* in the memory that both see */

struct dlr_aside {
    void *memory;
    size_t size;
    int memory_fd;
    int fd; /* to the process, -1: none */
};

struct order {
    dlr_aside_fn fn;
    size_t size;
};

struct dlr_aside *dlr_aside_new(size_t size)
{
    struct dlr_aside *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->size = ARG_AT + size;
    a->fd = -1;
    a->memory = MAP_FAILED;
    a->memory_fd = memfd_create("dlrover-aside", MFD_CLOEXEC);
    if (a->memory_fd >= 0 && ftruncate(a->memory_fd, (off_t)a->size) == 0)
        a->memory =
            mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->memory_fd, 0);
    return a->memory == MAP_FAILED ? dlr_aside_free(a) : a;
}

void *dlr_aside_arg(struct dlr_aside *a)
{
    return (char *)a->memory + ARG_AT;
}

struct dlr_aside *dlr_aside_free(struct dlr_aside *a)
{
    if (!a)
        return NULL;
    if (a->memory != MAP_FAILED)
        munmap(a->memory, a->size);
    if (a->memory_fd >= 0)
        close(a->memory_fd);
    if (a->fd >= 0)
        close(a->fd);
    free(a);
    return NULL;
}

/* --- in the process apart ------------------------------------------------------------------- */

static bool work_once(int fd)
{
    int fds[DLR_APART_FDS], given[DLR_APART_FDS] = {-1, -1};
    struct order order;
    void *memory;
    ssize_t sent;
    int rc;

    if (dlr_apart_recv(fd, &order, sizeof(order), fds, MSG_WAITALL) != sizeof(order))
        return false;
    memory = mmap(NULL, order.size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (memory == MAP_FAILED)
        return false;
    given[0] = fds[1];
    rc = order.fn((char *)memory + ARG_AT, &given[0]);
    sent = dlr_apart_send(fd, &rc, sizeof(rc), given);
    if (given[0] >= 0)
        close(given[0]);
    close(fds[0]);
    munmap(memory, order.size);
    return sent == sizeof(rc);
}

static void work(int fd)
{
    while (work_once(fd))
        ;
}

/* --- ours ------------------------------------------------------------------------------------- */

/* Gives the work to the process at *process, which a has then. fd stays the caller's. */
static int give(struct dlr_aside *a, int *process, dlr_aside_fn fn, int fd)
{
    struct order order = {fn, a->size};
    ssize_t n =
        dlr_apart_send(*process, &order, sizeof(order), (int[]){a->memory_fd, fd});

    if (n < 0)
        return (int)n;
    a->fd = dlr_steal_fd(process);
    return 0;
}

int dlr_aside_start(struct dlr_aside *a, struct dlr_apart *apart, dlr_aside_fn fn,
                    int fd)
{
    DLR_AUTO_CLOSE int given = fd;
    DLR_AUTO_CLOSE int process = -1;
    int rc = dlr_apart_start(apart, work, "dlrover-file", false, &process);

    return rc < 0 ? rc : give(a, &process, fn, given);
}

int dlr_aside_fd(const struct dlr_aside *a)
{
    return a->fd;
}

/* *ret_process: who has done it and waits for more; -1: it died. */
static int take(struct dlr_aside *a, int *ret_rc, int *ret_fd, int *ret_process)
{
    int fds[DLR_APART_FDS], rc;
    ssize_t n = dlr_apart_recv(a->fd, &rc, sizeof(rc), fds, MSG_DONTWAIT);

    if (n == -EAGAIN)
        return -EAGAIN;
    *ret_process = dlr_steal_fd(&a->fd);
    *ret_rc = n == sizeof(rc) ? rc : -EIO;
    *ret_fd = fds[0];
    if (n != sizeof(rc))
        close(dlr_steal_fd(ret_process));
    return 0;
}

int dlr_aside_end(struct dlr_aside *a, int *ret_rc, int *ret_fd)
{
    DLR_AUTO_CLOSE int process = -1; /* and with this it ends */

    return take(a, ret_rc, ret_fd, &process);
}

/* --- one after the other ------------------------------------------------------------------------ */

static int clear(struct dlr_aside_lane *lane)
{
    int rc, fd;

    if (!lane->late)
        return 0;
    if (take(lane->late, &rc, &fd, &lane->process) < 0)
        return -EBUSY;
    if (fd >= 0)
        close(fd); /* and what is locked with it is free */
    lane->late = dlr_aside_free(lane->late);
    return 0;
}

int dlr_aside_call(struct dlr_aside_lane *lane, struct dlr_aside **a, dlr_aside_fn fn,
                   int fd, int64_t limit_ms, int *ret_fd)
{
    DLR_AUTO_CLOSE int given = fd;
    struct pollfd done = {.events = POLLIN};
    int result, rc = clear(lane);

    *ret_fd = -1;
    if (rc < 0)
        return rc;
    if (lane->process >= 0 && give(*a, &lane->process, fn, given) < 0)
        close(dlr_steal_fd(&lane->process)); /* somebody has killed it */
    if ((*a)->fd < 0)
        rc = dlr_aside_start(*a, lane->apart, fn, dlr_steal_fd(&given));
    if (rc < 0)
        return rc;
    if (given >= 0)
        close(dlr_steal_fd(&given)); /* it is the work's now */
    done.fd = (*a)->fd;
    poll(&done, 1, (int)limit_ms);
    if (take(*a, &result, ret_fd, &lane->process) == 0)
        return result;
    lane->late = DLR_STEAL(*a);
    return -ETIMEDOUT;
}

void dlr_aside_lane_done(struct dlr_aside_lane *lane)
{
    lane->late = dlr_aside_free(lane->late);
    if (lane->process >= 0)
        close(dlr_steal_fd(&lane->process));
}
