/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of the program, where they are not Slurm's tasks, or not where the plan has them, or have
 * been started again inside the round: the nodes tell who is there (mpi_launcher/plan/rank_map.h), and when all are known
 * the round goes on in another turn. A turn has its own token and its own places of ranks, and begins
 * from the newest commit; what a node said before it heard of the turn is not of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/rank_map.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"

struct dlr_sup_ranks {
    struct dlr_rankmap *map;
    bool asked;            /* every node, by "ask_ranks" */
    bool ended;            /* a task has, in good order: its ranks do not come again */
    unsigned char *behind; /* [nnodes] 1: has not heard of this turn yet */
    int64_t began_ms, deadline_ms;
};

/* Nothing is known of who is where. */
static int reset(struct dlr_sup *s)
{
    struct dlr_sup_ranks *r = s->ranks;

    if (!r && !(r = s->ranks = calloc(1, sizeof(*r))))
        return -ENOMEM;
    dlr_rankmap_free(r->map);
    free(r->behind);
    *r = (struct dlr_sup_ranks){.map = dlr_rankmap_new(s->members->n),
                                .behind = calloc(s->members->n, 1),
                                .deadline_ms = INT64_MAX};
    if (!r->map || !r->behind)
        return -ENOMEM;
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        dlr_rankmap_await(r->map, (unsigned)dlr_sup_node_of(s->planning, p));
    return 0;
}

void dlr_sup_ranks_stop(struct dlr_sup *s)
{
    if (s->ranks) {
        dlr_rankmap_free(s->ranks->map);
        free(s->ranks->behind);
    }
    free(s->ranks);
    s->ranks = NULL;
}

void dlr_sup_ranks_round(struct dlr_sup *s)
{
    s->turn = 0;
    s->anywhere = false;
    reset(s);
}

bool dlr_sup_ranks_gathered(const struct dlr_sup *s)
{
    return dlr_sup_seats_told(s->planning);
}

bool dlr_sup_ranks_behind(const struct dlr_sup *s, unsigned node)
{
    return s->ranks && s->ranks->behind && s->ranks->behind[node];
}

void dlr_sup_on_turned(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round, turn;

    if (s->ranks && s->ranks->behind &&
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0 &&
        dlr_msg_uint(msg, "turn", UINT32_MAX, &turn) == 0 &&
        round == s->running_round && turn == s->turn)
        s->ranks->behind[node] = 0;
}

/* --- where the state is that ranks begin from ------------------------------------------------ */

/* Every rank's copy of v is on the node where the rank was. */
static int at_home(struct dlr_sup *s, bool same, bool committed)
{
    int rc = 0;

    for (unsigned r = 0; r < s->plan->world && rc == 0; r++) {
        const char *home = s->plan->places[s->plan->place_of[r]].node.name;

        rc = dlr_sup_plan_source(s->planning, r, same ? NULL : home,
                                 committed ? s->slot_bytes[r]
                                           : s->plan->sources[r].bytes);
    }
    return rc;
}

/* Sources of the newest commit, before the ranks change their places. */
static int keep_sources(struct dlr_sup *s, bool same)
{
    struct dlr_version newest;
    bool has = dlr_sup_newest(s->versions, &newest);

    if (!has)
        return dlr_sup_plan_restore(s->planning, NULL);
    if (s->plan->restore && dlr_version_eq(newest, s->plan->version)) {
        if (dlr_sup_other_world(s))
            s->anywhere = true; /* where they were, they are */
        else if (at_home(s, same, false) < 0)
            return -ENOMEM;
        s->anywhere = s->anywhere || !same;
        return 0;
    }
    if (dlr_sup_plan_restore(s->planning, &newest) < 0)
        return -ENOMEM;
    s->anywhere = !same;
    return at_home(s, same, true);
}

/* --- the ranks get their places --------------------------------------------------------------- */

static int place_of_node(const struct dlr_sup *s, unsigned node)
{
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        if (dlr_sup_node_of(s->planning, p) == (int)node)
            return (int)p;
    return -1;
}

/* Ranks of place 0 ascending, then of place 1 ... -EINVAL: one is on a node without a place. */
static int make_seats(const struct dlr_sup *s, const unsigned *nodes, unsigned world,
                      unsigned *tasks, unsigned *ranks)
{
    unsigned at = 0;

    for (unsigned r = 0; r < world; r++)
        if (place_of_node(s, nodes[r]) < 0)
            return -EINVAL;
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        for (unsigned r = 0, node = (unsigned)dlr_sup_node_of(s->planning, p);
             r < world; r++)
            if (nodes[r] == node) {
                ranks[at++] = r;
                tasks[p]++;
            }
    return 0;
}

