/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-data: the agent's child that moves snapshots between nodes. It holds no state
 * that is not in slot headers, so that it can be killed and started again at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "ckpt/confine/confine.h"
#include "ckpt/stream/scrub.h"
#include "ckpt/stream/state.h"
#include "ckpt/stream/stopped_time.h"
#include "ckpt/transport/nic.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/config/opt.h"

#define AGENT_FD 3
#define SAY_TIMEOUT_S 10   /* an agent that does not read for so long is gone */
#define CLOSING_MS 1       /* UCX is looked at so often while it closes a connection */
#define CLOSING_SOON 1000  /* times; one that leads nowhere takes 17 s over TCP: then */
#define CLOSING_LATE_MS 50 /* it is looked at so often */
#define BURST 64           /* UCX events before the agent is looked at again */

#define FIELD(f) offsetof(struct dlr_data_conf, f)
// clang-format off
static const struct dlr_opt opts[] = {
    {"transfer-timeout", DLR_OPT_DURATION, FIELD(transfer_timeout_ms), "60s", "TIME",
     "limit of one copy between two nodes"},
    {"answer-timeout", DLR_OPT_DURATION, FIELD(answer_timeout_ms), "5s", "TIME",
     "limit for a receiver to have a free slot"},
    {"fill-limit", DLR_OPT_DURATION, FIELD(fill_limit_ms), "1s", "TIME",
     "saves' copies wait so long for a slot of this node that is being filled"},
    {"threads", DLR_OPT_UINT, FIELD(threads), "2", "N",
     "threads that check what comes in"},
    {"full-core", DLR_OPT_UINT, FIELD(full_core), "75", "PERCENT",
     "these threads check it when the network's uses so much of a core"},
    {"transport", DLR_OPT_TRANSPORT, FIELD(transport), "auto", "auto|stream|ucx",
     "how bytes go to other nodes: sealed over TCP, and with UCX where there is RDMA"},
    {"ports", DLR_OPT_WORD, FIELD(ports), "0", "FIRST-LAST",
     "ports to listen at for sealed streams, 0 for any"},
    {"net", DLR_OPT_WORD, FIELD(net), "", "DEV[,DEV]",
     "network devices, any when empty"},
    {"net-traffic-class", DLR_OPT_UINT, FIELD(net_traffic_class), "0", "N",
     "traffic class on InfiniBand and RoCE, 0 for the network's default"},
    {"scrub", DLR_OPT_DURATION, FIELD(scrub_ms), "10m", "TIME",
     "sum each byte that is held again once in this time, 0: never"},
    {"memory", DLR_OPT_PATH, FIELD(memory), "", "DIR",
     "no file is opened but there, in --run-dir and in --restore-from"},
    {"run-dir", DLR_OPT_PATH, FIELD(run_dir), "", "DIR",
     "the run's directory in the state directory"},
    {"restore-from", DLR_OPT_PATH, FIELD(restore_from), "", "DIR",
     "another directory with snapshots, which is only read"},
    {"log", DLR_OPT_WORD, FIELD(log), "warn", "LEVEL",
     "messages shown: error, warn, info or debug"},
    DLR_OPT_END,
};
// clang-format on

/* False when the agent is gone. */
static bool hear(struct dlr_data *d)
{
    struct dlr_local_msg msg;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;
    int rc = dlr_local_recv(d->agent, &msg, fds, &nfds);

    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    if (rc == -EBADMSG)
        d->dropped++;
    else if (rc > 0)
        dlr_stream_handle_order(d, &msg);
    return rc > 0 || rc == -EBADMSG || rc == -EAGAIN || rc == -EINTR;
}

static void on_message(void *arg, unsigned kind, struct dlr_net_in *in)
{
    dlr_data_dispatch(arg, kind, in);
}

static void on_down(void *arg, struct dlr_net_peer *peer, int rc)
{
    dlr_data_send_down(arg, peer, rc);
    dlr_data_recv_down(arg, peer, rc);
}

/* Milliseconds until UCX is to be looked at whatever its descriptor says, at most
 * 60,000.
 */
static int64_t look_ms(struct dlr_data *d)
{
    if (!dlr_net_closing(d->net)) {
        d->closing = 0;
        return 60000;
    }
    if (d->closing < CLOSING_SOON)
        d->closing++;
    return d->closing < CLOSING_SOON ? CLOSING_MS : CLOSING_LATE_MS;
}

