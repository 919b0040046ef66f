/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/data_process.h"

#include <czmq.h>
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
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/data/data_state.h"
#include "mpi_launcher/agent/data/own_hosts.h"
#include "mpi_launcher/process/spawn.h"

#define END_MS 20 /* a process whose connection has ended, to be gone */

static int on_data(zloop_t *loop, zmq_pollitem_t *item, void *arg);

static void fail_all(struct dlr_agent_data *d, const char *why)
{
    struct dlr_local_msg *m;

    while ((m = zlistx_detach(d->out, NULL)))
        free(m);
    dlr_agent_requests_fail(d, why);
    d->ops->gone(d->arg, why);
}

static int start_again(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_data *d = arg;
    struct dlr_err err;

    d->timer = -1;
    d->rests = false;
    if (dlr_agent_data_start(d, &err) == 0)
        return 0;
    dlr_error("%s: %s", d->self->node, err.text);
    d->ops->refused(d->arg, err.text);
    return 0;
}

static void forget_process(struct dlr_agent_data *d)
{
    dlr_agent_unwatch(d->base, d->fd);
    close(d->fd);
    d->fd = -1;
    dlr_agent_kill_and_reap(d->base, d->pid, d->pidfd);
    d->pidfd = -1;
    d->address[0] = '\0';
}

/* As of waitpid(2), -1: it has not ended in time. Its sockets are closed a moment
 * before.
 */
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
static void lost(struct dlr_agent_data *d)
{
    char how[128], why[192];
    int64_t pause_ms;

    dlr_restart_delay_describe(await_end(d->pidfd), how, sizeof(how));
    dlr_format(why, sizeof(why), "the data process %s", how);
    forget_process(d);
    fail_all(d, why);
    pause_ms = dlr_restart_delay_pause_ms(&d->deaths, dlr_now_ms(), &d->rests);
    if (d->rests) {
        dlr_error("%s: %s, %d times in %d min: no snapshots here for %" PRId64 " s",
                  d->self->node, why, DLR_RESTART_DELAY_MAX,
                  DLR_RESTART_DELAY_WINDOW_MS / 60000, pause_ms / 1000);
        d->ops->refused(d->arg, why); /* else the next one is asked for them */
    } else if (!dlr_agent_leaves(d->base)) {
        dlr_warn("%s: %s; starting it again", d->self->node, why);
    }
    if (!dlr_agent_leaves(d->base))
        dlr_agent_timer(d->base, &d->timer, pause_ms, start_again, d);
    d->ops->changed(d->arg);
}

static void on_hello(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    if (dlr_format(d->address, sizeof(d->address), "%s", m->text) < 0)
        return;
    d->ops->ready(d->arg);
}

static void on_done(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    dlr_agent_requests_end(d, m->arg[1], m->arg[2] > INT32_MAX ? -EIO : -(int)m->arg[2],
                           m->text);
}

static void on_reserved(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    d->ops->reserved(d->arg, m->rank, m->arg[2], -(int)(m->arg[1] & INT32_MAX),
                     m->text);
}

static void on_copied(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    d->ops->copied(d->arg, m->rank);
    dlr_agent_send_supervisor(
        d->base,
        json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "v", DLR_MSG_VERSION, "t",
                  "copied", "round", (json_int_t)d->round->round, "rank", m->rank,
                  "vround", (json_int_t)m->arg[0], "step", (json_int_t)m->step, "bytes",
                  (json_int_t)m->arg[1], "ns", (json_int_t)m->arg[2]));
}

static void on_uses(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    json_t *msg = json_loadb(m->text, m->text_len, 0, NULL);
    const char *uses = "";

    if (!json_is_object(msg)) {
        json_decref(msg);
        return;
    }
    dlr_msg_str(msg, "uses", &uses);
    dlr_format(d->uses, sizeof(d->uses), "%s", uses);
    json_object_set_new(msg, "v", json_integer(DLR_MSG_VERSION));
    json_object_set_new(msg, "t", json_string("uses"));
    d->ops->uses(d->arg, msg);
    dlr_agent_send_supervisor(d->base, msg);
}

static void dispatch(struct dlr_agent_data *d, const struct dlr_local_msg *m)
{
    switch (m->type) {
    case DLR_LOCAL_D_HELLO:
        on_hello(d, m);
        return;
    case DLR_LOCAL_D_RESERVED:
        on_reserved(d, m);
        return;
    case DLR_LOCAL_D_DONE:
        on_done(d, m);
        return;
    case DLR_LOCAL_D_COPIED:
        on_copied(d, m);
        return;
    case DLR_LOCAL_D_BAD:
        d->ops->bad(d->arg, m);
        return;
    case DLR_LOCAL_D_USES:
        on_uses(d, m);
        return;
    default:
        return;
    }
}

static void flush(struct dlr_agent_data *d)
{
    struct dlr_local_msg *m;

    while ((m = zlistx_first(d->out))) {
        if (dlr_local_send(d->fd, m, NULL, 0) == -EAGAIN)
            return;
        zlistx_detach(d->out, NULL);
        free(m);
    }
    dlr_agent_unwatch(d->base, d->fd);
    dlr_agent_watch(d->base, d->fd, on_data, d);
}

