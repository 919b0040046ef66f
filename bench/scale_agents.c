/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire needs=dlrover-supervisor */
/* In place of srun for bench/scale.py: all agents of a job in one process. One socket
 * has a connection for each of them, with a key pair and a credential of its own, and
 * speaks the protocol as far as a start needs it: hello, beats, and the answer to the
 * list of the others. Where a welcome names a collector, beats of a group go in one
 * frame, as its collector would send it. Then some agents fall silent. Figures go to the
 * file BENCH_SCALE_OUT.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/group_beats.h"
#include "mpi_launcher/wire/heartbeat.h"
#include "mpi_launcher/wire/identity.h"

#define MS 1000000
#define ID (1 + sizeof(unsigned)) /* bytes of a connection's name */
#define MISSED 5                  /* beats that a node may miss, by default */
#define STEADY_MS 5000            /* beats alone, after the start */
#define DEATH_MS 37               /* between two deaths */
#define VERDICT_MS 4000           /* for the last ones to be noticed */

/* Of the supervisor. */
struct cpu {
    unsigned long io_ms, all_ms; /* of libzmq's threads, of all */
};

struct agent {
    struct dlr_identity *id;
    char *cred;
    bool welcome, listed, dead;
    bool waiting;    /* its last beat before its death was still at its collector */
    uint32_t ticket; /* 0: its beats go by themselves */
    uint32_t seq, answered_seq, held;
    int64_t died_ms;
    uint64_t frame_ns;   /* of a collector: when the last frame of its group went */
    size_t listed_bytes; /* of the whole list so far */
};

static struct {
    struct dlr_run_id run;
    const char *control, *key_name;
    char server_key[DLR_KEY_TEXT];
    unsigned n;
    struct agent *all;
    void *ctx, *sock;
    unsigned welcomes, lists, leases, who;
    uint64_t messages, bytes, list_bytes; /* but leases; until all are listed */
    struct cpu welcome_cpu, listed_cpu, steady_cpu;
    unsigned descriptors; /* of the supervisor, when all are listed */
    unsigned steady_leases;
    unsigned dead, deaths; /* so far, in all */
    int64_t *dead_ms;      /* wall clock, of each node that died; 0: it lives */
    int64_t death_due_ms;
    int64_t start_late_ns, last_ms; /* of a lease until all are listed; of beats */
    int64_t began_ms, welcome_ms, listed_ms, lease_late_ns;
    int64_t every_ms;
} b;

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* libzmq's own names begin with a zero byte. */
static const char *id_of(unsigned i, char buf[ID])
{
    buf[0] = 'a';
    memcpy(buf + 1, &i, sizeof(i));
    return buf;
}