static bool is_same(const struct dlr_sup *s, const unsigned *tasks,
                    const unsigned *ranks, unsigned world)
{
    if (world != s->plan->world ||
        memcmp(ranks, s->plan->ranks, world * sizeof(*ranks)))
        return false;
    for (unsigned p = 0; p < s->plan->nplaces; p++)
        if (tasks[p] != s->plan->places[p].tasks)
            return false;
    return true;
}

static void tell(struct dlr_sup *s, bool same)
{
    json_t *row = dlr_sup_plan_rows(s->planning);

    if (row)
        json_object_del(row, "spares");
    json_object_set_new(row, "turn", json_integer(s->turn));
    json_object_set_new(row, "world", json_integer(s->plan->world));
    json_object_set_new(row, "moved", json_boolean(!same));
    json_object_set_new(row, "took_ms",
                        json_integer(dlr_sup_now() - s->ranks->began_ms));
    dlr_journal_event(dlr_sup_journal(s->io), "ranks", row);
}

/* Ranks that are to restore have so long from now on. */
static void limit_restore(struct dlr_sup *s)
{
    bool restores =
        s->plan->restore && !s->go_told && (!s->first_step_seen || s->nrestored);

    s->restore_deadline_ms =
        restores ? dlr_sup_now() + s->conf.restore_timeout_ms : INT64_MAX;
}

/* What a new round does too, of the ranks. It is kept before anybody hears of it: a successor that knew
 * the former turn only would take no word of those that are in this one.
 */
static int begin_turn(struct dlr_sup *s, unsigned world, bool same)
{
    uint32_t round = s->running_round;
    bool whole = same && s->kept_whole; /* its holders have all of it still */

    free(s->restored);
    s->restored = calloc(world, 1);
    if (!s->restored || dlr_sup_holders_make(s) < 0)
        return -ENOMEM;
    s->turn++;
    tell(s, same);
    s->nrestored = 0;
    s->first_step_seen = s->go_told = false;
    if (!same)
        dlr_sup_again_stop(s); /* its holders are others; see dlr_sup_again_turn() */
    dlr_sup_bring_round(s);
    s->transfer_version = s->plan->version;
    if (dlr_sup_new_token(s) < 0 || reset(s) < 0)
        return -ENOMEM;
    memset(s->ranks->behind, 1, s->members->n);
    dlr_sup_forget_steps(s->nodes);
    dlr_sup_versions_turn(s->versions, round, same);
    limit_restore(s);
    dlr_sup_keep_plan(s->planning);
    s->kept_whole |= whole;
    dlr_sup_tell_round(s, round);
    dlr_sup_send_peers(s->nodes); /* a successor must know how many ranks there are */
    dlr_sup_again_turn(s);
    return 0;
}

/* Every rank is known: on these nodes. */
static int turn(struct dlr_sup *s, const unsigned *nodes, unsigned world)
{
    DLR_AUTO_FREE unsigned *tasks = calloc(s->plan->nplaces, sizeof(*tasks));
    DLR_AUTO_FREE unsigned *ranks = calloc(world + 1, sizeof(*ranks));
    bool same;
    int rc;

    if (!tasks || !ranks)
        return -ENOMEM;
    rc = make_seats(s, nodes, world, tasks, ranks);
    if (rc < 0)
        return rc;
    same = is_same(s, tasks, ranks, world);
    dlr_sup_periodic_turn(s); /* by the places as they were */
    dlr_sup_versions_stop(s->versions, "the ranks are known anew");
    rc = keep_sources(s, same);
    if (rc == 0 && !same)
        rc = dlr_sup_plan_seat(s->planning, tasks, ranks, world);
    return rc < 0 ? rc : begin_turn(s, world, same);
}

/* --- what the nodes tell ---------------------------------------------------------------------- */

static json_t *about(const struct dlr_sup *s, const char *type)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(s->running_round));
    json_object_set_new(msg, "turn", json_integer(s->turn));
    return msg;
}

/* Those that wait get no checkpoint; the program decides what becomes of it. */
static void refuse(struct dlr_sup *s, const char *why)
{
    json_t *msg = about(s, "refuse");

    json_object_set_new(msg, "why", json_string(why));
    dlr_sup_send_all(s->nodes, msg);
    dlr_sup_say(s->io, "no checkpoint can be opened: %s", why);
    dlr_journal_note(dlr_sup_journal(s->io), "ranks_missing", "s:I,s:s", "round",
                     (json_int_t)s->running_round, "why", why);
    s->ranks->deadline_ms = INT64_MAX;
    limit_restore(s); /* of those that were let in */
}