/* What was to be looked at by due_ms and is only now; 0: nothing was. */
static void make_up(struct dlr_data *d, int64_t due_ms, int64_t now_ms)
{
    int64_t stopped = dlr_stopped_ms(due_ms, now_ms);

    if (!stopped)
        return;
    dlr_turns_late(d->turns, now_ms);
    dlr_data_send_add_stopped_time(d, stopped, now_ms);
    dlr_data_recv_add_stopped_time(d, stopped, now_ms);
}

/* Milliseconds until the next deadline, as poll(2) takes them. */
static int until(struct dlr_data *d, int64_t due_ms)
{
    int64_t now = dlr_now_ms(), a, b, c, left, look;

    make_up(d, due_ms, now);
    a = dlr_data_send_tick(d, now);
    b = dlr_data_recv_tick(d, now);
    c = dlr_data_scrub_tick(d, now);
    a = a < b ? a : b;
    left = (a < c ? a : c) - now;
    look = look_ms(d); /* they may have closed one */
    if (left == DLR_DATA_NEVER - now && !d->closing)
        return -1;
    return left < 0 ? 0 : left < look ? (int)left : (int)look;
}

/* Copies of saves are moved when nobody else wants the core, those that a restart waits
 * for are not.
 */
static bool other_turn(struct dlr_data *d, bool low)
{
    int64_t now = dlr_now_ms();
    bool may_be_low = (d->sends || d->recvs) && dlr_data_send_can_wait(d, now) &&
                      dlr_data_recv_can_wait(d, now);

    return dlr_turns_over(d->turns, low, may_be_low, now);
}

/* True when the other thread is to go on; false at the end of the process. */
static bool loop(void *arg, bool low)
{
    struct dlr_data *d = arg;
    struct pollfd fds[] = {
        {.fd = d->agent, .events = POLLIN},
        {.fd = dlr_work_fd(d->work), .events = POLLIN},
        {.fd = dlr_work_fd(d->check), .events = POLLIN},
        {.fd = dlr_work_fd(d->save), .events = POLLIN},
        {.fd = dlr_work_fd(d->sum), .events = POLLIN},
        {.fd = dlr_net_fd(d->net), .events = POLLIN},
        {.fd = dlr_data_scrub_fd(d), .events = POLLIN},
    };

    d->core = (struct dlr_core){0};
    for (int64_t due_ms = 0;;) {
        unsigned n = 0;
        bool over = other_turn(d, low);
        int wait;

        while (!over && n < BURST && dlr_net_progress(d->net) > 0) {
            n++;
            over = other_turn(d, low);
        }
        if (over)
            return true;
        wait = until(d, due_ms);
        if (n == BURST || dlr_net_arm(d->net) < 0)
            wait = 0;
        due_ms = wait < 0 ? 0 : dlr_now_ms() + wait;
        if (poll(fds, 7, wait) < 0 && errno != EINTR)
            return false;
        if (fds[1].revents)
            dlr_work_finish(d->work);
        if (fds[2].revents)
            dlr_work_finish(d->check);
        if (fds[3].revents)
            dlr_work_finish(d->save);
        if (fds[4].revents)
            dlr_work_finish(d->sum);
        if (fds[6].revents)
            dlr_data_scrub_finish(d);
        if (fds[0].revents && !hear(d))
            return false;
    }
}

/* Where UCX shares memory with processes of this host it goes on making it. */
static bool shares_memory(void)
{
    DLR_AUTO_FCLOSE FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "/dev/shm/ucx_"))
            return true;
    return false;
}

static void confine(const struct dlr_data_conf *conf)
{
    const struct dlr_confine c = {conf->memory, conf->run_dir, conf->restore_from,
                                  shares_memory() ? "/dev/shm" : ""};
    char missing[256];

    dlr_confine(&c, missing, sizeof(missing));
    if (missing[0])
        dlr_info("this kernel does not let itself be asked for: %s", missing);
}

