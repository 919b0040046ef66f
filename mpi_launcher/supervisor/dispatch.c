/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say, and what happens to their nodes: which function each message goes
 * to, and who is told of each event in which order.
 */
#include <errno.h>
#include <string.h>

#include "ckpt/base/version.h"
#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/fallback_network.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/copies/scrub.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/auth_failures.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/rounds/warm.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/rejoin.h"
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/supervisor/watch/watch.h"
#include "mpi_launcher/supervisor/will.h"

#define ANY_SIZE (1ull << 50)

/* --- messages --------------------------------------------------------------------- */

/* Fields that most messages have; false when one of them is missing or wrong. */
static bool snapshot_fields(const struct dlr_sup *s, const json_t *msg,
                            unsigned *ret_rank, struct dlr_version *ret_v,
                            const char *round_key)
{
    uint64_t rank, round, step;

    if (!dlr_sup_has_plan(s->plan) ||
        dlr_msg_uint(msg, "rank", s->plan->world - 1, &rank) < 0 ||
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

    if (!dlr_sup_has_plan(s->plan) ||
        dlr_msg_uint(msg, "rank", dlr_sup_slots_max(s->planning), &rank) < 0 ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "bytes", ANY_SIZE, &bytes) < 0)
        return;
    dlr_sup_memory_ready(s->versions, node, msg);
    dlr_sup_periodic_ready(s->disk, node, msg);
    dlr_sup_on_ready(s->copies, node, rank, round, bytes);
}

static void on_sealed(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    unsigned rank;

    if (!snapshot_fields(s, msg, &rank, &v, "round"))
        return;
    if (dlr_sup_node_of(s->planning, dlr_sup_place_of(s->planning, rank)) != (int)node)
        return;
    dlr_sup_versions_sealed(s->versions, rank, v, msg);
}

static void on_copied(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    unsigned rank;
    int holder;

    if (!snapshot_fields(s, msg, &rank, &v, "vround"))
        return;
    holder = dlr_sup_holder_of(s->copies, dlr_sup_place_of(s->planning, rank), node);
    dlr_sup_scrub_copied(s->copies, node, rank, holder, v);
    if (holder <= 0)
        return;
    dlr_reprotect_copied(s->copies, node, rank, v);
    dlr_sup_versions_copied(s->versions, node, rank, (unsigned)holder, v, msg);
}

static void on_missed(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    unsigned rank;

    if (snapshot_fields(s, msg, &rank, &v, "round"))
        dlr_sup_versions_missed(s->versions, rank, v, msg);
}

static void on_clean(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0)
        return;
    dlr_sup_on_parked(s->rounds, node, msg);
    if (s->members->list[node].here)
        dlr_policy_clean(s->policy, node, round, dlr_sup_now());
    else if (round >= dlr_policy_round(s->policy))
        dlr_sup_node_up(s->nodes, node); /* an older answer says nothing of the round it
                                            was lost in */
}

/* We were too slow for it, or the way back was: its workers are gone, it is not. */
static void on_lease_expired(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *name = s->members->list[node].node.name;
    uint64_t round, silent_ms, killed;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "silent_ms", INT64_MAX, &silent_ms) < 0 ||
        dlr_msg_uint(msg, "killed", INT32_MAX, &killed) < 0)
        return;
    snprintf(why, sizeof(why),
             "node %.200s did not hear the supervisor for %llu ms: its lease ran out",
             name, (unsigned long long)silent_ms);
    dlr_journal_note(dlr_sup_journal(s->io), "lease_expired", "s:s,s:I,s:I,s:I", "node",
                     name, "round", (json_int_t)round, "silent_ms",
                     (json_int_t)silent_ms, "killed", (json_int_t)killed);
    dlr_policy_lease_expired(s->policy, round, why, dlr_sup_now());
}

static void on_suspend(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_suspend(s->nodes, node);
}

static void on_awake(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_awake(s->nodes, node);
}

static void on_peers_known(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_peers_known(s->nodes, node);
}

static void on_auth_failures(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_auth_failures(s->nodes, node, msg);
}