static int look(struct dlr_sup *s, unsigned **ret_nodes, unsigned *ret_world,
                char why[DLR_RANKMAP_TEXT])
{
    DLR_AUTO_FREE const char **names = calloc(s->members->n, sizeof(*names));

    for (unsigned i = 0; names && i < s->members->n; i++)
        names[i] = s->members->list[i].node.name;
    return names ? dlr_rankmap_look(s->ranks->map, names, ret_nodes, ret_world, why)
                 : -ENOMEM;
}

/* Each of Slurm's tasks is a rank, for only all together can have committed; and one of them has ended.
 * Where that is not known a task without ranks may have ended, beside one that starts all of them.
 */
static bool is_ending(const struct dlr_sup *s)
{
    struct dlr_version newest;

    return s->ranks->ended && s->turn == 0 && !dlr_sup_ranks_gathered(s) &&
           dlr_sup_newest(s->versions, &newest) && newest.round == s->running_round;
}

static void judge(struct dlr_sup *s)
{
    DLR_AUTO_FREE unsigned *nodes = NULL;
    char why[DLR_RANKMAP_TEXT];
    unsigned world;
    int rc = look(s, &nodes, &world, why);

    if (rc == DLR_RANKMAP_TORN)
        refuse(s, why);
    if (rc == DLR_RANKMAP_OPEN && is_ending(s))
        refuse(s,
               "other ranks of the program have ended, and cannot open theirs again");
    if (rc == DLR_RANKMAP_WHOLE) {
        rc = turn(s, nodes, world);
        if (rc < 0)
            refuse(s, rc == -ENOMEM
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

static void ask(struct dlr_sup *s)
{
    s->ranks->asked = true;
    dlr_sup_send_all(s->nodes, about(s, "ask_ranks"));
}

/* While a supervisor that took over hears what the nodes have, nothing begins. */
static void consider(struct dlr_sup *s)
{
    struct dlr_sup_ranks *r = s->ranks;

    if (s->adopt.active)
        return;
    if (!dlr_rankmap_waits(r->map)) {
        if (r->deadline_ms != INT64_MAX)
            limit_restore(s);
        r->deadline_ms = INT64_MAX;
        return;
    }
    if (r->deadline_ms == INT64_MAX) {
        r->began_ms = dlr_sup_now();
        r->deadline_ms = r->began_ms + s->conf.restore_timeout_ms;
        s->restore_deadline_ms = INT64_MAX; /* it runs anew, from the turn on */
    }
    if (!r->asked)
        ask(s);
    judge(s);
}

void dlr_sup_on_ranks(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    DLR_AUTO_FREE struct dlr_rankmap_claim *claims = NULL;
    struct dlr_sup_ranks *r = s->ranks;
    uint64_t round, turn_told;
    unsigned n;

    if (!r || !dlr_sup_has_plan(s->plan) ||
        dlr_policy_phase(s->policy) != DLR_PHASE_RUN ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        round != s->running_round ||
        dlr_msg_uint(msg, "turn", UINT32_MAX, &turn_told) < 0 || turn_told != s->turn ||
        read_claims(msg, &claims, &n) < 0 ||
        dlr_rankmap_tell(r->map, node, claims, n,
                         json_is_true(json_object_get(msg, "lost"))) < 0)
        return;
    consider(s);
}

void dlr_sup_ranks_ended(struct dlr_sup *s)
{
    if (!s->ranks || s->ranks->ended)
        return;
    s->ranks->ended = true;
    consider(s);
}

void dlr_sup_ranks_welcome(struct dlr_sup *s, unsigned node)
{
    if (s->ranks && s->ranks->asked)
        dlr_sup_send(s->nodes, node, about(s, "ask_ranks"));
}

void dlr_sup_ranks_tick(struct dlr_sup *s, int64_t now_ms)
{
    DLR_AUTO_FREE unsigned *nodes = NULL;
    char why[DLR_RANKMAP_TEXT] = "", text[DLR_RANKMAP_TEXT + 80];
    unsigned world;

    if (!s->ranks || now_ms < s->ranks->deadline_ms)
        return;
    look(s, &nodes, &world, why);
    dlr_format(text, sizeof(text), "%s (after %lld s, --dlrover-set=restore-timeout)",
               why, (long long)s->conf.restore_timeout_ms / 1000);
    refuse(s, text);
}

/* --- a round of the former supervisor -------------------------------------------------- */

int dlr_sup_ranks_adopt(struct dlr_sup *s)
{
    return reset(s);
}

void dlr_sup_ranks_told(struct dlr_sup *s, unsigned node, const json_t *told)
{
    uint64_t turn = 0;

    dlr_msg_uint(told, "turn", UINT32_MAX, &turn);
    s->ranks->behind[node] = turn != s->turn;
}

void dlr_sup_ranks_adopted(struct dlr_sup *s)
{
    if (memchr(s->ranks->behind, 1, s->members->n))
        dlr_sup_tell_round(s, s->running_round);
    consider(s);
}