static int on_data(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_data *d = arg;
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    rc = dlr_local_recv(d->fd, &m, fds, &nfds);
    for (unsigned i = 0; i < nfds; i++)
        /* the files have names: mpi_launcher/agent/snapshots/ranks.c opens them */
        close(fds[i]);
    if (rc == 0 || (rc < 0 && rc != -EAGAIN)) {
        lost(d);
        return 0;
    }
    if (rc > 0)
        dispatch(d, &m);
    if (d->fd >= 0 && zlistx_size(d->out) > 0)
        flush(d);
    return 0;
}

void dlr_agent_data_send(struct dlr_agent_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_local_msg *copy;

    if (d->fd < 0)
        return;
    if (zlistx_size(d->out) == 0 && dlr_local_send(d->fd, msg, NULL, 0) != -EAGAIN)
        return; /* another failure shows itself as an end of file */
    copy = malloc(sizeof(*copy));
    if (!copy)
        return;
    *copy = *msg;
    if (zlistx_size(d->out) == 0) {
        dlr_agent_unwatch(d->base, d->fd);
        dlr_agent_watch_out(d->base, d->fd, on_data, d);
    }
    zlistx_add_end(d->out, copy);
}

static json_t *accepted(const struct dlr_agent_round *round)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < round->naccept; i++)
        json_array_append_new(list, json_integer(round->accept[i]));
    return list;
}

/* A parity shard is made of every version. */
static void order_shard(struct dlr_agent_data *d, const struct dlr_agent_parity *sum)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_PARITY);
    m.round = d->round->round;
    m.rank = sum->rank;
    m.arg[0] = UINT32_MAX;
    dlr_local_text(&m, "%s", sum->terms);
    dlr_agent_data_send(d, &m);
}

/* Whether another node of the job is on this host, as several slurmd on one are: else
 * nobody there has any business with the data process.
 */
static bool shares_host(const struct dlr_agent_data *d)
{
    const char *port = strrchr(dlr_agent_peers_addr(d->base), ':');
    size_t n = port ? (size_t)(port + 1 - dlr_agent_peers_addr(d->base)) : 0;

    for (unsigned i = 0; i < dlr_agent_peer_list(d->base)->n; i++)
        if (!dlr_streq(dlr_agent_peer_list(d->base)->all[i].node, d->self->node) &&
            strncmp(dlr_agent_peer_list(d->base)->all[i].addr,
                    dlr_agent_peers_addr(d->base), n) == 0)
            return true;
    return false;
}

void dlr_agent_data_peers(struct dlr_agent_data *d)
{
    if (d->round->known &&
        (d->local != shares_host(d) || d->self->job.transport == DLR_TRANSPORT_UCX))
        dlr_agent_data_config(d);
}

void dlr_agent_data_config(struct dlr_agent_data *d)
{
    const struct dlr_agent_round *round = d->round;
    DLR_AUTO_JSON json_t *conf = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_local_msg m;
    uint32_t count;
    size_t bytes;

    d->local = shares_host(d);
    conf = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:b, s:b, s:o*}", "dir",
                     d->self->conf.memory, "key", d->self->conf.key, "round",
                     (json_int_t)round->round, "token", round->token, "accept",
                     accepted(round), "fetch", d->ops->fetch(d->arg), "own",
                     d->ops->own(d->arg), "resized", round->made_by > 0, "local",
                     d->local, "hosts",
                     d->self->job.transport == DLR_TRANSPORT_UCX
                         ? dlr_host_words_of(dlr_agent_peer_list(d->base))
                         : NULL);
    text = conf ? dlr_msg_text(conf) : NULL;
    bytes = text ? strlen(text) : 0;
    count = dlr_split_count(bytes);
    if (!text || !count) {
        dlr_error("%s: no memory for the data process's configuration", d->self->node);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        dlr_local_init(&m, DLR_LOCAL_D_CONFIG);
        m.round = round->round;
        dlr_split_put(&m, text, bytes, i, count);
        dlr_agent_data_send(d, &m);
    }
}

void dlr_agent_data_round(struct dlr_agent_data *d, bool drop)
{
    const struct dlr_agent_round *round = d->round;
    struct dlr_local_msg m;

    dlr_agent_data_config(d);
    for (unsigned i = 0; i < round->nsums; i++)
        order_shard(d, &round->sums[i]);
    if (!drop)
        return;
    dlr_local_init(&m, DLR_LOCAL_D_DROP);
    m.round = round->round;
    m.arg[0] = round->has_restore ? round->restore.round : UINT32_MAX;
    m.step = round->has_restore ? round->restore.step : UINT64_MAX;
    dlr_agent_data_send(d, &m);
}