static void on_report(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_gather_report(s->planning, node, msg);
}

static void on_done(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_done(s->copies, node, msg);
}

static void on_term(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_term(s->ending, node, msg);
}

static void on_warned(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_warned(s->ending, msg);
}

static void to_versions(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_versions_hear(s->versions, node, msg);
}

static void on_bring(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_fetch(s->copies, node, msg);
}

static void on_room(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_room(s->copies, node, msg);
}

static void on_copy_bad(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_copy_bad(s->copies, node, msg);
}

static void on_unreached(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_unreached(s->copies, node, msg);
}

/* Before the end of the run its beats end, and the node is judged by that. */
static void on_left(struct dlr_sup *s, unsigned node, const json_t *msg)
{
}

static void on_told(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_round_state(s->rounds, node, msg);
}

static void on_stepd(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_stepd(s->rounds, node, msg);
}

static void on_task(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_task(s->rounds, node, msg);
}

static void on_worker_exit(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_exit(s->rounds, node, msg);
}

static void on_stderr(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_stderr(s->rounds, node, msg);
}

static void on_orphaned(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_orphaned(s->rounds, node, msg);
}

static void on_restored(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_restored(s->rounds, node, msg);
}

static void on_can_stay(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_can_stay(s->rounds, node, msg);
}

static void on_warm(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_warm(s->rounds, node, msg);
}

static void on_ranks(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_ranks(s->rounds, node, msg);
}

static void on_turned(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_on_turned(s->rounds, node, msg);
}

static void on_looked(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_watch_looked(s->watch, s->members->list[node].node.name, msg);
}

static const struct {
    const char *type;
    void (*take)(struct dlr_sup *s, unsigned node, const json_t *msg);
    bool of_turn; /* worth nothing from a node that has not heard of the turn */
} handlers[] = {
    {"round_state", on_told},
    {"stepd", on_stepd},
    {"task", on_task},
    {"exit", on_worker_exit},
    {"stderr", on_stderr},
    {"clean", on_clean},
    {"lease_expired", on_lease_expired},
    {"orphaned", on_orphaned},
    {"suspend", on_suspend},
    {"awake", on_awake},
    {"ready", on_ready, true},
    {"fetch", on_bring, true},
    {"room", on_room, true},
    {"no_slots", to_versions, true},
    {"no_vetted_slot", to_versions},
    {"sealed", on_sealed, true},
    {"copied", on_copied, true},
    {"missed", on_missed, true},
    {"wanted", to_versions, true},
    {"bad", to_versions},
    {"torn", to_versions},
    {"copy_bad", on_copy_bad, true},
    {"restored", on_restored, true},
    {"done", on_done},
    {"report", on_report},
    {"peers_known", on_peers_known},
    {"ranks", on_ranks},
    {"turned", on_turned},
    {"auth_failures", on_auth_failures},
    {"uses", to_versions},
    {"unreached", on_unreached},
    {"left", on_left},
    {"term", on_term},
    {"warned", on_warned},
    {"can_stay", on_can_stay},
    {"warm", on_warm},
    {"looked", on_looked},
    {"stacks", dlr_sup_on_stacks},
};

static void on_message(void *arg, unsigned node, const json_t *msg)
{
    struct dlr_sup *s = arg;
    const char *type = dlr_msg_type(msg);

    if (dlr_sup_has_ended(s)) {
        if (dlr_streq(type, "left"))
            dlr_sup_agents_left(s->steps, node);
        return;
    }
    if (!s->members->list[node].here && !dlr_streq(type, "clean"))
        return; /* given up: it counts again when it is clean */
    for (unsigned i = 0; i < sizeof(handlers) / sizeof(*handlers); i++) {
        if (dlr_streq(type, handlers[i].type)) {
            if (!handlers[i].of_turn || !dlr_sup_ranks_behind(s->rounds, node))
                handlers[i].take(s, node, msg);
            return;
        }
    }
}

/* --- what has happened to nodes --------------------------------------------------- */

