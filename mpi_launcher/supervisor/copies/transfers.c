/* SPDX-License-Identifier: Apache-2.0 */
/* Where copies go: to the nodes whose ranks will load them and to new partners before a
 * round.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

static struct dlr_plan_struck *strike(struct dlr_sup *s, const char *where, int rank,
                                      struct dlr_version v)
{
    struct dlr_plan_struck *more = realloc(s->struck, (s->nstruck + 1) * sizeof(*more));

    if (!more)
        return NULL;
    s->struck = more;
    more += s->nstruck++;
    memset(more, 0, sizeof(*more));
    dlr_format(more->where, sizeof(more->where), "%s", where);
    more->rank = rank;
    more->version = v;
    return more;
}

void dlr_sup_strike(struct dlr_sup *s, const char *where, int rank,
                    struct dlr_version v)
{
    strike(s, where, rank, v);
}

void dlr_sup_strike_version(struct dlr_sup *s, struct dlr_version v, bool lasting,
                            bool later)
{
    struct dlr_plan_struck *mark = strike(s, "*", -1, v);

    if (!mark)
        return;
    mark->lasting = lasting;
    mark->later = later;
}

const struct dlr_plan_struck *dlr_sup_struck(const struct dlr_sup *s, unsigned *ret_n)
{
    *ret_n = s->nstruck;
    return s->struck;
}

void dlr_sup_unstrike(struct dlr_sup *s, unsigned i)
{
    s->nstruck--;
    memmove(&s->struck[i], &s->struck[i + 1], (s->nstruck - i) * sizeof(*s->struck));
}

/* --- transfers --------------------------------------------------------------------------------- */

static void transfer_done(void *arg, unsigned node, uint64_t id, int rc,
                          const char *why);

struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup *s, unsigned rank, int from,
                                          int to, bool essential)
{
    struct dlr_transfer *t;

    if (from < 0 || to < 0)
        return NULL;
    t = realloc(s->transfers, (s->ntransfers + 1) * sizeof(*t));
    if (!t)
        return NULL;
    s->transfers = t;
    t += s->ntransfers++;
    memset(t, 0, sizeof(*t));
    t->id = dlr_sup_request(s->copies, 1, transfer_done, s);
    t->rank = rank;
    t->from = from;
    t->to = to;
    t->essential = essential;
    return t;
}

json_t *dlr_sup_order(const struct dlr_sup *s, const struct dlr_transfer *t,
                      const char *type)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "id", json_integer(t->id));
    json_object_set_new(msg, "round", json_integer(dlr_policy_round(s->policy)));
    json_object_set_new(msg, "rank", json_integer(t->rank));
    json_object_set_new(msg, "vround", json_integer(s->transfer_version.round));
    json_object_set_new(msg, "step", json_integer(s->transfer_version.step));
    return msg;
}

void dlr_sup_ask(struct dlr_sup *s, const struct dlr_transfer *t, const char *type,
                 unsigned node, const char *key, const char *value)
{
    json_t *msg = dlr_sup_order(s, t, type);

    json_object_set_new(msg, key, json_string(value));
    if (dlr_streq(type, "load") && !dlr_below(value, s->info.dir))
        json_object_set_new(msg, "foreign", json_true()); /* --dlrover-restore-from */
    dlr_sup_send(s->nodes, node, msg);
}

void dlr_sup_ask_reserve(struct dlr_sup *s, unsigned node, unsigned rank,
                         uint64_t bytes)
{
    json_t *msg = dlr_msg_new("reserve");

    json_object_set_new(msg, "round", json_integer(dlr_policy_round(s->policy)));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "bytes", json_integer(bytes));
    dlr_sup_send(s->nodes, node, msg);
}

static void start_parts(struct dlr_sup *s, uint64_t of)
{
    for (unsigned i = 0; i < s->ntransfers; i++)
        if (s->transfers[i].of == of && !s->transfers[i].ended)
            dlr_sup_transfer_start(s, &s->transfers[i]);
}

void dlr_sup_transfer_start(struct dlr_sup *s, struct dlr_transfer *t)
{
    const char *data = s->members->list[t->to].data;

    t->started = true;
    if (t->rebuild)
        start_parts(s, t->id);
    else if (t->path[0])
        dlr_sup_ask(s, t, "load", t->to, "path", t->path);
    else
        dlr_sup_ask(s, t, "send", t->from, "data", data ? data : "");
}

/* With one of its parts a rebuilding has failed. When all parts came and it failed nevertheless, its
 * shards are not of the same set, or not what was written: they are not tried again.
 */
