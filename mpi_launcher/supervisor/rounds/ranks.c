/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of the program, where they are not Slurm's tasks, or not where the plan has
 * them, or have been started again inside the round: the nodes tell who is there
 * (mpi_launcher/plan/rank_map.h), and when all are known the round goes on in another
 * turn. A turn has its own token and its own places of ranks, and begins from the
 * newest commit; what a node said before it heard of the turn is not of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/rank_map.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/versions/versions.h"

struct dlr_sup_ranks {
    struct dlr_rankmap *map;
    bool asked;            /* every node, by "ask_ranks" */
    bool ended;            /* a task has, in good order: its ranks do not come again */
    unsigned char *behind; /* [nnodes] 1: has not heard of this turn yet */
    int64_t began_ms, deadline_ms;
};

/* Nothing is known of who is where. */
static int reset(struct dlr_sup_rounds *rounds)
{
    struct dlr_sup_ranks *r = rounds->ranks;

    if (!r && !(r = rounds->ranks = calloc(1, sizeof(*r))))
        return -ENOMEM;
    dlr_rankmap_free(r->map);
    free(r->behind);
    *r = (struct dlr_sup_ranks){.map = dlr_rankmap_new(rounds->members->n),
                                .behind = calloc(rounds->members->n, 1),
                                .deadline_ms = INT64_MAX};
    if (!r->map || !r->behind)
        return -ENOMEM;
    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++)
        dlr_rankmap_await(r->map, (unsigned)dlr_sup_node_of(rounds->env.planning, p));
    return 0;
}

void dlr_sup_ranks_stop(struct dlr_sup_rounds *rounds)
{
    if (rounds->ranks) {
        dlr_rankmap_free(rounds->ranks->map);
        free(rounds->ranks->behind);
    }
    free(rounds->ranks);
    rounds->ranks = NULL;
}

void dlr_sup_ranks_round(struct dlr_sup_rounds *rounds)
{
    rounds->turn = 0;
    rounds->anywhere = false;
    reset(rounds);
}

bool dlr_sup_ranks_behind(const struct dlr_sup_rounds *rounds, unsigned node)
{
    return rounds->ranks && rounds->ranks->behind && rounds->ranks->behind[node];
}

void dlr_sup_on_turned(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    uint64_t round, turn;

    if (rounds->ranks && rounds->ranks->behind &&
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0 &&
        dlr_msg_uint(msg, "turn", UINT32_MAX, &turn) == 0 &&
        round == rounds->running_round && turn == rounds->turn)
        rounds->ranks->behind[node] = 0;
}

/* --- where the state is that ranks begin from ------------------------------------- */

/* Every rank's copy of v is on the node where the rank was. */
static int at_home(struct dlr_sup_rounds *rounds, bool same, bool committed)
{
    int rc = 0;

    for (unsigned r = 0; r < rounds->env.plan->world && rc == 0; r++) {
        const char *home =
            rounds->env.plan->places[rounds->env.plan->place_of[r]].node.name;

        rc = dlr_sup_plan_source(rounds->env.planning, r, same ? NULL : home,
                                 committed ? dlr_sup_slot_bytes(rounds->env.copies, r)
                                           : rounds->env.plan->sources[r].bytes);
    }
    return rc;
}

/* Sources of the newest commit, before the ranks change their places. */
static int keep_sources(struct dlr_sup_rounds *rounds, bool same)
{
    struct dlr_version newest;
    bool has = dlr_sup_newest(rounds->env.versions, &newest);

    if (!has)
        return dlr_sup_plan_restore(rounds->env.planning, NULL);
    if (rounds->env.plan->restore &&
        dlr_version_eq(newest, rounds->env.plan->version)) {
        if (dlr_restore_changes_world_size(rounds->env.copies))
            rounds->anywhere = true; /* where they were, they are */
        else if (at_home(rounds, same, false) < 0)
            return -ENOMEM;
        rounds->anywhere = rounds->anywhere || !same;
        return 0;
    }
    if (dlr_sup_plan_restore(rounds->env.planning, &newest) < 0)
        return -ENOMEM;
    rounds->anywhere = !same;
    return at_home(rounds, same, true);
}

/* --- the ranks get their places --------------------------------------------------- */

