/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/data_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "common/local/split.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/agent/data/own_hosts.h"
#include "mpi_launcher/process/spawn.h"

#define END_MS 20 /* a process whose connection has ended, to be gone */

static int on_data(zloop_t *loop, zmq_pollitem_t *item, void *arg);

static void fail_all(struct dlr_agent *a, const char *why)
{
    struct dlr_local_msg *m;

    while ((m = zlistx_detach(a->data.out, NULL)))
        free(m);
    dlr_agent_requests_fail(a, why);
    a->data.ops->gone(a, why);
}

static int start_again(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;
    struct dlr_err err;

    a->data.timer = -1;
    a->data.rests = false;
    if (dlr_agent_data_start(a, &err) == 0)
        return 0;
    dlr_error("%s: %s", a->self.node, err.text);
    a->data.ops->refused(a, err.text);
    return 0;
}

static void forget_process(struct dlr_agent *a)
{
    dlr_agent_unwatch(a->base, a->data.fd);
    close(a->data.fd);
    a->data.fd = -1;
    dlr_agent_bury(a->base, a->data.pid, a->data.pidfd);
    a->data.pidfd = -1;
    a->data.address[0] = '\0';
    a->data.uses_known = false;
}

/* As of waitpid(2), -1: it has not ended in time. Its sockets are closed a moment before. */
static int await_end(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    siginfo_t info = {0};

    if (poll(&p, 1, END_MS) != 1 ||
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        !info.si_pid)
        return -1;
    return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status;
}

/* What it held is in slot headers; what it was doing has failed. */
static void lost(struct dlr_agent *a)
{
    char how[128], why[192];
    int64_t pause_ms;

    dlr_deaths_describe(await_end(a->data.pidfd), how, sizeof(how));
    dlr_format(why, sizeof(why), "the data process %s", how);
    forget_process(a);
    fail_all(a, why);
    pause_ms = dlr_deaths_pause_ms(&a->data.deaths, dlr_now_ms(), &a->data.rests);
    if (a->data.rests) {
        dlr_error("%s: %s, %d times in %d min: no snapshots here for %" PRId64 " s",
                  a->self.node, why, DLR_DEATHS_MAX, DLR_DEATHS_WINDOW_MS / 60000,
                  pause_ms / 1000);
        a->data.ops->refused(a, why); /* else the next one is asked for them */
    } else if (!dlr_agent_leaves(a->base)) {
        dlr_warn("%s: %s; starting it again", a->self.node, why);
    }
    if (!dlr_agent_leaves(a->base))
        dlr_agent_timer(a->base, &a->data.timer, pause_ms, start_again, a);
    a->data.ops->changed(a);
}

static void on_hello(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    if (dlr_format(a->data.address, sizeof(a->data.address), "%s", m->text) < 0)
        return;
    a->data.ops->ready(a);
}

static void on_done(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    dlr_agent_requests_end(a, m->arg[1], m->arg[2] > INT32_MAX ? -EIO : -(int)m->arg[2],
                           m->text);
}

static void on_reserved(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    int rc = -(int)(m->arg[1] & INT32_MAX);

    if (m->arg[2] == DLR_STORE_BROUGHT)
        a->data.ops->room(a, m->rank, rc, m->text);
    else
        a->data.ops->reserved(a, m->rank, rc, m->text);
}

static void on_copied(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    a->data.ops->copied(a, m->rank);
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "v",
                            DLR_MSG_VERSION, "t", "copied", "round",
                            (json_int_t)a->round.round, "rank", m->rank, "vround",
                            (json_int_t)m->arg[0], "step", (json_int_t)m->step, "bytes",
                            (json_int_t)m->arg[1], "ns", (json_int_t)m->arg[2]));
}

static void on_uses(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    json_t *msg = json_loadb(m->text, m->text_len, 0, NULL);

    if (!json_is_object(msg)) {
        json_decref(msg);
        return;
    }
    json_object_set_new(msg, "v", json_integer(DLR_MSG_VERSION));
    json_object_set_new(msg, "t", json_string("uses"));
    a->data.ops->uses(a, msg);
    dlr_agent_say(a->base, msg);
}

static void dispatch(struct dlr_agent *a, const struct dlr_local_msg *m)
{
    switch (m->type) {
    case DLR_LOCAL_D_HELLO:
        on_hello(a, m);
        return;
    case DLR_LOCAL_D_RESERVED:
        on_reserved(a, m);
        return;
    case DLR_LOCAL_D_DONE:
        on_done(a, m);
        return;
    case DLR_LOCAL_D_COPIED:
        on_copied(a, m);
        return;
    case DLR_LOCAL_D_BAD:
        a->data.ops->bad(a, m);
        return;
    case DLR_LOCAL_D_USES:
        on_uses(a, m);
        return;
    default:
        return;
    }
}