void dlr_agent_data_request(struct dlr_agent_data *d, const struct dlr_agent_request *q)
{
    uint64_t id = dlr_agent_requests_add(d, q);
    struct dlr_local_msg m;

    if (!id)
        return;
    dlr_local_init(&m, q->type);
    m.round = d->round->round;
    m.rank = q->rank;
    m.step = q->version.step;
    m.arg[0] = q->version.round;
    m.arg[1] = id;
    m.arg[2] = q->save ? 1 : q->rate;
    m.arg[3] = q->follow;
    dlr_local_text(&m, "%s", q->text);
    dlr_agent_data_send(d, &m);
}

int dlr_agent_data_start(struct dlr_agent_data *d, struct dlr_err *err)
{
    char threads[32], net[DLR_OPT_TEXT + 8], class[32], limit[64], transport[32];
    char ports[DLR_OPT_TEXT + 8], word[16];
    char memory[DLR_OPT_TEXT + 16], run[DLR_OPT_TEXT + 16], from[DLR_OPT_TEXT + 16];
    const char *argv[] = {d->self->conf.data_program,
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

    if (!d->self->job.checkpoint)
        return 0;
    snprintf(threads, sizeof(threads), "--threads=%u", d->self->job.stream_threads);
    snprintf(net, sizeof(net), "--net=%s",
             d->net.device[0] ? d->net.device : d->self->job.net);
    snprintf(class, sizeof(class), "--net-traffic-class=%u",
             d->self->job.net_traffic_class);
    snprintf(limit, sizeof(limit), "--transfer-timeout=%" PRId64 "ms",
             d->self->job.transfer_timeout_ms);
    snprintf(memory, sizeof(memory), "--memory=%s", d->self->conf.memory);
    snprintf(run, sizeof(run), "--run-dir=%s", d->self->conf.run_dir);
    snprintf(from, sizeof(from), "--restore-from=%s",
             d->self->job.restore_from[0] == '/' ? d->self->job.restore_from : "");
    dlr_opt_show(dlr_opt_find(dlr_job_config_opts, "transport"), &d->self->job, word,
                 sizeof(word));
    snprintf(transport, sizeof(transport), "--transport=%s", word);
    snprintf(ports, sizeof(ports), "--ports=%s", d->self->conf.peer_ports);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return dlr_fail(err, -errno, "socketpair: %s", strerror(errno));
    ours = pair[0];
    theirs = pair[1];
    fcntl(ours, F_SETFL, O_NONBLOCK);
    spawn.pass_fd = theirs;
    rc = dlr_spawn(&spawn, &d->pid, &d->pidfd, err);
    if (rc < 0)
        return rc;
    d->fd = dlr_steal_fd(&ours);
    dlr_agent_watch(d->base, d->fd, on_data, d);
    return 0;
}

static void restart(struct dlr_agent_data *d, const char *why)
{
    struct dlr_err err;

    if (d->fd < 0)
        return; /* the next one is started with what holds by then */
    forget_process(d);
    fail_all(d, why);
    d->ops->changed(d->arg);
    if (dlr_agent_data_start(d, &err) == 0)
        return;
    dlr_error("%s: %s", d->self->node, err.text);
    d->ops->refused(d->arg, err.text);
}

void dlr_agent_data_network(struct dlr_agent_data *d, const json_t *msg)
{
    if (!json_is_true(json_object_get(msg, "fallback_network")) || d->net.device[0] ||
        d->net.chosen || dlr_agent_net_find(&d->net, dlr_agent_peers_addr(d->base)) < 0)
        return;
    dlr_warn("%s: copies go over %s, the network of the control plane, from now on",
             d->self->node, d->net.device);
    restart(d, "another network is used from now on");
}

void dlr_agent_data_stop(struct dlr_agent_data *d)
{
    dlr_agent_timer_end(d->base, &d->timer);
    if (d->fd >= 0)
        forget_process(d);
    fail_all(d, "the agent ends");
}

bool dlr_agent_data_runs(const struct dlr_agent_data *d)
{
    return d->fd >= 0;
}

bool dlr_agent_data_comes(const struct dlr_agent_data *d)
{
    return d->fd >= 0 || (d->timer >= 0 && !d->rests);
}

pid_t dlr_agent_data_pid(const struct dlr_agent_data *d)
{
    return d->pid;
}

const char *dlr_agent_data_address(const struct dlr_agent_data *d)
{
    return d->address;
}

struct dlr_agent_data *dlr_agent_data_free(struct dlr_agent_data *d)
{
    if (!d)
        return NULL;
    zlistx_destroy(&d->out);
    zlistx_destroy(&d->requests);
    free(d);
    return NULL;
}

struct dlr_agent_data *dlr_agent_data_new(struct dlr_agent_base *base,
                                          const struct dlr_agent_self *self,
                                          const struct dlr_agent_round *round,
                                          const struct dlr_agent_data_ops *ops,
                                          void *arg)
{
    struct dlr_agent_data *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->base = base;
    d->self = self;
    d->round = round;
    d->ops = ops;
    d->arg = arg;
    d->fd = d->pidfd = d->timer = -1;
    d->net.chosen = self->job.net[0] != '\0';
    d->out = zlistx_new();
    d->requests = zlistx_new();
    return d->out && d->requests ? d : dlr_agent_data_free(d);
}
