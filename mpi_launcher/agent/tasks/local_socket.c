/* SPDX-License-Identifier: Apache-2.0 */
/* The node's own socket: connections of slurmstepd and of workers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/auth_failures.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"

#define CONNS 4096 /* local connections at once */
#define BACKLOG 64

/* JSON carries UTF-8 only, and a program's stderr is bytes. */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p >= 0x7f)
            *p = '?';
}

static void close_conn(struct dlr_agent_conn *c)
{
    struct dlr_agent_tasks *tasks = c->owner;
    void *handle = zlistx_find(tasks->conns, c);
    enum dlr_agent_conn_kind kind = c->kind;
    uint32_t round = c->round;

    dlr_agent_unwatch(tasks->base, c->fd);
    if (c->kept)
        shutdown(c->fd, SHUT_RDWR); /* who keeps it may close it late */
    dlr_kept_del(dlr_agent_kept(tasks->base), &c->kept);
    dlr_agent_changed(tasks->base);
    close(c->fd);
    c->fd = -1;
    zlistx_detach(tasks->conns, handle);
    dlr_agent_fetch_gone(tasks->snapshots, c);
    if (kind == DLR_CONN_STEPD)
        dlr_agent_tasks_step_gone(tasks, c);
    if (kind == DLR_CONN_WORKER)
        dlr_agent_claims_gone(tasks, c);
    if (kind == DLR_CONN_STAY)
        dlr_agent_stay_gone(tasks, c);
    if (kind == DLR_CONN_WARM)
        dlr_agent_warm_gone(tasks, c);
    free(c);
    if (kind == DLR_CONN_STEPD) {
        dlr_agent_tasks_send_stepd(tasks, round);
        dlr_agent_tasks_settle(tasks, round);
    }
}

static void tell_stderr(struct dlr_agent_tasks *tasks, struct dlr_local_msg *m)
{
    make_printable(m->text);
    dlr_agent_send_supervisor(tasks->base, json_pack("{s:i, s:s, s:I, s:i, s:s}", "v",
                                                     DLR_MSG_VERSION, "t", "stderr",
                                                     "round", (json_int_t)m->round,
                                                     "rank", m->rank, "text", m->text));
}

/* The first message says what the connection is. A step of an ended round is taken too:
 * its tasks have to be killed.
 */
static int on_first(struct dlr_agent_conn *c, struct dlr_local_msg *m)
{
    struct dlr_agent_tasks *tasks = c->owner;

    c->round = m->round;
    c->rank = m->rank;
    switch (m->type) {
    case DLR_LOCAL_STEPD:
        c->kind = DLR_CONN_STEPD;
        dlr_agent_tasks_send_stepd(tasks, c->round);
        return 0;
    case DLR_LOCAL_STDERR:
        c->kind = DLR_CONN_STDERR;
        tell_stderr(tasks, m);
        return 0;
    case DLR_LOCAL_HELLO:
        if (!dlr_agent_round_is(tasks->round, m->round))
            return -ESTALE;
        c->kind = DLR_CONN_WORKER;
        c->world = m->arg[0] > INT32_MAX ? 0 : (uint32_t)m->arg[0];
        dlr_agent_claims_hello(tasks, c);
        return 0;
    case DLR_LOCAL_STAY:
        if (!dlr_agent_round_is(tasks->round, m->round))
            return -ESTALE;
        c->kind = DLR_CONN_STAY;
        dlr_agent_stay_say(tasks, c->rank);
        return 0;
    case DLR_LOCAL_WARM:
        return dlr_agent_warm_waits(c);
    case DLR_LOCAL_PEEK: /* and nothing else, until it closes */
        if (!dlr_agent_round_is(tasks->round, m->round))
            return -ESTALE;
        dlr_agent_peek(tasks->snapshots, c, m->arg[0]);
        return 0;
    case DLR_LOCAL_WATCH: /* as PEEK */
        if (!dlr_agent_round_is(tasks->round, m->round))
            return -ESTALE;
        dlr_agent_watch_open(tasks->watch, c, m);
        return 0;
    case DLR_LOCAL_BAD:
        if (!dlr_agent_round_is(tasks->round, m->round))
            return -ESTALE;
        dlr_agent_bad(tasks->snapshots, c, m->step);
        return 0;
    default:
        return -EBADMSG;
    }
}