static void flush(struct dlr_agent *a)
{
    struct dlr_local_msg *m;

    while ((m = zlistx_first(a->data.out))) {
        if (dlr_local_send(a->data.fd, m, NULL, 0) == -EAGAIN)
            return;
        zlistx_detach(a->data.out, NULL);
        free(m);
    }
    dlr_agent_unwatch(a->base, a->data.fd);
    dlr_agent_watch(a->base, a->data.fd, on_data, a);
}

static int on_data(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    rc = dlr_local_recv(a->data.fd, &m, fds, &nfds);
    for (unsigned i = 0; i < nfds; i++)
        close(
            fds[i]); /* the files have names: mpi_launcher/agent/snapshots/ranks.c opens them */
    if (rc == 0 || (rc < 0 && rc != -EAGAIN)) {
        lost(a);
        return 0;
    }
    if (rc > 0)
        dispatch(a, &m);
    if (a->data.fd >= 0 && zlistx_size(a->data.out) > 0)
        flush(a);
    return 0;
}

void dlr_agent_data_send(struct dlr_agent *a, const struct dlr_local_msg *msg)
{
    struct dlr_local_msg *copy;

    if (a->data.fd < 0)
        return;
    if (zlistx_size(a->data.out) == 0 &&
        dlr_local_send(a->data.fd, msg, NULL, 0) != -EAGAIN)
        return; /* another failure shows itself as an end of file */
    copy = malloc(sizeof(*copy));
    if (!copy)
        return;
    *copy = *msg;
    if (zlistx_size(a->data.out) == 0) {
        dlr_agent_unwatch(a->base, a->data.fd);
        dlr_agent_watch_out(a->base, a->data.fd, on_data, a);
    }
    zlistx_add_end(a->data.out, copy);
}

static json_t *accepted(const struct dlr_agent_round *round)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < round->naccept; i++)
        json_array_append_new(list, json_integer(round->accept[i]));
    return list;
}

/* Their slots are marked here (mpi_launcher/agent/snapshots/save.c). */
static json_t *own_ranks(const struct dlr_agent *a)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->own)
            json_array_append_new(list, json_integer(a->ranks[i]->rank));
    return list;
}

/* A parity shard is made of every version. */
static void order_shard(struct dlr_agent *a, const struct dlr_agent_sum *sum)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_SUM);
    m.round = a->round.round;
    m.rank = sum->rank;
    m.arg[0] = UINT32_MAX;
    dlr_local_text(&m, "%s", sum->terms);
    dlr_agent_data_send(a, &m);
}

/* Whether another node of the job is on this host, as several slurmd on one are: else nobody there has any
 * business with the data process.
 */
static bool shares_host(const struct dlr_agent *a)
{
    const char *port = strrchr(dlr_agent_peers_addr(a->base), ':');
    size_t n = port ? (size_t)(port + 1 - dlr_agent_peers_addr(a->base)) : 0;

    for (unsigned i = 0; i < dlr_agent_peer_list(a->base)->n; i++)
        if (!dlr_streq(dlr_agent_peer_list(a->base)->all[i].node, a->self.node) &&
            strncmp(dlr_agent_peer_list(a->base)->all[i].addr,
                    dlr_agent_peers_addr(a->base), n) == 0)
            return true;
    return false;
}

void dlr_agent_data_peers(struct dlr_agent *a)
{
    if (a->round.known &&
        (a->data.local != shares_host(a) || a->self.job.transport == DLR_TRANSPORT_UCX))
        dlr_agent_data_config(a);
}

void dlr_agent_data_config(struct dlr_agent *a)
{
    const struct dlr_agent_round *round = &a->round;
    DLR_AUTO_JSON json_t *conf = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_local_msg m;
    uint32_t count;
    size_t bytes;

    a->data.local = shares_host(a);
    conf =
        json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:b, s:b, s:o*}", "dir",
                  a->self.conf.memory, "key", a->self.conf.key, "round",
                  (json_int_t)round->round, "token", round->token, "accept",
                  accepted(round), "bring", a->data.ops->bring(a), "own", own_ranks(a),
                  "resized", round->made_by > 0, "local", a->data.local, "hosts",
                  a->self.job.transport == DLR_TRANSPORT_UCX
                      ? dlr_hosts_of(dlr_agent_peer_list(a->base))
                      : NULL);
    text = conf ? dlr_msg_text(conf) : NULL;
    bytes = text ? strlen(text) : 0;
    count = dlr_parts_count(bytes);
    if (!text || !count) {
        dlr_error("%s: no memory for the data process's configuration", a->self.node);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        dlr_local_init(&m, DLR_LOCAL_D_CONFIG);
        m.round = round->round;
        dlr_parts_put(&m, text, bytes, i, count);
        dlr_agent_data_send(a, &m);
    }
}