static int open_net(struct dlr_data *d, struct dlr_err *err)
{
    static const struct dlr_net_ops ops = {.in = on_message, .down = on_down};
    const char *asked = getenv("UCX_NET_DEVICES"); /* dlr_nic_setup() puts ours there */
    struct dlr_net_conf conf = {.transport = d->conf.transport,
                                .answer_ms = d->conf.answer_timeout_ms,
                                .devices = asked ? asked : ""};
    int rc;

    if (dlr_parse_ports(d->conf.ports, &conf.first_port, &conf.last_port) < 0)
        return dlr_fail(err, -EINVAL, "ports: '%s' is not FIRST-LAST", d->conf.ports);
    rc = dlr_net_open(&conf, &ops, d, &d->net, err);
    d->held.guarded = rc == 0 && dlr_net_exposed(d->net);
    return rc;
}

static void on_free(void *arg)
{
    dlr_data_recv_retry(arg);
}

static int start(struct dlr_data *d, struct dlr_err *err)
{
    struct timeval limit = {.tv_sec = SAY_TIMEOUT_S};
    int rc;

    d->held.on_free = on_free;
    d->held.on_free_arg = d;
    setsockopt(d->agent, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    rc = dlr_nic_setup(d->conf.net, d->conf.net_traffic_class, err);
    if (rc == 0)
        rc = open_net(d, err); /* what it loads may lie anywhere */
    if (rc == 0)
        confine(&d->conf);
    if (rc == 0)
        rc = dlr_work_new(1, &d->work, err);
    if (rc == 0)
        rc = dlr_work_new(d->conf.threads, &d->check, err);
    if (rc == 0)
        rc = dlr_work_new(1, &d->save, err);
    if (rc == 0)
        rc = dlr_work_new(1, &d->sum, err);
    if (rc == 0)
        rc = dlr_data_scrub_new(d, d->conf.scrub_ms, err);
    if (rc == 0)
        rc = dlr_turns_new(loop, d, &d->turns, err);
    return rc < 0 ? rc : dlr_data_hello(d, err);
}

static void usage(FILE *out)
{
    fprintf(out,
            "usage: dlrover-data [OPTION...]\n"
            "Moves snapshots between nodes. Started by dlrover-agent, which talks to "
            "it over descriptor 3.\n\n");
    dlr_opt_help(opts, "", out);
    fprintf(out, "  --help, --version\n"
                 "\nUCX's transports are chosen by UCX_TLS and UCX_NET_DEVICES.\n");
}

/* 0 to go on, 1 when it was answered, -errno. */
static int parse(int argc, char **argv, struct dlr_data_conf *conf, struct dlr_err *err)
{
    int rc = dlr_opt_defaults(opts, conf, err);

    for (int i = 1; i < argc && rc == 0; i++) {
        const char *word = dlr_after(argv[i], "--");

        if (dlr_streq(argv[i], "--help")) {
            usage(stdout);
            return 1;
        }
        if (dlr_streq(argv[i], "--version")) {
            printf("dlrover-data %s\n", DLR_VERSION);
            return 1;
        }
        if (word)
            rc = dlr_opt_set_word(opts, word, conf, err);
        else
            rc = dlr_fail(err, -EINVAL, "unexpected argument '%s'", argv[i]);
    }
    if (rc == 0 && dlr_log_level_parse(conf->log) < 0)
        rc = dlr_fail(err, -EINVAL, "log: '%s' is none of error, warn, info, debug",
                      conf->log);
    return rc;
}

static bool is_agent(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int main(int argc, char **argv)
{
    static struct dlr_data d = {.agent = AGENT_FD, .dir = -1};
    struct dlr_err err;
    int rc = parse(argc, argv, &d.conf, &err);

    if (rc != 0) {
        if (rc < 0)
            fprintf(stderr, "dlrover-data: %s\n", err.text);
        return rc < 0 ? 2 : 0;
    }
    if (!is_agent(AGENT_FD)) {
        fprintf(stderr, "dlrover-data: descriptor 3 is no socket: "
                        "this program is started by dlrover-agent\n");
        return 2;
    }
    dlr_log_to(NULL, NULL, (enum dlr_log_level)dlr_log_level_parse(d.conf.log));
    fcntl(AGENT_FD, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* UCX logs to stdout, which is the user's */
    rc = start(&d, &err);
    if (rc < 0) {
        dlr_error("%s", err.text);
        return 1;
    }
    dlr_turns_run(d.turns);
    if (d.dropped)
        dlr_info("%" PRIu64 " messages dropped", d.dropped);
    fflush(NULL);
    _Exit(0); /* the work thread may be inside a write that hangs */
}
