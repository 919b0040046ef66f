/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say: who may speak, beats and leases, and which function each message goes to. */
#include <errno.h>
#include <string.h>

#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/cadence.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/wire/heartbeat.h"

#define WHO_EVERY_MS 1000
#define ANY_SIZE (1ull << 50)
#define HELLO_MAX (64u << 10) /* bytes of a message of somebody we do not know */

/* --- sending ----------------------------------------------------------------------------- */

void dlr_sup_send(struct dlr_sup *s, unsigned node, json_t *msg)
{
    if (msg && s->members.list[node].here)
        dlr_sup_outbox_send_json(s->io, &s->members.list[node].route, msg);
    json_decref(msg);
}

void dlr_sup_send_all(struct dlr_sup *s, json_t *msg)
{
    DLR_AUTO_FREE char *text = msg ? dlr_msg_text(msg) : NULL;

    for (unsigned i = 0; text && i < s->members.n; i++)
        if (s->members.list[i].here)
            dlr_sup_outbox_send(s->io, &s->members.list[i].route, text, strlen(text));
    json_decref(msg);
}

/* --- who may speak ------------------------------------------------------------------------- */

/* One limit for all: strangers get no more of our time. It lets each node be asked at once:
 * after a supervisor's death they all come back within their leases.
 */
static void ask_who(struct dlr_sup *s, const struct dlr_route *to)
{
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_sup_now() - s->asked_ms >= WHO_EVERY_MS) {
        s->asked_ms = dlr_sup_now();
        s->asked = 0;
    }
    if (s->asked++ >= 2 * s->members.n)
        return;
    msg = dlr_msg_new("who");
    dlr_sup_outbox_send_json(s->io, to, msg);
}

static void welcome(struct dlr_sup *s, unsigned node)
{
    json_t *msg = dlr_msg_new("welcome");
    struct dlr_procid keeper;
    char text[DLR_PROCID_TEXT];

    json_object_set_new(msg, "gen", json_integer(s->id.gen));
    json_object_set_new(msg, "beat_ms", json_integer(s->conf.beat.every_ms));
    json_object_set_new(msg, "dead_ms", json_integer(dlr_jobconf_dead_ms(&s->conf)));
    json_object_set_new(msg, "end_ms", json_integer(s->conf.end_timeout_ms));
    if (dlr_streq(s->members.list[node].node.name, s->batch) &&
        dlr_procid_of(s->keeper, &keeper) == 0) {
        dlr_procid_show(&keeper, text);
        json_object_set_new(msg, "keeper", json_string(text));
    }
    dlr_sup_send(s, node, msg);
    dlr_sup_ranks_welcome(s, node);
}

static void node_is_up(struct dlr_sup *s, unsigned node)
{
    struct dlr_member *m = &s->members.list[node];
    char leaf[DLR_TOPO_NAME] = "";

    m->here = true;
    m->heard_ms = dlr_sup_now();
    dlr_topo_leaf(m->node.path, leaf, sizeof(leaf));
    dlr_journal_note(dlr_sup_journal(s->io), "node_up", "s:s,s:s,s:s,s:i", "node",
                     m->node.name, "leaf", leaf, "boot", m->boot, "cpus", m->cpus);
    dlr_sup_peers_came(s, node);
    dlr_policy_node_up(s->policy, node, dlr_sup_now());
}

static void say_bye(struct dlr_sup *s, const struct dlr_route *to)
{
    DLR_AUTO_JSON json_t *msg = dlr_msg_new("bye");

    dlr_sup_outbox_send_json(s->io, to, msg);
}

/* A node's data process was started again: its peers must send to the new one. Before the round is
 * prepared none of them knows another.
 */
static void new_address(struct dlr_sup *s)
{
    enum dlr_phase phase = dlr_policy_phase(s->policy);

    if (phase == DLR_PHASE_PREPARE || phase == DLR_PHASE_RUN)
        dlr_sup_tell_round(s, dlr_policy_round(s->policy));
}

