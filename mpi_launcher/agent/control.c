/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/agent/base/auth_failures.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/data/own_hosts.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/tasks/watch.h"
#include "mpi_launcher/wire/group_beats.h"
#include "mpi_launcher/wire/heartbeat.h"

#define LEFT_MS 500         /* for our last word to be on its way */
#define WAIT_MAX_MS 3600000 /* dead-time and end limit */

static const struct dlr_agent_origin supervisor = {.from = DLR_AGENT_SUPERVISOR};

static int count_cpus(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) < 0 ? 0 : CPU_COUNT(&set);
}

void dlr_agent_hello(struct dlr_agent *a)
{
    const char *topo = getenv("SLURM_TOPOLOGY_ADDR");
    struct statvfs vfs = {0};
    char hosts[DLR_PEER_HOSTS] = "";

    if (a->self.job.transport == DLR_TRANSPORT_UCX) /* else nobody asks */
        dlr_own_hosts(hosts, sizeof(hosts));
    fstatvfs(a->self.dir_fd, &vfs);
    dlr_agent_send_supervisor(
        a->base,
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:i, "
                  "s:I, s:s}",
                  "v", DLR_MSG_VERSION, "t", "hello", "cred", a->cred, "node",
                  a->self.node, "boot", a->boot, "pid", (int)getpid(), "topo",
                  topo ? topo : a->self.node, "addr", dlr_agent_peers_addr(a->base),
                  "key", dlr_identity_key(a->id), "data",
                  dlr_agent_data_address(a->data), "cpus", count_cpus(), "shm_free",
                  (json_int_t)(vfs.f_bavail * vfs.f_frsize), "hosts", hosts));
}

static int on_who(struct dlr_agent *a, const json_t *msg)
{
    dlr_agent_group_refuse_all(a->group);
    dlr_agent_hello(a);
    return 0;
}

/* Where this node stands: what a supervisor that knows nothing yet needs to go on.
 * First, so that it can judge what is said after it.
 */
static void send_round_state(struct dlr_agent *a)
{
    json_t *msg =
        json_pack("{s:i,s:s,s:I,s:I,s:I}", "v", DLR_MSG_VERSION, "t", "round_state",
                  "round", a->round.known ? (json_int_t)a->round.round : -1, "turn",
                  (json_int_t)a->round.turn, "kill_up_to_round",
                  (json_int_t)dlr_agent_tasks_kill_up_to_round(a->tasks));

    if (msg)
        dlr_agent_save_round_state(a->snapshots, msg);
    if (msg && a->former_died_ns)
        json_object_set_new(msg, "back_ms",
                            json_integer((dlr_now_ns() - a->former_died_ns) / 1000000));
    a->former_died_ns = 0; /* it is said once */
    dlr_agent_send_supervisor(a->base, msg);
}

static int on_welcome(struct dlr_agent *a, const json_t *msg)
{
    uint64_t gen, dead_ms, end_ms;
    const char *keeper;

    if (dlr_msg_uint(msg, "gen", UINT32_MAX, &gen) < 0 || gen != a->self.run.gen ||
        dlr_msg_uint(msg, "dead_ms", WAIT_MAX_MS, &dead_ms) < 0 || dead_ms == 0 ||
        dlr_msg_uint(msg, "end_ms", WAIT_MAX_MS, &end_ms) < 0)
        return -EBADMSG;
    dlr_agent_lease_welcome(a->lease, (int64_t)dead_ms);
    if (dlr_agent_group_welcome(a->group, json_object_get(msg, "group")) < 0)
        dlr_debug("a welcome with a bad group");
    if (dlr_msg_str(msg, "keeper", &keeper) == 0)
        dlr_agent_keeper_watch(a->succession, keeper);
    send_round_state(a);
    dlr_agent_tasks_resend(
        a->tasks); /* it may be a supervisor that knows nothing yet */
    dlr_agent_ranks_resend(a->snapshots);
    dlr_agent_claims_resend(a->tasks);
    dlr_agent_auth_failures_resend(a->base, a->foreign_memory_name);
    dlr_agent_grace_resend(a->succession);
    return 0;
}