static void end_rebuild(struct dlr_sup *s, const struct dlr_transfer *failed,
                        bool blame)
{
    uint64_t of = failed->rebuild ? failed->id : failed->of;

    for (unsigned i = 0; i < s->ntransfers; i++) {
        struct dlr_transfer *t = &s->transfers[i];

        if (t->id == of || t->of == of)
            t->ended = true;
        if (failed->rebuild && blame && t->of == of && t->shard)
            dlr_sup_strike(s, s->members->list[t->from].node.name, (int)t->rank,
                           s->transfer_version);
    }
}

static void end_transfer(struct dlr_sup *s, struct dlr_transfer *t, int rc,
                         const char *why)
{
    const char *from = t->path[0] ? t->path : s->members->list[t->from].node.name;
    bool blame;

    if (t->ended)
        return;
    t->ended = true;
    if (rc == 0 && t->rebuild && t->path[0]) {
        dlr_sup_write_rebuilt(s->disk, t);
        return;
    }
    if (rc == 0) {
        s->moved += t->of == 0;
        return;
    }
    dlr_journal_note(dlr_sup_journal(s->io), "copy_failed", "s:i,s:s,s:s,s:s", "rank",
                     t->rank, "from", from, "to", s->members->list[t->to].node.name,
                     "why", why);
    if (!t->essential)
        return;
    if (s->transfer_rc == 0)
        snprintf(s->transfer_why, sizeof(s->transfer_why), "rank %u's copy: %.200s",
                 t->rank, why);
    s->transfer_rc = rc;
    /* A lost node strikes nothing, nor does a full one: the next plan does without it. */
    blame = rc != -EPIPE && rc != -ENOSPC &&
            dlr_sup_blames(s, from, (int)t->rank, s->transfer_version, rc);
    if (t->of || t->rebuild)
        end_rebuild(s, t, blame);
    if (blame)
        dlr_sup_strike(s, from, (int)t->rank, s->transfer_version);
}

struct dlr_transfer *dlr_sup_transfer(struct dlr_sup *s, uint64_t id)
{
    for (unsigned i = 0; i < s->ntransfers; i++)
        if (s->transfers[i].id == id)
            return &s->transfers[i];
    return NULL;
}

static void transfer_done(void *arg, unsigned node, uint64_t id, int rc,
                          const char *why)
{
    struct dlr_sup *s = arg;
    struct dlr_transfer *t = dlr_sup_transfer(s, id);

    if (!t || (node != t->from && node != t->to))
        return;
    if (dlr_sup_is_persisting(s->disk) && t->path[0] && !t->rebuild)
        rc = dlr_sup_written(s->disk, t, rc, why);
    if (rc != -EINPROGRESS)
        end_transfer(s, t, dlr_sup_copy_rc(rc), why);
}

void dlr_sup_transfers_clear(struct dlr_sup *s)
{
    dlr_sup_requests_drop(s->copies, transfer_done);
    s->ntransfers = s->moved = 0;
    s->transfer_rc = 0;
}

/* Those of the rank itself: one that is only read has another. */
static bool awaits_slots(const struct dlr_transfer *t, unsigned node, unsigned rank)
{
    return t->to == node && t->rank == rank && !t->of && !t->brought && !t->started &&
           !t->ended;
}

bool dlr_sup_transfers_full(struct dlr_sup *s, unsigned node, unsigned rank,
                            const char *why)
{
    bool needed = false;

    for (unsigned i = 0;
         (s->preparing || dlr_sup_is_persisting(s->disk)) && i < s->ntransfers; i++) {
        struct dlr_transfer *t = &s->transfers[i];

        if (!awaits_slots(t, node, rank))
            continue;
        needed = needed || t->essential;
        end_transfer(s, t, -ENOSPC, why);
    }
    return needed && s->preparing;
}

void dlr_sup_transfers_lost(struct dlr_sup *s, unsigned node)
{
    dlr_sup_bring_lost(s, node);
    for (unsigned i = 0; i < s->ntransfers; i++)
        if (s->transfers[i].from == node || s->transfers[i].to == node)
            end_transfer(s, &s->transfers[i], -EPIPE, "the node is gone");
    dlr_sup_again_lost(s, node);
}

/* --- preparation ---------------------------------------------------------------------------------- */