/* Its connection has proven the key; that the key is of our user's a credential says, once: munged
 * may be slow or away when the node comes back.
 */
static bool is_proven(struct dlr_sup *s, int node, const struct dlr_packet *packet,
                      const json_t *msg)
{
    char key[DLR_KEY_TEXT];
    struct dlr_err err;
    const char *cred;

    if (node >= 0 && dlr_streq(s->members.list[node].key, packet->key))
        return true;
    return dlr_msg_str(msg, "cred", &cred) == 0 &&
           dlr_identity_verify(cred, &s->id, key, &err) == 0 &&
           dlr_streq(key, packet->key);
}

/* Its data process has another address than the one that was told. */
static bool has_moved(const struct dlr_sup *s, int node, const json_t *msg)
{
    const char *now = "", *before = node >= 0 ? s->members.list[node].data : NULL;

    dlr_msg_str(msg, "data", &now);
    return !dlr_streq(now, before ? before : "");
}

/* Another process, or another connection: what was sent over the one before may be lost. */
static bool is_same(const struct dlr_member *a, const struct dlr_member *b)
{
    return dlr_route_eq(&a->route, &b->route) && dlr_streq(a->addr, b->addr) &&
           dlr_streq(a->peer_key, b->peer_key);
}

static void take_hello(struct dlr_sup *s, const struct dlr_packet *packet,
                       const json_t *msg)
{
    struct dlr_member before = {0};
    struct dlr_err err;
    const char *name;
    bool moved;
    int node = -1;

    if (dlr_msg_str(msg, "node", &name) == 0)
        node = dlr_members_find(&s->members, name);
    if (!is_proven(s, node, packet, msg)) {
        s->refused++;
        s->strangers++;
        return;
    }
    if (s->finished) { /* it comes too late to be of use: it must not stay */
        say_bye(s, &packet->from);
        return;
    }
    moved = has_moved(s, node, msg);
    if (node >= 0)
        before = s->members.list[node]; /* but its data: that is freed */
    node = dlr_members_hello(&s->members, msg, packet, dlr_sup_now(), &err);
    if (node < 0) {
        s->refused++;
        return;
    }
    welcome(s, node);
    if (!before.here) {
        node_is_up(s, node);
    } else {
        if (!is_same(&before, &s->members.list[node]))
            dlr_sup_peers_came(s, node);
        if (moved)
            new_address(s);
    }
    s->adopt.moved |= moved;
}

/* --- beats ----------------------------------------------------------------------------------- */

/* A node that was given up speaks again: it comes back as a spare once it is clean. */
static void come_back(struct dlr_sup *s, unsigned node, const struct dlr_packet *packet)
{
    struct dlr_member *m = &s->members.list[node];
    DLR_AUTO_JSON json_t *msg = NULL;

    if (dlr_sup_now() - m->heard_ms < WHO_EVERY_MS)
        return;
    m->heard_ms = dlr_sup_now();
    msg = dlr_msg_new("kill");
    json_object_set_new(msg, "round", json_integer(dlr_policy_round(s->policy)));
    dlr_sup_outbox_send_json(s->io, &packet->from, msg);
}