static int send_to(unsigned i, const void *data, size_t size)
{
    char id[ID];

    if (zmq_send(b.sock, id_of(i, id), ID, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return -errno;
    return zmq_send(b.sock, data, size, ZMQ_DONTWAIT) < 0 ? -errno : 0;
}

static void say(unsigned i, json_t *msg)
{
    DLR_AUTO_FREE char *text = dlr_msg_text(msg);

    json_decref(msg);
    if (text && send_to(i, text, strlen(text)) < 0)
        die("cannot send");
}

static void hello(unsigned i)
{
    char node[32], data[401];

    snprintf(node, sizeof(node), "n%05u", i + 1);
    memset(data, 'a', sizeof(data) - 1); /* as long as a UCX address of a few devices */
    data[sizeof(data) - 1] = '\0';
    say(i, json_pack("{s:i,s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:s,s:s,s:i,s:I}", "v",
                     DLR_MSG_VERSION, "t", "hello", "cred", b.all[i].cred, "node", node,
                     "boot", "b0a1", "pid", 1, "topo", node, "addr",
                     "10.111.222.133:40000", "key", dlr_identity_key(b.all[i].id),
                     "data", data, "cpus", 64, "shm_free", (json_int_t)1 << 38));
}

/* --- preparation: not counted, each node does its own at the same time ------------ */

static void read_words(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value;

        if ((value = dlr_after(argv[i], "--control=")))
            b.control = value;
        else if ((value = dlr_after(argv[i], "--job=")))
            dlr_format(b.run.job, sizeof(b.run.job), "%s", value);
        else if ((value = dlr_after(argv[i], "--run=")))
            dlr_format(b.run.run, sizeof(b.run.run), "%s", value);
        else if ((value = dlr_after(argv[i], "--gen=")))
            dlr_parse_uint(value, UINT_MAX, &b.run.gen);
    }
}

static void prepare(void)
{
    struct dlr_err err;

    if (dlr_identity_verify(getenv("DLROVER_CRED"), &b.run, b.server_key, &err) < 0)
        die(err.text);
    b.n = (unsigned)atoi(getenv("BENCH_SCALE_NODES"));
    b.all = calloc(b.n, sizeof(*b.all));
    b.dead_ms = calloc(b.n, sizeof(*b.dead_ms));
    b.deaths = (unsigned)atoi(getenv("BENCH_SCALE_DEATHS"));
    if (b.n < 4 * b.deaths) /* of half of them nobody is judged */
        b.deaths = b.n / 4;
    for (unsigned i = 0; i < b.n; i++)
        if (dlr_identity_new(&b.all[i].id, &err) < 0 ||
            dlr_identity_credential(b.all[i].id, &b.run, &b.all[i].cred, &err) < 0)
            die(err.text);
}

static void connect_all(void)
{
    const char *port = strrchr(b.control, ':');
    char address[64], id[ID];
    int hwm = DLR_ENDPOINT_HWM, one = 1;
    int64_t max = DLR_MSG_MAX;
    int served_ms = DLR_ENDPOINT_SERVED_MS;

    snprintf(address, sizeof(address), "tcp://127.0.0.1%s", port);
    dlr_open_files_raise();
    b.ctx = zmq_ctx_new();
    b.sock = zmq_socket(b.ctx, ZMQ_ROUTER);
    zmq_setsockopt(b.sock, ZMQ_SNDHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(b.sock, ZMQ_RCVHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(b.sock, ZMQ_MAXMSGSIZE, &max, sizeof(max));
    zmq_setsockopt(b.sock, ZMQ_HANDSHAKE_IVL, &served_ms, sizeof(served_ms));
    zmq_setsockopt(b.sock, ZMQ_ROUTER_MANDATORY, &one, sizeof(one));
    for (unsigned i = 0; i < b.n; i++) {
        zmq_setsockopt(b.sock, ZMQ_CONNECT_ROUTING_ID, id_of(i, id), ID);
        zmq_setsockopt(b.sock, ZMQ_CURVE_PUBLICKEY, dlr_identity_public(b.all[i].id),
                       32);
        zmq_setsockopt(b.sock, ZMQ_CURVE_SECRETKEY, dlr_identity_secret(b.all[i].id),
                       32);
        zmq_setsockopt(b.sock, ZMQ_CURVE_SERVERKEY, b.server_key, DLR_KEY_TEXT);
        if (zmq_connect(b.sock, address) < 0)
            die(zmq_strerror(zmq_errno()));
        hello(i);
    }
}

/* --- what the supervisor says ----------------------------------------------------- */

static uint32_t ticket_of(const char *data, size_t size)
{
    const char *at = memmem(data, size, "\"ticket\":", 9);

    return at && !getenv("BENCH_SCALE_FLAT") ? (uint32_t)strtoul(at + 9, NULL, 10) : 0;
}

static void take_leases(unsigned i, const struct dlr_group_leases *leases)
{
    int64_t late = dlr_now_ns() - (int64_t)b.all[i].frame_ns;

    b.leases += (unsigned)__builtin_popcountll(leases->taken);
    b.lease_late_ns = late > b.lease_late_ns ? late : b.lease_late_ns;
}

static void take_json(unsigned i, const char *data, size_t size)
{
    struct agent *a = &b.all[i];

    /* Only the head is looked at: 16,384 agents have 16,384 machines for the rest. */
    if (memmem(data, size < 64 ? size : 64, "\"t\":\"welcome\"", 13)) {
        b.welcomes += !a->welcome;
        a->welcome = true;
        a->ticket = ticket_of(data, size);
        a->answered_seq = a->seq;
        b.welcome_ms = dlr_now_ms();
    } else if (memmem(data, size < 64 ? size : 64, "\"t\":\"peers\"", 11)) {
        b.list_bytes += size;
        if (!memmem(data, size < 64 ? size : 64, "\"whole\":true", 12) &&
            !getenv("BENCH_SCALE_FORMER"))
            return;
        b.lists += !a->listed;
        a->listed = true;
        b.listed_ms = dlr_now_ms();
        if (!getenv("BENCH_SCALE_FORMER"))
            say(i, dlr_msg_new("peers_known"));
    } else if (memmem(data, size < 64 ? size : 64, "\"t\":\"who\"", 9)) {
        b.who++;
        hello(i);
    }
}

static void take(void)
{
    zmq_msg_t id, msg;

    for (unsigned n = 0; n < b.n; n++) { /* then beats are due */
        struct dlr_group_leases leases;
        struct dlr_heartbeat lease;
        unsigned i;

        zmq_msg_init(&id);
        if (zmq_msg_recv(&id, b.sock, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&id);
            return;
        }
        zmq_msg_init(&msg);
        zmq_msg_recv(&msg, b.sock, 0);
        if (!b.listed_cpu.all_ms)
            b.bytes += zmq_msg_size(&msg);
        memcpy(&i, (const char *)zmq_msg_data(&id) + 1, sizeof(i));
        if (dlr_heartbeat_unpack(zmq_msg_data(&msg), zmq_msg_size(&msg), &lease) == 0) {
            int64_t late = dlr_now_ns() - (int64_t)lease.sent_ns;

            b.leases++;
            if (i < b.n)
                b.all[i].answered_seq = lease.seq;
            b.lease_late_ns = late > b.lease_late_ns ? late : b.lease_late_ns;
        } else if (i < b.n &&
                   dlr_group_leases_unpack(zmq_msg_data(&msg), zmq_msg_size(&msg),
                                           &leases) == 0) {
            take_leases(i, &leases);
        } else if (i < b.n) {
            b.messages += !b.listed_cpu.all_ms;
            take_json(i, zmq_msg_data(&msg), zmq_msg_size(&msg));
        }
        zmq_msg_close(&id);
        zmq_msg_close(&msg);
    }
}

/* What has come to the collector since its last beat: a beat of each other node. */
static void send_group(unsigned collector)
{
    struct dlr_group_beats out = {.gen = b.run.gen, .seq = b.all[collector].seq};
    unsigned char buf[DLR_GROUP_BEATS_BYTES];

    for (unsigned i = collector + 1; i < collector + DLR_GROUP_NODES && i < b.n; i++) {
        if (b.all[i].ticket && b.all[i].welcome && (!b.all[i].dead || b.all[i].waiting))
            out.all[out.n++] =
                (struct dlr_group_beat){i, b.all[i].ticket, 0, DLR_HEARTBEAT_NO_STEP};
        b.all[i].waiting = false;
    }
    b.all[collector].frame_ns = (uint64_t)dlr_now_ns();
    if (out.n)
        send_to(collector, buf, dlr_group_beats_pack(&out, buf));
}

/* Two beats after its collector's death an agent knows. */
static bool goes_by_collector(unsigned i, int64_t now_ms)
{
    const struct agent *collector = &b.all[i - i % DLR_GROUP_NODES];

    return b.all[i].ticket &&
           (!collector->dead || now_ms - collector->died_ms < 2 * b.every_ms);
}

/* Spread over the time between two beats, as those of many nodes are. */
static void send_beats(int64_t now_ms)
{
    static unsigned next;
    unsigned due = (unsigned)((now_ms - b.last_ms) * b.n / b.every_ms);
    unsigned char buf[DLR_HEARTBEAT_BYTES];

    if (!due)
        return;
    b.last_ms = now_ms;
    for (due = due < b.n ? due : b.n; due; due--, next = (next + 1) % b.n) {
        struct agent *a = &b.all[next];
        struct dlr_heartbeat beat = {.kind = DLR_HEARTBEAT,
                                     .gen = b.run.gen,
                                     .sent_ns = (uint64_t)dlr_now_ns(),
                                     .step_min = DLR_HEARTBEAT_NO_STEP,
                                     .step_max = DLR_HEARTBEAT_NO_STEP};

        if (!a->welcome || a->dead || goes_by_collector(next, now_ms) ||
            !dlr_heartbeat_goes(a->seq - a->answered_seq, a->held++, MISSED))
            continue;
        beat.seq = ++a->seq;
        a->held = 0;
        dlr_heartbeat_pack(&beat, buf);
        send_to(next, buf, sizeof(buf));
        if (next % DLR_GROUP_NODES == 0)
            send_group(next);
    }
}

/* --- what it costs the supervisor ------------------------------------------------- */

static void add_thread(const char *task, struct cpu *to)
{
    unsigned long user, system, ms = 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
    char path[300], name[64];
    DLR_AUTO_FCLOSE FILE *f = NULL;

    snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", getppid(), task);
    f = fopen(path, "re");
    if (!f ||
        fscanf(f, "%*d (%63[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
               name, &user, &system) != 3)
        return;
    to->all_ms += (user + system) * ms;
    if (strstr(name, "/IO/"))
        to->io_ms += (user + system) * ms;
}

/* Names in a folder of the supervisor's in /proc; each task's time goes to *ret. */
static unsigned look(const char *what, struct cpu *ret)
{
    struct dirent *e;
    char path[64];
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/%s", getppid(), what);
    dir = opendir(path);
    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.') {
            n++;
            if (ret)
                add_thread(e->d_name, ret);
        }
    if (dir)
        closedir(dir);
    return n;
}

static void report_deaths(FILE *out)
{
    fprintf(out, "\"deaths\":{");
    for (unsigned i = 0, n = 0; i < b.n; i++)
        if (b.dead_ms[i])
            fprintf(out, "%s\"n%05u\":%lld", n++ ? "," : "", i + 1,
                    (long long)b.dead_ms[i]);
    fprintf(out, "},");
}

static void report(void)
{
    FILE *out = fopen(getenv("BENCH_SCALE_OUT"), "w");

    if (!out)
        die("cannot write the figures");
    fprintf(out, "{");
    report_deaths(out);
    fprintf(out,
            "\"nodes\":%u,\"welcome_ms\":%lld,\"listed_ms\":%lld,\"welcomes\":%u,"
            "\"lists\":%u,\"messages\":%llu,\"bytes\":%llu,\"list_bytes\":%llu,"
            "\"leases\":%u,\"lease_late_ms\":%.1f,\"who\":%u,\"descriptors\":%u,"
            "\"welcome_cpu_ms\":%lu,\"welcome_io_ms\":%lu,\"listed_cpu_ms\":%lu,"
            "\"steady_leases\":%u,\"steady_cpu_ms\":%lu,\"steady_io_ms\":%lu,"
            "\"steady_late_ms\":%.1f}\n",
            b.n, (long long)(b.welcome_ms - b.began_ms),
            (long long)(b.listed_ms - b.began_ms), b.welcomes, b.lists,
            (unsigned long long)b.messages, (unsigned long long)b.bytes,
            (unsigned long long)b.list_bytes, b.leases, (double)b.start_late_ns / MS,
            b.who, b.descriptors, b.welcome_cpu.all_ms, b.welcome_cpu.io_ms,
            b.listed_cpu.all_ms, b.steady_leases,
            b.steady_cpu.all_ms - b.listed_cpu.all_ms,
            b.steady_cpu.io_ms - b.listed_cpu.io_ms, (double)b.lease_late_ns / MS);
    fclose(out);
}

static bool is_done(void)
{
    if (b.welcomes == b.n && !b.welcome_cpu.all_ms)
        look("task", &b.welcome_cpu);
    return b.welcomes == b.n && b.lists == b.n;
}

static bool never(void)
{
    return false;
}

/* Each node beats at a time of its own between two frames of its collector. */
static bool has_beaten_since(uint64_t frame_ns, unsigned i)
{
    int64_t since_ms = (dlr_now_ns() - (int64_t)frame_ns) / MS;

    return since_ms > (int64_t)(i * 7919ull % (uint64_t)b.every_ms);
}

/* One more falls silent: its last beat was at any time before. Not the batch host. */
static bool next_death(void)
{
    struct timespec now;
    unsigned i;

    if (b.dead >= b.deaths || dlr_now_ms() < b.death_due_ms)
        return false; /* the limit ends it */
    do {
        i = 1 + (unsigned)rand() % (b.n - 1);
    } while (b.all[i].dead);
    clock_gettime(CLOCK_REALTIME, &now);
    b.all[i].dead = true;
    b.all[i].died_ms = dlr_now_ms();
    b.all[i].waiting = has_beaten_since(b.all[i - i % DLR_GROUP_NODES].frame_ns, i);
    b.dead_ms[i] = 1000ll * now.tv_sec + now.tv_nsec / MS;
    b.dead++;
    b.death_due_ms = dlr_now_ms() + DEATH_MS;
    return false;
}

static void turn_until(bool (*is_over)(void), int64_t limit_ms)
{
    zmq_pollitem_t item = {.socket = b.sock, .events = ZMQ_POLLIN};

    while (!is_over() && dlr_now_ms() < limit_ms) {
        zmq_poll(&item, 1, 5);
        take();
        send_beats(dlr_now_ms());
    }
}

int main(int argc, char **argv)
{
    read_words(argc, argv);
    if (!b.control)
        return 1; /* a rendezvous: not ours */
    b.every_ms = atoi(getenv("BENCH_SCALE_BEAT_MS"));
    prepare();
    b.began_ms = b.last_ms = dlr_now_ms();
    connect_all();
    turn_until(is_done, b.began_ms + 1000ll * atoi(getenv("BENCH_SCALE_LIMIT_S")));
    look("task", &b.listed_cpu);
    b.descriptors = look("fd", NULL);
    b.steady_leases = b.leases;
    b.start_late_ns = b.lease_late_ns;
    b.lease_late_ns = 0;
    turn_until(never, dlr_now_ms() + STEADY_MS);
    b.steady_leases = b.leases - b.steady_leases;
    look("task", &b.steady_cpu);
    turn_until(next_death, dlr_now_ms() + DEATH_MS * b.deaths + VERDICT_MS);
    report();
    kill(getppid(), SIGKILL); /* the supervisor: what follows is no part of this */
    return 0;
}