static int place_of_node(const struct dlr_sup_rounds *rounds, unsigned node)
{
    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++)
        if (dlr_sup_node_of(rounds->env.planning, p) == (int)node)
            return (int)p;
    return -1;
}

/* Ranks of place 0 ascending, then of place 1 ... -EINVAL: one is on a node without a
 * place.
 */
static int make_seats(const struct dlr_sup_rounds *rounds, const unsigned *nodes,
                      unsigned world, unsigned *tasks, unsigned *ranks)
{
    unsigned at = 0;

    for (unsigned r = 0; r < world; r++)
        if (place_of_node(rounds, nodes[r]) < 0)
            return -EINVAL;
    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++)
        for (unsigned r = 0, node = (unsigned)dlr_sup_node_of(rounds->env.planning, p);
             r < world; r++)
            if (nodes[r] == node) {
                ranks[at++] = r;
                tasks[p]++;
            }
    return 0;
}

static bool is_same(const struct dlr_sup_rounds *rounds, const unsigned *tasks,
                    const unsigned *ranks, unsigned world)
{
    if (world != rounds->env.plan->world ||
        memcmp(ranks, rounds->env.plan->ranks, world * sizeof(*ranks)))
        return false;
    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++)
        if (tasks[p] != rounds->env.plan->places[p].tasks)
            return false;
    return true;
}

static void tell(struct dlr_sup_rounds *rounds, bool same)
{
    json_t *row = dlr_sup_plan_rows(rounds->env.planning);

    if (row)
        json_object_del(row, "spares");
    json_object_set_new(row, "turn", json_integer(rounds->turn));
    json_object_set_new(row, "world", json_integer(rounds->env.plan->world));
    json_object_set_new(row, "moved", json_boolean(!same));
    json_object_set_new(row, "took_ms",
                        json_integer(dlr_sup_now() - rounds->ranks->began_ms));
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "ranks", row);
}

/* Ranks that are to restore have so long from now on. */
static void limit_restore(struct dlr_sup_rounds *rounds)
{
    bool restores = rounds->env.plan->restore && !rounds->go_reported &&
                    (!rounds->first_step_seen || rounds->nrestored);

    rounds->restore_deadline_ms =
        restores ? dlr_sup_now() + rounds->env.conf->restore_timeout_ms : INT64_MAX;
}

/* What a new round does too, of the ranks. It is kept before anybody hears of it: a
 * successor that knew the former turn only would take no word of those that are in this
 * one.
 */
static int begin_turn(struct dlr_sup_rounds *rounds, unsigned world, bool same)
{
    uint32_t round = rounds->running_round;
    /* Its holders have all of it still. */
    bool whole = same && dlr_sup_kept_whole(rounds->env.copies);

    free(rounds->restored);
    rounds->restored = calloc(world, 1);
    if (!rounds->restored || dlr_sup_holders_make(rounds->env.copies) < 0)
        return -ENOMEM;
    rounds->turn++;
    tell(rounds, same);
    rounds->nrestored = 0;
    rounds->first_step_seen = rounds->go_reported = false;
    if (!same)
        /* its holders are others; see dlr_reprotect_turn() */
        dlr_reprotect_stop(rounds->env.copies);
    dlr_sup_fetch_round(rounds->env.copies);
    dlr_sup_transfers_of_plan(rounds->env.copies);
    if (dlr_sup_new_token(rounds) < 0 || reset(rounds) < 0)
        return -ENOMEM;
    memset(rounds->ranks->behind, 1, rounds->members->n);
    dlr_sup_forget_steps(rounds->env.nodes);
    dlr_sup_versions_turn(rounds->env.versions, round, same);
    limit_restore(rounds);
    dlr_sup_keep_plan(rounds->env.planning);
    if (whole)
        dlr_sup_set_kept_whole(rounds->env.copies);
    dlr_sup_tell_round(rounds, round);
    /* A successor must know how many ranks there are. */
    dlr_sup_send_peers(rounds->env.nodes);
    dlr_reprotect_turn(rounds->env.copies);
    return 0;
}