static void take_beat(struct dlr_sup *s, unsigned node, const struct dlr_packet *packet)
{
    struct dlr_member *m = &s->members.list[node];
    unsigned char buf[DLR_BEAT_BYTES];
    struct dlr_beat beat, lease;

    if (dlr_beat_unpack(packet->data, packet->size, &beat) < 0 ||
        beat.kind != DLR_BEAT || beat.gen != s->id.gen) {
        s->refused++;
        return;
    }
    if (!m->here) {
        come_back(s, node, packet);
        return;
    }
    m->heard_ms = dlr_sup_now();
    if (dlr_sup_ranks_behind(s, node)) /* its steps are of a former turn */
        beat.step_min = beat.step_max = DLR_BEAT_NO_STEP;
    m->round = beat.round;
    m->step_min = beat.step_min;
    m->step_max = beat.step_max;
    if (beat.step_max != DLR_BEAT_NO_STEP)
        dlr_commit_progress(s->commit, beat.round, beat.step_max, m->heard_ms);
    lease = (struct dlr_beat){
        .kind = DLR_LEASE,
        .gen = beat.gen,
        .seq = beat.seq,
        .sent_ns = beat.sent_ns,
        .round = beat.round,
        .lease_ms = dlr_sup_is_held() ? DLR_LEASE_HELD : dlr_jobconf_dead_ms(&s->conf)};
    dlr_beat_pack(&lease, buf);
    dlr_sup_outbox_send(s->io, &packet->from, buf, sizeof(buf));
}

/* --- messages --------------------------------------------------------------------------------- */

/* Fields that most messages have; false when one of them is missing or wrong. */
static bool snapshot_fields(const struct dlr_sup *s, const json_t *msg,
                            unsigned *ret_rank, struct dlr_version *ret_v,
                            const char *round_key)
{
    uint64_t rank, round, step;

    if (!s->have_plan || dlr_msg_uint(msg, "rank", s->plan.world - 1, &rank) < 0 ||
        dlr_msg_uint(msg, round_key, UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return false;
    *ret_rank = rank;
    *ret_v = (struct dlr_version){.round = round, .step = step};
    return true;
}

static void on_ready(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t rank, round, bytes;

    if (!s->have_plan || dlr_msg_uint(msg, "rank", dlr_sup_slots_max(s), &rank) < 0 ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "bytes", ANY_SIZE, &bytes) < 0)
        return;
    dlr_sup_memory_ready(s, node, msg);
    dlr_sup_periodic_ready(s, node, msg);
    dlr_sup_on_ready(s, node, rank, round, bytes);
}

static void on_sealed(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    uint64_t at = 0;
    unsigned rank;

    if (!snapshot_fields(s, msg, &rank, &v, "round"))
        return;
    dlr_msg_uint(msg, "at", INT64_MAX, &at);
    if (dlr_sup_node_of(s, dlr_sup_place_of(s, rank)) != (int)node)
        return;
    dlr_sup_cadence_sealed(s, msg);
    dlr_commit_sealed(s->commit, rank, v, at, dlr_sup_now());
}

static void on_copied(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    unsigned rank;
    int holder;

    if (!snapshot_fields(s, msg, &rank, &v, "vround"))
        return;
    holder = dlr_sup_holder_of(s, dlr_sup_place_of(s, rank), node);
    dlr_sup_scrub_copied(s, node, rank, holder, v);
    if (holder <= 0)
        return;
    dlr_sup_cadence_copied(s, node, msg);
    dlr_sup_again_copied(s, node, rank, v);
    dlr_commit_copied(s->commit, rank, (unsigned)holder, v, dlr_sup_now());
}

static void on_missed(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *why = "";
    struct dlr_version v;
    unsigned rank;

    if (!snapshot_fields(s, msg, &rank, &v, "round"))
        return;
    dlr_msg_str(msg, "why", &why);
    dlr_commit_missed(s->commit, rank, v, why, dlr_sup_now());
}

static void on_clean(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0)
        return;
    if (s->members.list[node].here)
        dlr_policy_clean(s->policy, node, round, dlr_sup_now());
    else if (round >= dlr_policy_round(s->policy))
        node_is_up(s,
                   node); /* an older answer says nothing of the round it was lost in */
}