static int on_stepd(struct dlr_agent_conn *c, const struct dlr_local_msg *m)
{
    if (m->round != c->round)
        return -EBADMSG;
    if (m->type == DLR_LOCAL_TASK && m->arg[0] <= INT32_MAX)
        dlr_agent_tasks_add(c->owner, c, m->rank, (pid_t)m->arg[0]);
    else if (m->type == DLR_LOCAL_EXIT && m->arg[0] <= INT32_MAX)
        dlr_agent_tasks_exit(c->owner, c->round, m->rank, (int)m->arg[0]);
    else
        return -EBADMSG;
    return 0;
}

static int on_worker(struct dlr_agent_conn *c, struct dlr_local_msg *m)
{
    struct dlr_agent_tasks *tasks = c->owner;

    if (m->round != c->round || m->rank != c->rank ||
        !dlr_agent_round_is(tasks->round, m->round))
        return -ESTALE;
    if (!dlr_agent_ranks_serves(tasks->snapshots,
                                c)) /* it was refused, or another has its rank by now */
        return m->type == DLR_LOCAL_CLOSE ? -ECONNRESET : -ESTALE;
    make_printable(m->text);
    switch (m->type) {
    case DLR_LOCAL_RESERVE:
        dlr_agent_ranks_reserve(tasks->snapshots, m->rank, m->arg[0], true);
        return 0;
    case DLR_LOCAL_SEALED:
        dlr_agent_save_sealed(tasks->snapshots, m);
        return 0;
    case DLR_LOCAL_DEAD:
        if (m->arg[0])
            dlr_agent_save_torn(tasks->snapshots, m->rank, m->step, m->text);
        else
            dlr_agent_save_missed(tasks->snapshots, m->rank, m->step, m->text);
        return 0;
    case DLR_LOCAL_RESTORED:
        dlr_agent_ranks_restored(tasks->snapshots, m);
        return 0;
    case DLR_LOCAL_CLOSE:
        return -ECONNRESET; /* a child may hold its end for as long as it lives */
    default:
        return -EBADMSG;
    }
}

static int on_message(struct dlr_agent_conn *c, struct dlr_local_msg *m)
{
    switch (c->kind) {
    case DLR_CONN_NEW:
        return on_first(c, m);
    case DLR_CONN_STEPD:
        return on_stepd(c, m);
    case DLR_CONN_WORKER:
        return on_worker(c, m);
    case DLR_CONN_STDERR:
        if (m->type != DLR_LOCAL_STDERR)
            return -EBADMSG;
        tell_stderr(c->owner, m);
        return 0;
    case DLR_CONN_STAY:
        if (m->type != DLR_LOCAL_PARKED)
            return -EBADMSG;
        dlr_agent_stay_parked(c);
        return 0;
    case DLR_CONN_RELAY:
    case DLR_CONN_WARM:
        break; /* they only hear */
    }
    return -EBADMSG;
}

static int on_conn(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_conn *c = arg;
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    rc = dlr_local_recv(c->fd, &m, fds, &nfds);
    if (rc == -EAGAIN)
        return 0;
    if (rc > 0 && m.type != DLR_LOCAL_SEALED) /* often, and it changes nothing here */
        dlr_agent_changed(((struct dlr_agent_tasks *)c->owner)->base);
    if (rc > 0)
        rc = m.type == DLR_LOCAL_RELAY ? dlr_agent_stay_relay(c, &m, fds, nfds)
                                       : on_message(c, &m);
    else if (rc == 0)
        rc = -ECONNRESET;
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    if (rc == 0)
        return 0;
    if (rc < 0 && rc != -ECONNRESET)
        dlr_debug("local connection refused: %s", strerror(-rc));
    close_conn(c);
    return 0;
}

struct dlr_agent_conn *dlr_agent_conn_add(struct dlr_agent_tasks *tasks, int fd,
                                          int pid, unsigned kept)
{
    struct dlr_agent_conn *c =
        zlistx_size(tasks->conns) < CONNS ? calloc(1, sizeof(*c)) : NULL;

    if (!c)
        return NULL;
    *c = (struct dlr_agent_conn){
        .owner = tasks, .fd = fd, .pid = pid, .rank = -1, .kept = kept};
    if (!kept)
        c->kept = dlr_kept_add(dlr_agent_kept(tasks->base), fd);
    dlr_agent_changed(tasks->base);
    zlistx_add_end(tasks->conns, c);
    dlr_agent_watch(tasks->base, fd, on_conn, c);
    return c;
}