static int on_peers(struct dlr_agent *a, const json_t *msg)
{
    if (dlr_agent_succession_peers(a->succession, msg) == 0) {
        dlr_agent_data_peers(a->data);
        if (json_is_true(json_object_get(msg, "whole")))
            dlr_agent_send_supervisor(a->base, dlr_msg_new("peers_known"));
    }
    dlr_agent_data_network(a->data, msg);
    return 0;
}

static void note_round(const struct dlr_agent *a, const json_t *msg)
{
    DLR_AUTO_FREE char *text = a->kept ? json_dumps(msg, JSON_COMPACT) : NULL;

    dlr_kept_put_round(a->kept, text);
}

static int on_round(struct dlr_agent *a, const json_t *msg)
{
    struct dlr_agent_round round = {0};
    int rc = dlr_agent_round_parse(&a->round, a->self.node, msg, &round);

    dlr_agent_succession_given(a->succession, false);
    if (rc < 0)
        return rc;
    note_round(a, msg);
    a->enter(a, &round);
    return 0;
}

static int on_reserve(struct dlr_agent *a, const json_t *msg)
{
    uint64_t round, rank, bytes;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(&a->round, round) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "bytes", INT64_MAX, &bytes) < 0 || bytes == 0)
        return -EBADMSG;
    if (json_is_true(json_object_get(msg, "fetch")))
        dlr_agent_fetch_reserve(a->snapshots, (int32_t)rank, bytes,
                                json_is_true(json_object_get(msg, "make")));
    else
        dlr_agent_ranks_reserve(a->snapshots, (int32_t)rank, bytes, false);
    return 0;
}

static int on_send(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_order(a->snapshots, msg, DLR_LOCAL_D_SEND, "data");
}

static int on_rebuild(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_order(a->snapshots, msg, DLR_LOCAL_D_PARITY, "terms");
}

static int on_load(struct dlr_agent *a, const json_t *msg)
{
    bool foreign = json_is_true(json_object_get(msg, "foreign"));

    return dlr_agent_order(a->snapshots, msg,
                           foreign ? DLR_LOCAL_D_ADOPT : DLR_LOCAL_D_LOAD, "path");
}

static int on_persist(struct dlr_agent *a, const json_t *msg)
{
    dlr_agent_persist(a->snapshots, msg, &supervisor);
    return 0;
}

static int decide(struct dlr_agent *a, const json_t *msg,
                  void (*fn)(struct dlr_agent_snapshots *s, uint64_t step))
{
    uint64_t round, step;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(&a->round, round) ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return -EBADMSG;
    fn(a->snapshots, step);
    return 0;
}

static int on_save_at(struct dlr_agent *a, const json_t *msg)
{
    if (dlr_agent_save_ordered(a->snapshots) ==
        0) /* the round's first: older versions are freed with it */
        dlr_agent_save_vetted(a->snapshots, json_object_get(msg, "vetted"));
    return decide(a, msg, dlr_agent_save_at);
}

static int on_commit(struct dlr_agent *a, const json_t *msg)
{
    dlr_agent_save_vetted(a->snapshots, json_object_get(msg, "vetted"));
    dlr_agent_fetch_end(a->snapshots,
                        "peek reads what restore loaded, until the first begin");
    return decide(a, msg, dlr_agent_save_commit);
}

static int on_abort(struct dlr_agent *a, const json_t *msg)
{
    return decide(a, msg, dlr_agent_save_abort);
}

static int on_fetched(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_fetched(a->snapshots, msg);
}

static int on_ask_ranks(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_claims_ask(a->tasks, msg);
}

static int on_refuse(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_claims_refuse(a->tasks, msg);
}

static int on_go(struct dlr_agent *a, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(&a->round, round))
        return -EBADMSG;
    dlr_agent_ranks_go(a->snapshots);
    return 0;
}

static int on_kill(struct dlr_agent *a, const json_t *msg)
{
    uint64_t round, park_ms;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0)
        return -EBADMSG;
    if (dlr_msg_uint(msg, "park_ms", WAIT_MAX_MS, &park_ms) == 0)
        dlr_agent_tasks_park(a->tasks, (uint32_t)round, (int64_t)park_ms);
    else
        dlr_agent_tasks_kill(a->tasks, (uint32_t)round,
                             json_is_true(json_object_get(msg, "flush")));
    return 0;
}