/* Every rank is known: on these nodes. */
static int turn(struct dlr_sup_rounds *rounds, const unsigned *nodes, unsigned world)
{
    DLR_AUTO_FREE unsigned *tasks = calloc(rounds->env.plan->nplaces, sizeof(*tasks));
    DLR_AUTO_FREE unsigned *ranks = calloc(world + 1, sizeof(*ranks));
    bool same;
    int rc;

    if (!tasks || !ranks)
        return -ENOMEM;
    rc = make_seats(rounds, nodes, world, tasks, ranks);
    if (rc < 0)
        return rc;
    same = is_same(rounds, tasks, ranks, world);
    dlr_sup_periodic_cut(rounds->env.disk, /* by the places as they were */
                         "the ranks of its round are known anew");
    dlr_sup_versions_stop(rounds->env.versions, "the ranks are known anew");
    rc = keep_sources(rounds, same);
    if (rc == 0 && !same)
        rc = dlr_sup_plan_seat(rounds->env.planning, tasks, ranks, world);
    return rc < 0 ? rc : begin_turn(rounds, world, same);
}

/* --- what the nodes tell ---------------------------------------------------------- */

static json_t *about(const struct dlr_sup_rounds *rounds, const char *type)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(rounds->running_round));
    json_object_set_new(msg, "turn", json_integer(rounds->turn));
    return msg;
}

/* Those that wait get no checkpoint; the program decides what becomes of it. */
static void refuse(struct dlr_sup_rounds *rounds, const char *why)
{
    json_t *msg = about(rounds, "refuse");

    json_object_set_new(msg, "why", json_string(why));
    dlr_sup_send_all(rounds->env.nodes, msg);
    dlr_user_line(rounds->env.io, "no checkpoint can be opened: %s", why);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "ranks_missing", "s:I,s:s",
                     "round", (json_int_t)rounds->running_round, "why", why);
    rounds->ranks->deadline_ms = INT64_MAX;
    limit_restore(rounds); /* of those that were let in */
}

static int look(struct dlr_sup_rounds *rounds, unsigned **ret_nodes,
                unsigned *ret_world, char why[DLR_RANKMAP_TEXT])
{
    DLR_AUTO_FREE const char **names = calloc(rounds->members->n, sizeof(*names));

    for (unsigned i = 0; names && i < rounds->members->n; i++)
        names[i] = rounds->members->list[i].node.name;
    return names
               ? dlr_rankmap_look(rounds->ranks->map, names, ret_nodes, ret_world, why)
               : -ENOMEM;
}

/* Each of Slurm's tasks is a rank, for only all together can have committed; and one of
 * them has ended. Where that is not known a task without ranks may have ended, beside
 * one that starts all of them.
 */
static bool is_ending(const struct dlr_sup_rounds *rounds)
{
    struct dlr_version newest;

    return rounds->ranks->ended && rounds->turn == 0 &&
           !dlr_sup_seats_told(rounds->env.planning) &&
           dlr_sup_newest(rounds->env.versions, &newest) &&
           newest.round == rounds->running_round;
}

static void judge(struct dlr_sup_rounds *rounds)
{
    DLR_AUTO_FREE unsigned *nodes = NULL;
    char why[DLR_RANKMAP_TEXT];
    unsigned world;
    int rc = look(rounds, &nodes, &world, why);

    if (rc == DLR_RANKMAP_TORN)
        refuse(rounds, why);
    if (rc == DLR_RANKMAP_OPEN && is_ending(rounds))
        refuse(rounds,
               "other ranks of the program have ended, and cannot open theirs again");
    if (rc == DLR_RANKMAP_WHOLE) {
        rc = turn(rounds, nodes, world);
        if (rc < 0)
            refuse(rounds, rc == -ENOMEM
                               ? "out of memory"
                               : "a rank is on a node that has no task of the round");
    }
}

static int read_claims(const json_t *msg, struct dlr_rankmap_claim **ret,
                       unsigned *ret_n)
{
    const json_t *waiting = json_object_get(msg, "waiting");
    const json_t *served = json_object_get(msg, "served");
    size_t nw = json_array_size(waiting), ns = json_array_size(served);
    DLR_AUTO_FREE struct dlr_rankmap_claim *c = NULL;

    if (nw > DLR_PLAN_RANKS_MAX || ns > DLR_PLAN_RANKS_MAX)
        return -EBADMSG;
    c = calloc(nw + ns + 1, sizeof(*c));
    for (size_t i = 0; c && i < nw + ns; i++) {
        const json_t *item =
            i < nw ? json_array_get(waiting, i) : json_array_get(served, i - nw);
        json_int_t rank = json_integer_value(json_array_get(item, 0));
        json_int_t world = json_integer_value(json_array_get(item, 1));

        if (rank < 0 || world <= rank || world > DLR_PLAN_RANKS_MAX)
            return -EBADMSG;
        c[i] = (struct dlr_rankmap_claim){(unsigned)rank, (unsigned)world, i >= nw};
    }
    *ret_n = (unsigned)(nw + ns);
    *ret = DLR_STEAL(c);
    return *ret ? 0 : -ENOMEM;
}