static int on_accept(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;
    int fd = accept4(tasks->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned uid;
    int pid;

    if (fd < 0)
        return 0;
    if (dlr_local_peer(fd, &uid, &pid) < 0 || uid != geteuid()) {
        close(fd);
        dlr_agent_auth_failures_add(tasks->base);
    } else if (!dlr_agent_conn_add(tasks, fd, pid, 0)) {
        close(fd);
    }
    return 0;
}

static void drop_workers(struct dlr_agent_tasks *tasks, uint32_t before_round)
{
    struct dlr_agent_conn *c = zlistx_first(tasks->conns);

    while (c) {
        struct dlr_agent_conn *old = c;

        c = zlistx_next(tasks->conns);
        if (old->kind != DLR_CONN_WORKER || old->round >= before_round)
            continue;
        close_conn(old);
        c = zlistx_first(tasks->conns); /* closing has moved the cursor */
    }
}

void dlr_agent_tasks_round(struct dlr_agent_tasks *tasks)
{
    tasks->lost = 0;
    tasks->asked = tasks->round->gathered;
    dlr_agent_watch_round(tasks->watch);
    dlr_agent_stay_round(tasks);
    dlr_agent_warm_round(tasks);
    drop_workers(tasks, tasks->round->round);
    dlr_agent_tasks_forget(tasks, tasks->round->round);
}

/* A former agent's, and ours: who connects from now on sees us. */
static int listen_again(int fd, struct dlr_err *err)
{
    if (listen(fd, BACKLOG) < 0)
        return dlr_fail(err, -errno, "cannot listen once more: %s", strerror(errno));
    return 0;
}

int dlr_agent_tasks_start(struct dlr_agent_tasks *tasks, struct dlr_err *err)
{
    char path[DLR_OPT_TEXT + 16];
    int rc;

    dlr_format(path, sizeof(path), "%s/agent.sock", tasks->self->conf.memory);
    rc = tasks->listen_fd >= 0 ? listen_again(tasks->listen_fd, err)
                               : dlr_local_listen(path, &tasks->listen_fd, err);
    if (rc < 0)
        return rc;
    if (!tasks->listen_kept)
        tasks->listen_kept =
            dlr_kept_add(dlr_agent_kept(tasks->base), tasks->listen_fd);
    dlr_agent_watch(tasks->base, tasks->listen_fd, on_accept, tasks);
    return 0;
}

void dlr_agent_tasks_stop(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_conn *c;

    if (tasks->listen_fd >= 0)
        dlr_agent_unwatch(tasks->base, tasks->listen_fd);
    while ((c = zlistx_first(tasks->conns)))
        close_conn(c);
    dlr_agent_tasks_drop(tasks);
    dlr_agent_warm_end(tasks);
}

struct dlr_agent_tasks *dlr_agent_tasks_free(struct dlr_agent_tasks *tasks)
{
    if (!tasks)
        return NULL;
    dlr_agent_stacks_end(tasks);
    zlistx_destroy(&tasks->conns);
    zlistx_destroy(&tasks->all);
    tasks->watch = dlr_agent_watch_free(tasks->watch);
    if (tasks->listen_fd >= 0)
        close(tasks->listen_fd);
    free(tasks);
    return NULL;
}

struct dlr_agent_tasks *dlr_agent_tasks_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_self *self,
                                            const struct dlr_agent_round *round,
                                            struct dlr_agent_snapshots *snapshots)
{
    struct dlr_agent_tasks *tasks = calloc(1, sizeof(*tasks));

    if (!tasks)
        return NULL;
    tasks->base = base;
    tasks->self = self;
    tasks->round = round;
    tasks->snapshots = snapshots;
    tasks->listen_fd = tasks->retry_timer = tasks->park_timer = tasks->warm.timer = -1;
    tasks->kill_up_to_round = -1;
    tasks->conns = zlistx_new();
    tasks->all = zlistx_new();
    tasks->watch = dlr_agent_watch_new(base, round);
    return tasks->conns && tasks->all && tasks->watch ? tasks
                                                      : dlr_agent_tasks_free(tasks);
}