/* One that can be guessed would let anybody write into the copies: without it there is no round. */
int dlr_sup_new_token(struct dlr_sup *s)
{
    unsigned char raw[16];

    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw)) {
        s->transfer_rc = -EIO;
        snprintf(s->transfer_why, sizeof(s->transfer_why),
                 "no random number for the round's token: getrandom: %s",
                 strerror(errno));
        return -EIO;
    }
    for (unsigned i = 0; i < sizeof(raw); i++)
        snprintf(s->token + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

/* A rank's copy comes to its node from whoever has it. */
static void move_rank(struct dlr_sup *s, unsigned rank)
{
    const struct dlr_plan_source *src = &s->plan->sources[rank];
    int home =
            dlr_sup_node_of(s->planning, (unsigned)dlr_sup_place_of(s->planning, rank)),
        from = home;
    struct dlr_transfer *t;

    if (src->from == DLR_PLAN_LOCAL)
        return;
    if (src->from == DLR_PLAN_PARITY) {
        dlr_sup_rebuild(s, rank);
        return;
    }
    if (src->from == DLR_PLAN_NODE)
        from = dlr_members_find(s->members, src->where);
    t = dlr_sup_add_transfer(s, rank, from, home, true);
    if (!t)
        return;
    if (src->from == DLR_PLAN_FILE)
        dlr_format(t->path, sizeof(t->path), "%s", src->where);
    dlr_sup_ask_reserve(s, (unsigned)home, rank, src->bytes);
}

void dlr_sup_prepare(void *arg, uint32_t round)
{
    struct dlr_sup *s = arg;

    dlr_sup_tell_plan(s->planning);
    s->phase_ms = dlr_sup_now();
    dlr_sup_transfers_clear(s);
    s->preparing = true;
    s->transfer_version = s->plan->version;
    dlr_sup_ranks_round(s->rounds);
    if (dlr_sup_new_token(s) < 0)
        return;
    dlr_sup_tell_round(s->rounds, round);
    for (unsigned r = 0;
         s->plan->restore && !dlr_sup_other_world(s) && r < s->plan->world; r++)
        move_rank(s, r);
    if (dlr_sup_other_world(s))
        dlr_sup_rebuild_lost(s);
    dlr_sup_again_plan(s);
    dlr_sup_versions_round(s->versions, round);
    dlr_sup_keep_plan(s->planning);
}

/* A rank's own node has slots of so many bytes. When they are larger than before, a layout has
 * changed: the copies have no room until their holders say so too.
 */
static void owner_ready(struct dlr_sup *s, unsigned rank, uint64_t bytes)
{
    uint32_t round = dlr_policy_round(s->policy);
    unsigned copies = dlr_sup_copies(s);

    for (unsigned k = 1; bytes > s->slot_bytes[rank] && k <= copies; k++)
        dlr_commit_unready(s->commit, round, rank, k);
    s->slot_bytes[rank] = bytes;
    dlr_commit_ready(s->commit, round, rank, 0, dlr_sup_now());
    dlr_sup_holders_ask(s, rank);
}

void dlr_sup_on_ready(struct dlr_sup *s, unsigned node, unsigned rank, uint32_t round,
                      uint64_t bytes)
{
    unsigned place;
    int holder;

    if (round != dlr_policy_round(s->policy))
        return;
    for (unsigned i = 0;
         (s->preparing || dlr_sup_is_persisting(s->disk)) && i < s->ntransfers; i++) {
        struct dlr_transfer *t = &s->transfers[i];

        if (awaits_slots(t, node, rank))
            dlr_sup_transfer_start(s, t);
    }
    dlr_sup_again_ready(s, node, rank);
    if (dlr_policy_phase(s->policy) != DLR_PHASE_RUN)
        return; /* slots for a transfer; the worker asks for its own */
    if (rank >= s->plan->world) {
        dlr_sup_shard_ready(s, node, rank);
        return;
    }
    place = dlr_sup_place_of(s->planning, rank);
    holder = dlr_sup_holder_of(s, place, node);
    if (holder == 0)
        owner_ready(s, rank, bytes);
    else if (holder > 0 && bytes >= s->slot_bytes[rank])
        dlr_commit_ready(s->commit, round, rank, (unsigned)holder, dlr_sup_now());
}

static void prepared(struct dlr_sup *s)
{
    s->preparing = false;
    if (s->transfer_rc == 0)
        dlr_journal_note(dlr_sup_journal(s->io), "prepared", "s:I,s:I,s:i", "round",
                         (json_int_t)dlr_policy_round(s->policy), "took_ms",
                         (json_int_t)(dlr_sup_now() - s->phase_ms), "copies", s->moved);
    if (s->transfer_rc == 0) {
        dlr_sup_rebuild_known(s);
        dlr_sup_again_start(s);
    }
    dlr_policy_prepared(s->policy, s->transfer_rc, s->transfer_why, dlr_sup_now());
}

void dlr_sup_transfers_check(struct dlr_sup *s)
{
    bool persisting = dlr_sup_is_persisting(s->disk);

    if (!s->preparing && !persisting)
        return;
    if (s->preparing && dlr_policy_phase(s->policy) != DLR_PHASE_PREPARE) {
        s->preparing = false; /* a node died: the next plan moves what it needs */
        return;
    }
    if (persisting)
        dlr_sup_write_made(s->disk);
    for (unsigned i = 0; i < s->ntransfers; i++)
        if (!s->transfers[i].ended)
            return;
    if (s->preparing) {
        if (!dlr_sup_is_draining(s->steps)) /* the next srun writes to the same file */
            prepared(s);
        return;
    }
    dlr_sup_write_manifest(s->disk);
}