void dlr_agent_data_round(struct dlr_agent *a, bool drop)
{
    const struct dlr_agent_round *round = &a->round;
    struct dlr_local_msg m;

    dlr_agent_data_config(a);
    for (unsigned i = 0; i < round->nsums; i++)
        order_shard(a, &round->sums[i]);
    if (!drop)
        return;
    dlr_local_init(&m, DLR_LOCAL_D_DROP);
    m.round = round->round;
    m.arg[0] = round->has_restore ? round->restore.round : UINT32_MAX;
    m.step = round->has_restore ? round->restore.step : UINT64_MAX;
    dlr_agent_data_send(a, &m);
}

void dlr_agent_data_request(struct dlr_agent *a, const struct dlr_agent_request *q)
{
    uint64_t id = dlr_agent_requests_add(a, q);
    struct dlr_local_msg m;

    if (!id)
        return;
    dlr_local_init(&m, q->type);
    m.round = a->round.round;
    m.rank = q->rank;
    m.step = q->version.step;
    m.arg[0] = q->version.round;
    m.arg[1] = id;
    m.arg[2] = q->save ? 1 : q->rate;
    m.arg[3] = q->follow;
    dlr_local_text(&m, "%s", q->text);
    dlr_agent_data_send(a, &m);
}

int dlr_agent_data_start(struct dlr_agent *a, struct dlr_err *err)
{
    char threads[32], net[DLR_OPT_TEXT + 8], class[32], limit[64], transport[32];
    char ports[DLR_OPT_TEXT + 8], word[16];
    char memory[DLR_OPT_TEXT + 16], run[DLR_OPT_TEXT + 16], from[DLR_OPT_TEXT + 16];
    const char *argv[] = {a->self.conf.data_program,
                          threads,
                          net,
                          class,
                          limit,
                          transport,
                          ports,
                          memory,
                          run,
                          from,
                          NULL};
    struct dlr_spawn spawn = {.argv = argv, .out_fd = -1};
    DLR_AUTO_CLOSE int ours = -1;
    DLR_AUTO_CLOSE int theirs = -1;
    int pair[2], rc;

    if (!a->data.out) {
        a->data.out = zlistx_new();
        a->data.requests = zlistx_new();
    }
    if (!a->data.out || !a->data.requests)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (!a->self.job.checkpoint)
        return 0;
    snprintf(threads, sizeof(threads), "--threads=%u", a->self.job.data_threads);
    snprintf(net, sizeof(net), "--net=%s",
             a->net.device[0] ? a->net.device : a->self.job.net);
    snprintf(class, sizeof(class), "--net-class=%u", a->self.job.net_class);
    snprintf(limit, sizeof(limit), "--transfer-timeout=%" PRId64 "ms",
             a->self.job.transfer_timeout_ms);
    snprintf(memory, sizeof(memory), "--memory=%s", a->self.conf.memory);
    snprintf(run, sizeof(run), "--run-dir=%s", a->self.conf.run_dir);
    snprintf(from, sizeof(from), "--restore-from=%s",
             a->self.job.restore_from[0] == '/' ? a->self.job.restore_from : "");
    dlr_opt_show(dlr_opt_find(dlr_jobconf_opts, "transport"), &a->self.job, word,
                 sizeof(word));
    snprintf(transport, sizeof(transport), "--transport=%s", word);
    snprintf(ports, sizeof(ports), "--ports=%s", a->self.conf.peer_ports);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return dlr_fail(err, -errno, "socketpair: %s", strerror(errno));
    ours = pair[0];
    theirs = pair[1];
    fcntl(ours, F_SETFL, O_NONBLOCK);
    spawn.pass_fd = theirs;
    rc = dlr_spawn(&spawn, &a->data.pid, &a->data.pidfd, err);
    if (rc < 0)
        return rc;
    a->data.fd = dlr_steal_fd(&ours);
    dlr_agent_watch(a->base, a->data.fd, on_data, a);
    return 0;
}

void dlr_agent_data_restart(struct dlr_agent *a, const char *why)
{
    struct dlr_err err;

    if (a->data.fd < 0)
        return; /* the next one is started with what holds by then */
    forget_process(a);
    fail_all(a, why);
    a->data.ops->changed(a);
    if (dlr_agent_data_start(a, &err) == 0)
        return;
    dlr_error("%s: %s", a->self.node, err.text);
    a->data.ops->refused(a, err.text);
}

void dlr_agent_data_stop(struct dlr_agent *a)
{
    dlr_agent_timer_end(a->base, &a->data.timer);
    if (a->data.fd >= 0)
        forget_process(a);
    if (a->data.out && a->data.requests)
        fail_all(a, "the agent ends");
    zlistx_destroy(&a->data.out);
    zlistx_destroy(&a->data.requests);
}
