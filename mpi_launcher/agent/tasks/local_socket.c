/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

/* JSON carries UTF-8 only, and a program's stderr is bytes. */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p >= 0x7f)
            *p = '?';
}

static void close_conn(struct dlr_agent_conn *c)
{
    struct dlr_agent *a = c->owner;
    void *handle = zlistx_find(a->conns, c);
    enum dlr_agent_conn_kind kind = c->kind;
    uint32_t round = c->round;

    dlr_agent_unwatch(a->base, c->fd);
    close(c->fd);
    c->fd = -1;
    zlistx_detach(a->conns, handle);
    dlr_agent_bring_gone(a->snapshots, c);
    if (kind == DLR_CONN_STEPD)
        dlr_agent_tasks_step_gone(a, c);
    if (kind == DLR_CONN_WORKER)
        dlr_agent_claims_gone(a, c);
    free(c);
    if (kind == DLR_CONN_STEPD) {
        dlr_agent_tasks_say_stepd(a, round);
        dlr_agent_tasks_settle(a, round);
    }
}

static void tell_stderr(struct dlr_agent *a, struct dlr_local_msg *m)
{
    make_printable(m->text);
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I, s:i, s:s}", "v", DLR_MSG_VERSION,
                                     "t", "stderr", "round", (json_int_t)m->round,
                                     "rank", m->rank, "text", m->text));
}

/* The first message says what the connection is. A step of an ended round is taken too: its
 * tasks have to be killed.
 */
static int on_first(struct dlr_agent_conn *c, struct dlr_local_msg *m)
{
    struct dlr_agent *a = c->owner;

    c->round = m->round;
    c->rank = m->rank;
    switch (m->type) {
    case DLR_LOCAL_STEPD:
        c->kind = DLR_CONN_STEPD;
        dlr_agent_tasks_say_stepd(a, c->round);
        return 0;
    case DLR_LOCAL_STDERR:
        c->kind = DLR_CONN_STDERR;
        tell_stderr(a, m);
        return 0;
    case DLR_LOCAL_HELLO:
        if (!dlr_agent_round_is(&a->round, m->round))
            return -ESTALE;
        c->kind = DLR_CONN_WORKER;
        c->world = m->arg[0] > INT32_MAX ? 0 : (uint32_t)m->arg[0];
        dlr_agent_claims_hello(a, c);
        return 0;
    case DLR_LOCAL_PEEK: /* and nothing else, until it closes */
        if (!dlr_agent_round_is(&a->round, m->round))
            return -ESTALE;
        dlr_agent_peek(a->snapshots, c, m->arg[0]);
        return 0;
    case DLR_LOCAL_BAD:
        if (!dlr_agent_round_is(&a->round, m->round))
            return -ESTALE;
        dlr_agent_bad(a->snapshots, c, m->step);
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
    struct dlr_agent *a = c->owner;

    if (m->round != c->round || m->rank != c->rank ||
        !dlr_agent_round_is(&a->round, m->round))
        return -ESTALE;
    if (!dlr_agent_ranks_serves(a->snapshots,
                                c)) /* it was refused, or another has its rank by now */
        return m->type == DLR_LOCAL_BYE ? -ECONNRESET : -ESTALE;
    make_printable(m->text);
    switch (m->type) {
    case DLR_LOCAL_RESERVE:
        dlr_agent_ranks_reserve(a->snapshots, m->rank, m->arg[0], true);
        return 0;
    case DLR_LOCAL_SEALED:
        dlr_agent_save_sealed(a->snapshots, m);
        return 0;
    case DLR_LOCAL_DEAD:
        if (m->arg[0])
            dlr_agent_save_torn(a->snapshots, m->rank, m->step, m->text);
        else
            dlr_agent_save_missed(a->snapshots, m->rank, m->step, m->text);
        return 0;
    case DLR_LOCAL_RESTORED:
        dlr_agent_ranks_restored(a->snapshots, m);
        return 0;
    case DLR_LOCAL_BYE:
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
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]); /* nobody sends us any */
    if (rc > 0) {
        rc = on_message(c, &m);
        if (rc == 0)
            return 0;
    }
    if (rc < 0 && rc != -ECONNRESET)
        dlr_debug("local connection refused: %s", strerror(-rc));
    close_conn(c);
    return 0;
}

static int on_accept(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    int fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct dlr_agent_conn *c;
    unsigned uid;
    int pid;

    if (fd < 0)
        return 0;
    c = calloc(1, sizeof(*c));
    if (dlr_local_peer(fd, &uid, &pid) < 0 || uid != geteuid()) {
        close(fd);
        free(c);
        dlr_agent_strangers_add(a->base);
        return 0;
    }
    if (!c || zlistx_size(a->conns) >= DLR_AGENT_CONNS) {
        close(fd);
        free(c);
        return 0;
    }
    *c = (struct dlr_agent_conn){.owner = a, .fd = fd, .pid = pid, .rank = -1};
    zlistx_add_end(a->conns, c);
    dlr_agent_watch(a->base, fd, on_conn, c);
    return 0;
}

void dlr_agent_local_drop_workers(struct dlr_agent *a, uint32_t before_round)
{
    struct dlr_agent_conn *c = zlistx_first(a->conns);

    while (c) {
        struct dlr_agent_conn *old = c;

        c = zlistx_next(a->conns);
        if (old->kind != DLR_CONN_WORKER || old->round >= before_round)
            continue;
        close_conn(old);
        c = zlistx_first(a->conns); /* closing has moved the cursor */
    }
}

bool dlr_agent_local_has_stepd(const struct dlr_agent *a, uint32_t round)
{
    for (struct dlr_agent_conn *c = zlistx_first(a->conns); c;
         c = zlistx_next(a->conns))
        if (c->kind == DLR_CONN_STEPD && c->round == round)
            return true;
    return false;
}

int dlr_agent_local_start(struct dlr_agent *a, struct dlr_err *err)
{
    char path[DLR_OPT_TEXT + 16];
    int rc;

    a->conns = zlistx_new();
    if (!a->conns)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_format(path, sizeof(path), "%s/agent.sock", a->self.conf.memory);
    rc = dlr_local_listen(path, &a->listen_fd, err);
    if (rc < 0)
        return rc;
    dlr_agent_watch(a->base, a->listen_fd, on_accept, a);
    return 0;
}

void dlr_agent_local_stop(struct dlr_agent *a)
{
    struct dlr_agent_conn *c;

    if (a->listen_fd >= 0)
        dlr_agent_unwatch(a->base, a->listen_fd);
    if (!a->conns)
        return;
    while ((c = zlistx_first(a->conns)))
        close_conn(c);
    zlistx_destroy(&a->conns);
}

void dlr_agent_local_close(struct dlr_agent *a)
{
    if (a->listen_fd >= 0)
        close(a->listen_fd);
    a->listen_fd = -1;
}
