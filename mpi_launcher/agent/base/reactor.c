/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/reactor.h"

#include <signal.h>
#include <unistd.h>

#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/process/spawn.h"

static void watch(struct dlr_agent_base *base, int fd, short events, zloop_fn *fn,
                  void *arg)
{
    zmq_pollitem_t item = {.fd = fd, .events = events};

    zloop_poller(base->loop, &item, fn, arg);
    zloop_poller_set_tolerant(base->loop, &item); /* an end of file is for fn to see */
}

void dlr_agent_watch(struct dlr_agent_base *base, int fd, zloop_fn *fn, void *arg)
{
    watch(base, fd, ZMQ_POLLIN, fn, arg);
}

void dlr_agent_watch_out(struct dlr_agent_base *base, int fd, zloop_fn *fn, void *arg)
{
    watch(base, fd, ZMQ_POLLIN | ZMQ_POLLOUT, fn, arg);
}

void dlr_agent_unwatch(struct dlr_agent_base *base, int fd)
{
    zmq_pollitem_t item = {.fd = fd};

    zloop_poller_end(base->loop, &item);
}

void dlr_agent_watch_socket(struct dlr_agent_base *base, zsock_t *sock,
                            zloop_reader_fn *fn, void *arg)
{
    zloop_reader(base->loop, sock, fn, arg);
    zloop_reader_set_tolerant(base->loop, sock);
}

void dlr_agent_unwatch_socket(struct dlr_agent_base *base, zsock_t *sock)
{
    zloop_reader_end(base->loop, sock);
}

static void start_timer(struct dlr_agent_base *base, int *timer, int64_t ms,
                        size_t times, zloop_timer_fn *fn, void *arg)
{
    dlr_agent_timer_end(base, timer);
    *timer = zloop_timer(base->loop, (size_t)(ms > 0 ? ms : 1), times, fn, arg);
}

void dlr_agent_timer(struct dlr_agent_base *base, int *timer, int64_t after_ms,
                     zloop_timer_fn *fn, void *arg)
{
    start_timer(base, timer, after_ms, 1, fn, arg);
}

void dlr_agent_timer_every(struct dlr_agent_base *base, int *timer, int64_t every_ms,
                           zloop_timer_fn *fn, void *arg)
{
    start_timer(base, timer, every_ms, 0, fn, arg);
}

void dlr_agent_timer_end(struct dlr_agent_base *base, int *timer)
{
    if (*timer >= 0)
        zloop_timer_end(base->loop, *timer);
    *timer = -1;
}

static int buried(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    int status, fd = item->fd;

    dlr_agent_unwatch(arg, fd);
    if (dlr_spawn_reap(fd, &status) < 0)
        close(fd);
    return 0;
}

void dlr_agent_bury(struct dlr_agent_base *base, pid_t pid, int pidfd)
{
    int status;

    kill(pid, SIGKILL);
    if (dlr_spawn_reap(pidfd, &status) < 0)
        dlr_agent_watch(base, pidfd, buried, base);
}
