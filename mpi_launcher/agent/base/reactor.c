/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/reactor.h"

#include <czmq.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/process/spawn.h"

/* One descriptor or one socket. */
struct dlr_agent_watched {
    struct dlr_agent_base *base;
    int fd; /* -1: sock */
    zsock_t *sock;
    zloop_fn *fn;
    zloop_reader_fn *reader;
    void *arg;
    struct dlr_agent_watched *next;
};

/* Of a parent that keeps what we note: were we killed in between, nobody would know how
 * far we came.
 */
static void begin(struct dlr_agent_base *base)
{
    dlr_kept_enter(base->kept);
}

static int note_is_due(zloop_t *loop, int timer, void *arg)
{
    ((struct dlr_agent_base *)arg)->note_timer = -1;
    return 0; /* at its end it is written */
}

static bool note_waits(struct dlr_agent_base *base)
{
    const int64_t left_ms = base->changed ? base->note_from_ms - dlr_now_ms() : 0;

    if (left_ms <= 0)
        return false;
    if (base->note_timer < 0)
        dlr_agent_timer(base, &base->note_timer, left_ms, note_is_due, base);
    return true;
}

static void write_note(struct dlr_agent_base *base)
{
    if (base->ops->note)
        base->ops->note(base->arg);
    base->changed = false;
    base->note_from_ms = dlr_now_ms() + dlr_kept_pause_ms(base->kept);
}

/* What is not noted yet has not ended: the next agent would go on from before it. */
static int end(struct dlr_agent_base *base, int rc)
{
    if (!base->kept || note_waits(base))
        return rc;
    if (base->changed)
        write_note(base);
    dlr_kept_leave(base->kept);
    return rc;
}

/* fn may end its own watch. */
static int on_item(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    const struct dlr_agent_watched w = *(struct dlr_agent_watched *)arg;

    begin(w.base);
    return end(w.base, w.fn(loop, item, w.arg));
}

static int on_socket(zloop_t *loop, zsock_t *sock, void *arg)
{
    const struct dlr_agent_watched w = *(struct dlr_agent_watched *)arg;

    begin(w.base);
    return end(w.base, w.reader(loop, sock, w.arg));
}

static struct dlr_agent_watched *add(struct dlr_agent_base *base, int fd, zsock_t *sock)
{
    struct dlr_agent_watched *w = zmalloc(sizeof(*w)); /* ends us, as the loop's own */

    w->base = base;
    w->fd = fd;
    w->sock = sock;
    w->next = base->watched;
    base->watched = w;
    return w;
}

static void del(struct dlr_agent_base *base, int fd, const zsock_t *sock)
{
    struct dlr_agent_watched **at = &base->watched, *w;

    while ((w = *at)) {
        if (w->fd == fd && w->sock == sock) {
            *at = w->next;
            free(w);
        } else {
            at = &w->next;
        }
    }
}

static void watch(struct dlr_agent_base *base, int fd, short events, zloop_fn *fn,
                  void *arg)
{
    zmq_pollitem_t item = {.fd = fd, .events = events};
    struct dlr_agent_watched *w = add(base, fd, NULL);

    w->fn = fn;
    w->arg = arg;
    zloop_poller(base->loop, &item, on_item, w);
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
    del(base, fd, NULL);
}

void dlr_agent_watch_socket(struct dlr_agent_base *base, zsock_t *sock,
                            zloop_reader_fn *fn, void *arg)
{
    struct dlr_agent_watched *w = add(base, -1, sock);

    w->reader = fn;
    w->arg = arg;
    zloop_reader(base->loop, sock, on_socket, w);
    zloop_reader_set_tolerant(base->loop, sock);
}

void dlr_agent_unwatch_socket(struct dlr_agent_base *base, zsock_t *sock)
{
    zloop_reader_end(base->loop, sock);
    del(base, -1, sock);
}

void dlr_agent_watched_free(struct dlr_agent_base *base)
{
    struct dlr_agent_watched *w;

    while ((w = base->watched)) {
        base->watched = w->next;
        free(w);
    }
}

/* --- timers --- */

struct dlr_agent_timer {
    int id;
    bool once;
    zloop_timer_fn *fn;
    void *arg;
    struct dlr_agent_timer *next;
};

/* Where the timer is linked; to NULL when it has ended. */
static struct dlr_agent_timer **find(struct dlr_agent_base *base, int id)
{
    struct dlr_agent_timer **at = &base->timers;

    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void forget(struct dlr_agent_timer **at)
{
    struct dlr_agent_timer *t = *at;

    *at = t->next;
    free(t);
}

/* The loop calls timers that were ended in the pass in which they are due as well: what
 * their arg points to may be gone by then.
 */
static int fired(zloop_t *loop, int id, void *arg)
{
    struct dlr_agent_timer **at = find(arg, id), t;

    if (!*at)
        return 0;
    t = **at;
    if (t.once)
        forget(at);
    begin(arg);
    return end(arg, t.fn(loop, id, t.arg));
}

static void start_timer(struct dlr_agent_base *base, int *timer, int64_t ms, bool once,
                        zloop_timer_fn *fn, void *arg)
{
    struct dlr_agent_timer *t = zmalloc(sizeof(*t)); /* ends us, as the loop's own */

    dlr_agent_timer_end(base, timer);
    t->id = zloop_timer(base->loop, (size_t)(ms > 0 ? ms : 1), once, fired, base);
    t->once = once;
    t->fn = fn;
    t->arg = arg;
    t->next = base->timers;
    base->timers = t;
    *timer = t->id;
}

void dlr_agent_timer(struct dlr_agent_base *base, int *timer, int64_t after_ms,
                     zloop_timer_fn *fn, void *arg)
{
    start_timer(base, timer, after_ms, true, fn, arg);
}

void dlr_agent_timer_every(struct dlr_agent_base *base, int *timer, int64_t every_ms,
                           zloop_timer_fn *fn, void *arg)
{
    start_timer(base, timer, every_ms, false, fn, arg);
}

void dlr_agent_timer_end(struct dlr_agent_base *base, int *timer)
{
    struct dlr_agent_timer **at = find(base, *timer);

    if (*at) {
        zloop_timer_end(base->loop, *timer);
        forget(at);
    }
    *timer = -1;
}

void dlr_agent_timers_free(struct dlr_agent_base *base)
{
    while (base->timers)
        forget(&base->timers);
}

/* --- children --- */

static int buried(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    int status, fd = item->fd;

    dlr_agent_unwatch(arg, fd);
    if (dlr_spawn_reap(fd, &status) < 0)
        close(fd);
    return 0;
}

void dlr_agent_kill_and_reap(struct dlr_agent_base *base, pid_t pid, int pidfd)
{
    int status;

    kill(pid, SIGKILL);
    if (dlr_spawn_reap(pidfd, &status) < 0)
        dlr_agent_watch(base, pidfd, buried, base);
}