static int on_report(struct dlr_agent *a, const json_t *msg)
{
    struct dlr_agent_origin from = supervisor;

    if (dlr_msg_uint(msg, "id", INT64_MAX, &from.id) < 0)
        return -EBADMSG;
    dlr_agent_report(a->reports, &from);
    return 0;
}

static int on_shutdown(struct dlr_agent *a, const json_t *msg)
{
    if (json_is_true(json_object_get(msg, "later"))) {
        dlr_agent_succession_given(a->succession, true); /* the SIGTERM is to come */
        return 0;
    }
    a->keep_memory = json_is_true(json_object_get(msg, "keep_memory"));
    dlr_agent_end(a->base);
    return 0;
}

static int on_will(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_take_over_will(a->succession, msg);
}

static int on_warm_up(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_tasks_warm_up(a->tasks, msg);
}

static int on_look(struct dlr_agent *a, const json_t *msg)
{
    uint64_t round, id;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(&a->round, round) ||
        dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0)
        return -EBADMSG;
    dlr_agent_tasks_tell_looks(a->tasks, id);
    return 0;
}

static int on_take_stacks(struct dlr_agent *a, const json_t *msg)
{
    return dlr_agent_tasks_take_stacks(a->tasks, msg);
}

static const struct {
    const char *type;
    int (*fn)(struct dlr_agent *a, const json_t *msg);
} handlers[] = {
    {"who", on_who},
    {"welcome", on_welcome},
    {"peers", on_peers},
    {"round", on_round},
    {"reserve", on_reserve},
    {"send", on_send},
    {"rebuild", on_rebuild},
    {"load", on_load},
    {"persist", on_persist},
    {"save_at", on_save_at},
    {"commit", on_commit},
    {"abort", on_abort},
    {"go", on_go},
    {"kill", on_kill},
    {"report", on_report},
    {"shutdown", on_shutdown},
    {"fetched", on_fetched},
    {"ask_ranks", on_ask_ranks},
    {"refuse", on_refuse},
    {"will", on_will},
    {"warm_up", on_warm_up},
    {"look", on_look},
    {"take_stacks", on_take_stacks},
};

static int dispatch(struct dlr_agent *a, const struct dlr_packet *p)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    struct dlr_err err;

    if (dlr_msg_parse(p->data, p->size, &msg, &err) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < sizeof(handlers) / sizeof(*handlers); i++)
        if (dlr_streq(dlr_msg_type(msg), handlers[i].type)) {
            dlr_agent_changed(a->base);
            return handlers[i].fn(a, msg);
        }
    return -EBADMSG;
}

void dlr_agent_on_supervisor(struct dlr_agent *a, const struct dlr_packet *p)
{
    if (dlr_heartbeat_is(p->data, p->size))
        dlr_agent_lease_take(a->lease, p->data, p->size);
    else if (dlr_group_leases_is(p->data, p->size))
        dlr_agent_group_leases(a->group, p->data, p->size);
    else if (dispatch(a, p) < 0)
        dlr_debug("dropped: %.*s", (int)(p->size > 200 ? 200 : p->size),
                  (const char *)p->data);
}

int dlr_agent_control_start(struct dlr_agent *a, const char *key, struct dlr_err *err)
{
    int rc = dlr_agent_supervisor_open(a->base, a->id, key, a->self.conf.control, err);

    if (rc < 0)
        return rc;
    dlr_format(a->key, sizeof(a->key), "%s", key);
    dlr_agent_hello(a);
    return 0;
}

bool dlr_agent_control_follow(void *arg, const char *address)
{
    struct dlr_agent *a = arg;
    struct dlr_err err;

    if (dlr_agent_control_moved(a->base, address, &err) < 0)
        return false;
    dlr_agent_supervisor_close(a->base, 0);
    if (dlr_agent_supervisor_open(a->base, a->id, a->key, address, &err) < 0) {
        dlr_error("%s: %s", a->self.node, err.text);
        return false;
    }
    dlr_agent_hello(a);
    return true;
}

void dlr_agent_control_stop(struct dlr_agent *a)
{
    if (dlr_agent_ends(a->base)) /* the run need not wait for our silence */
        dlr_agent_send_supervisor(a->base, dlr_msg_new("left"));
    dlr_agent_supervisor_close(a->base, dlr_agent_ends(a->base) ? LEFT_MS : 0);
}