static void ask(struct dlr_sup_rounds *rounds)
{
    rounds->ranks->asked = true;
    dlr_sup_send_all(rounds->env.nodes, about(rounds, "ask_ranks"));
}

/* While a supervisor that took over hears what the nodes have, nothing begins. */
static void consider(struct dlr_sup_rounds *rounds)
{
    struct dlr_sup_ranks *r = rounds->ranks;

    if (rounds->adopt.active)
        return;
    if (!dlr_rankmap_waits(r->map)) {
        if (r->deadline_ms != INT64_MAX)
            limit_restore(rounds);
        r->deadline_ms = INT64_MAX;
        return;
    }
    if (r->deadline_ms == INT64_MAX) {
        r->began_ms = dlr_sup_now();
        r->deadline_ms = r->began_ms + rounds->env.conf->restore_timeout_ms;
        rounds->restore_deadline_ms = INT64_MAX; /* it runs anew, from the turn on */
    }
    if (!r->asked)
        ask(rounds);
    judge(rounds);
}

void dlr_sup_on_ranks(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    DLR_AUTO_FREE struct dlr_rankmap_claim *claims = NULL;
    struct dlr_sup_ranks *r = rounds->ranks;
    uint64_t round, turn_reported;
    unsigned n;

    if (!r || !dlr_sup_has_plan(rounds->env.plan) ||
        dlr_policy_phase(rounds->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != rounds->running_round ||
        dlr_msg_uint(msg, "turn", UINT32_MAX, &turn_reported) < 0 ||
        turn_reported != rounds->turn || read_claims(msg, &claims, &n) < 0 ||
        dlr_rankmap_tell(r->map, node, claims, n,
                         json_is_true(json_object_get(msg, "lost"))) < 0)
        return;
    consider(rounds);
}

void dlr_sup_ranks_ended(struct dlr_sup_rounds *rounds)
{
    if (!rounds->ranks || rounds->ranks->ended)
        return;
    rounds->ranks->ended = true;
    consider(rounds);
}

void dlr_sup_ranks_welcome(struct dlr_sup_rounds *rounds, unsigned node)
{
    if (rounds->ranks && rounds->ranks->asked)
        dlr_sup_send(rounds->env.nodes, node, about(rounds, "ask_ranks"));
}

void dlr_sup_ranks_tick(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    DLR_AUTO_FREE unsigned *nodes = NULL;
    char why[DLR_RANKMAP_TEXT] = "", text[DLR_RANKMAP_TEXT + 80];
    unsigned world;

    if (!rounds->ranks || now_ms < rounds->ranks->deadline_ms)
        return;
    look(rounds, &nodes, &world, why);
    dlr_format(text, sizeof(text), "%s (after %lld s, --dlrover-set=restore-timeout)",
               why, (long long)rounds->env.conf->restore_timeout_ms / 1000);
    refuse(rounds, text);
}

/* --- a round of the former supervisor --------------------------------------------- */

int dlr_sup_ranks_adopt(struct dlr_sup_rounds *rounds)
{
    return reset(rounds);
}

void dlr_sup_ranks_round_state(struct dlr_sup_rounds *rounds, unsigned node,
                               const json_t *told)
{
    uint64_t turn = 0;

    dlr_msg_uint(told, "turn", UINT32_MAX, &turn);
    rounds->ranks->behind[node] = turn != rounds->turn;
}

void dlr_sup_ranks_adopted(struct dlr_sup_rounds *rounds)
{
    if (memchr(rounds->ranks->behind, 1, rounds->members->n))
        dlr_sup_tell_round(rounds, rounds->running_round);
    consider(rounds);
}