/* We were too slow for it, or the way back was: its workers are gone, it is not. */
static void on_lapsed(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *name = s->members.list[node].node.name;
    uint64_t round, silent_ms, killed;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "silent_ms", INT64_MAX, &silent_ms) < 0 ||
        dlr_msg_uint(msg, "killed", INT32_MAX, &killed) < 0)
        return;
    snprintf(why, sizeof(why),
             "node %.200s did not hear the supervisor for %llu ms: its lease ran out",
             name, (unsigned long long)silent_ms);
    dlr_journal_note(dlr_sup_journal(s->io), "lapsed", "s:s,s:I,s:I,s:I", "node", name,
                     "round", (json_int_t)round, "silent_ms", (json_int_t)silent_ms,
                     "killed", (json_int_t)killed);
    dlr_policy_lapsed(s->policy, round, why, dlr_sup_now());
}

static const struct {
    const char *type;
    void (*take)(struct dlr_sup *s, unsigned node, const json_t *msg);
    bool of_turn; /* worth nothing from a node that has not heard of the turn */
} handlers[] = {
    {"told", dlr_sup_on_told},
    {"stepd", dlr_sup_on_stepd},
    {"task", dlr_sup_on_task},
    {"exit", dlr_sup_on_exit},
    {"stderr", dlr_sup_on_stderr},
    {"clean", on_clean},
    {"lapsed", on_lapsed},
    {"orphaned", dlr_sup_on_orphaned},
    {"suspend", dlr_sup_on_suspend},
    {"awake", dlr_sup_on_awake},
    {"ready", on_ready, true},
    {"bring", dlr_sup_on_bring, true},
    {"room", dlr_sup_on_room, true},
    {"no_slots", dlr_sup_on_no_slots, true},
    {"unvetted", dlr_sup_on_unvetted},
    {"sealed", on_sealed, true},
    {"copied", on_copied, true},
    {"missed", on_missed, true},
    {"bad", dlr_sup_on_bad},
    {"torn", dlr_sup_on_torn},
    {"copy_bad", dlr_sup_on_copy_bad, true},
    {"restored", dlr_sup_on_restored, true},
    {"done", dlr_sup_on_done},
    {"report", dlr_sup_on_report},
    {"peers_known", dlr_sup_on_peers_known},
    {"ranks", dlr_sup_on_ranks},
    {"turned", dlr_sup_on_turned},
    {"strangers", dlr_sup_on_strangers},
    {"uses", dlr_sup_cadence_uses},
    {"unreached", dlr_sup_on_unreached},
    {"left", dlr_sup_on_left},
    {"term", dlr_sup_on_term},
};

static void take_json(struct dlr_sup *s, const struct dlr_packet *packet)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    struct dlr_err err;
    const char *type;
    int node;

    if ((packet->size > HELLO_MAX &&
         dlr_members_by_route(&s->members, &packet->from) < 0) ||
        dlr_msg_parse(packet->data, packet->size, &msg, &err) < 0) {
        s->refused++;
        return;
    }
    type = dlr_msg_type(msg);
    if (dlr_streq(type, "hello")) {
        take_hello(s, packet, msg);
        return;
    }
    node = dlr_members_by_route(&s->members, &packet->from);
    if (node < 0) {
        ask_who(s, &packet->from);
        return;
    }
    if (s->finished) {
        if (dlr_streq(type, "left"))
            dlr_sup_on_left(s, node, msg);
        return;
    }
    if (!s->members.list[node].here && !dlr_streq(type, "clean"))
        return; /* given up: it counts again when it is clean */
    for (unsigned i = 0; i < sizeof(handlers) / sizeof(*handlers); i++) {
        if (dlr_streq(type, handlers[i].type)) {
            if (!handlers[i].of_turn || !dlr_sup_ranks_behind(s, node))
                handlers[i].take(s, node, msg);
            return;
        }
    }
    s->refused++;
}

void dlr_sup_on_message(struct dlr_sup *s, const struct dlr_packet *packet)
{
    int node;

    if (!dlr_beat_is(packet->data, packet->size)) {
        take_json(s, packet);
        return;
    }
    node = dlr_members_by_route(&s->members, &packet->from);
    if (node < 0)
        ask_who(s, &packet->from);
    else
        take_beat(s, node, packet);
}