static void on_silent(void *arg, unsigned node)
{
    struct dlr_sup *s = arg;

    dlr_sup_adopt_failed(s->rounds, "the supervisor died, and a node with it");
    dlr_sup_rejoin_lost(s->steps, node);
}

/* All that must know it, in this order: what was kept there, asked of it or sent to it
 * has gone; the others hear of it; then the policy goes on without it, or has done so
 * already.
 */
static void on_lost(void *arg, unsigned node, const char *why, int64_t now_ms)
{
    struct dlr_sup *s = arg;

    dlr_redundancy_degraded(s->copies, node);
    dlr_sup_gather_lost(s->planning, node);
    dlr_sup_transfers_lost(s->copies, node);
    dlr_sup_peers_went(s->nodes, node);
    dlr_sup_save_lost(s->nodes);
    dlr_sup_will_changed(s);
    if (why)
        dlr_policy_node_dead(s->policy, node, why, now_ms);
}

static void on_greeted(void *arg, unsigned node)
{
    struct dlr_sup *s = arg;

    dlr_sup_succession_greeted(s);
    dlr_sup_will_greeted(s, node);
    dlr_sup_ranks_welcome(s->rounds, node);
    dlr_sup_warm_greeted(s->rounds, node);
}

static void on_up(void *arg, unsigned node)
{
    struct dlr_sup *s = arg;

    dlr_policy_node_up(s->policy, node, dlr_sup_now());
}

/* A node's data process was started again: its peers must send to the new one. Before
 * the round is prepared none of them knows another.
 */
static void new_address(struct dlr_sup *s)
{
    enum dlr_phase phase = dlr_policy_phase(s->policy);

    if (phase == DLR_PHASE_PREPARE || phase == DLR_PHASE_RUN)
        dlr_sup_tell_round(s->rounds, dlr_policy_round(s->policy));
}

static void on_moved(void *arg, bool again)
{
    struct dlr_sup *s = arg;

    if (again)
        new_address(s);
    dlr_sup_adopt_moved(s->rounds);
}

static void on_progress(void *arg, uint32_t round, uint64_t step, int64_t now_ms)
{
    struct dlr_sup *s = arg;

    dlr_sup_versions_progress(s->versions, round, step, now_ms);
}

/* What the next supervisor and later sruns must know of who is here goes with the
 * list: it is written as seldom.
 */
static void on_published(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_save_lost(s->nodes);
    dlr_sup_save_takeover_state(s);
}

static void put_beside(void *arg, json_t *msg)
{
    struct dlr_sup *s = arg;

    if (dlr_sup_common_net(s->copies))
        json_object_set_new(msg, "fallback_network", json_true());
    json_object_set_new(msg, "state",
                        json_pack("{s:i,s:i,s:i,s:s}", "places",
                                  dlr_sup_full_places(s->planning), "world",
                                  dlr_sup_placement_world(s->planning), "nodes",
                                  s->members->n, "dir", s->info.dir));
}

static bool is_given_up(void *arg, unsigned node)
{
    const struct dlr_sup *s = arg;

    return dlr_policy_is_lost(s->policy, node);
}

static bool is_excused(void *arg, int64_t now_ms)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_term_holds(s->ending, now_ms);
}

static bool is_behind(void *arg, unsigned node)
{
    return dlr_sup_ranks_behind(((struct dlr_sup *)arg)->rounds, node);
}

static unsigned places_of_round(void *arg)
{
    const struct dlr_sup *s = arg;

    return s->step->nplaces;
}

const struct dlr_sup_nodes_ops dlr_sup_nodes_ops = {
    .message = on_message,
    .greeted = on_greeted,
    .up = on_up,
    .moved = on_moved,
    .progress = on_progress,
    .silent = on_silent,
    .lost = on_lost,
    .lost_before = dlr_sup_lost_before,
    .published = on_published,
    .beside = put_beside,
    .given_up = is_given_up,
    .barred = dlr_sup_is_barred,
    .start_retried = is_excused,
    .behind = is_behind,
    .over = dlr_sup_has_ended,
    .round = dlr_sup_round_now,
    .places = places_of_round,
};
