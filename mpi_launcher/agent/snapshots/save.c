/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of this node's own ranks are marked here, and here alone: the worker takes those that
 * are FREE or DEAD when its step begins, so a mark that comes late would fall into a slot that it
 * has begun to fill again. What the data process still reads is marked when it has ended.
 * Partners' slots are the data process's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/agent/snapshots/slot_requests.h"

void dlr_agent_save_missed(struct dlr_agent *a, int32_t rank, uint64_t step,
                           const char *why)
{
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:I, s:s}", "v", DLR_MSG_VERSION, "t",
                            "missed", "round", (json_int_t)a->round.round, "rank", rank,
                            "step", (json_int_t)step, "why", why));
}

void dlr_agent_save_lost(struct dlr_agent *a, int32_t rank, struct dlr_version version,
                         const char *why)
{
    if (dlr_agent_round_is(&a->round, version.round))
        dlr_agent_save_missed(a, rank, version.step, why);
}

void dlr_agent_save_torn_retell(struct dlr_agent *a)
{
    if (a->torn.known && a->torn.version.round == a->round.round)
        dlr_agent_say(a->base,
                      json_pack("{s:i, s:s, s:I, s:i, s:I, s:s}", "v", DLR_MSG_VERSION,
                                "t", "torn", "round", (json_int_t)a->round.round,
                                "rank", a->torn.rank, "step",
                                (json_int_t)a->torn.version.step, "why", a->torn.why));
}

void dlr_agent_save_torn(struct dlr_agent *a, int32_t rank, uint64_t step,
                         const char *why)
{
    a->torn.known = true;
    a->torn.rank = rank;
    a->torn.version = (struct dlr_version){a->round.round, step};
    snprintf(a->torn.why, sizeof(a->torn.why), "%s", why);
    dlr_agent_save_torn_retell(a);
}

static struct dlr_version here(const struct dlr_agent *a, uint64_t step)
{
    return (struct dlr_version){a->round.round, step};
}

/* --- what is open here -------------------------------------------------------------- */

static bool is_open(const struct dlr_agent *a, uint64_t step)
{
    for (unsigned i = 0; i < a->nopen; i++)
        if (a->open[i] == step)
            return true;
    return false;
}

static void close_version(struct dlr_agent *a, unsigned i)
{
    memmove(a->open + i, a->open + i + 1, (--a->nopen - i) * sizeof(a->open[0]));
}

static void open_version(struct dlr_agent *a, uint64_t step)
{
    if (step > a->save_step)
        a->save_step = step;
    if (is_open(a, step))
        return;
    if (a->nopen == DLR_AGENT_OPEN) /* decided long ago, and the word was lost */
        close_version(a, 0);
    a->open[a->nopen++] = step;
}

/* With the round's first order every rank has what it wanted of what there was: from then on what
 * the round began from frees older versions, like a commit of its own.
 */
static bool knows_newest(const struct dlr_agent *a)
{
    return a->committed.round == a->round.round || a->save_step > 0;
}

/* Newer than what is committed, or what the round began from, and not to be decided any more: it was
 * decided against, perhaps long ago when a slow reader held the slot.
 */
static bool is_void(const struct dlr_agent *a, struct dlr_version v)
{
    if (a->has_committed && dlr_version_cmp(v, a->committed) <= 0)
        return false;
    return v.round != a->round.round || !is_open(a, v.step);
}

/* --- orders --------------------------------------------------------------------------- */

/* An order that the page has no place for any more. The supervisor avoids that while both are
 * open. before: the rank's step when the other one had not taken its place yet.
 */
static void overtaken(struct dlr_agent *a, const struct dlr_agent_rank *r, uint64_t was,
                      uint64_t before)
{
    bool passed = before != DLR_PAGE_NEVER && before > was;

    if (!passed && is_open(a, was))
        dlr_agent_save_missed(a, r->rank, was, "a later order took its place");
}

/* The order of the accesses is the handshake of ckpt/base/page.h. */
static const char *post(struct dlr_agent *a, const struct dlr_agent_rank *r,
                        uint64_t step)
{
    _Atomic uint64_t *order;
    uint64_t before, was, begun;

    if (!r->worker || !r->page || !r->bytes || r->reserving)
        return "not ready";
    order = dlr_page_order(r->page, step);
    was = atomic_load(order);
    before = atomic_load(&r->page->begun_step);
    atomic_store(order, step);
    begun = atomic_load(&r->page->begun_step);
    if (was != step)
        overtaken(a, r, was, before);
    return begun != DLR_PAGE_NEVER && begun >= step ? "late" : NULL;
}

/* Nobody need begin what is decided. */
static void withdraw(const struct dlr_agent_rank *r, uint64_t step)
{
    if (r->page && dlr_page_ordered(r->page, step))
        atomic_store(dlr_page_order(r->page, step), DLR_PAGE_NEVER);
}

/* --- decisions ------------------------------------------------------------------------ */

static bool get_version(const struct dlr_slot *slot, struct dlr_version *ret)
{
    struct dlr_slot_info info;
    enum dlr_slot_state state;

    if (!slot)
        return false;
    state = dlr_slot_state(slot);
    if ((state != DLR_SLOT_SEALED && state != DLR_SLOT_COMMITTED) ||
        dlr_slot_info(slot, &info) < 0)
        return false;
    *ret = info.version;
    return true;
}

void dlr_agent_save_keep(struct dlr_agent *a, const json_t *version)
{
    uint64_t round, step;

    a->has_kept = dlr_msg_uint(version, "vround", UINT32_MAX, &round) == 0 &&
                  dlr_msg_uint(version, "step", INT64_MAX, &step) == 0;
    if (a->has_kept)
        a->kept = (struct dlr_version){(uint32_t)round, step};
}

/* A rank without a slot for it would have none left for the next save. */
static bool is_kept(const struct dlr_agent *a, const struct dlr_agent_rank *r,
                    struct dlr_version v)
{
    return a->has_kept && r->spare_slot && dlr_version_eq(v, a->kept);
}

void dlr_agent_save_settle(struct dlr_agent *a, struct dlr_agent_rank *r)
{
    bool committed = a->has_committed && knows_newest(a);

    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_version held;

        if (!r->slots[k] || !dlr_slot_has_head(r->slots[k]))
            continue; /* the data process finds it, and makes it memory again */
        if (!r->reading[k] && (r->corrupt[k] || dlr_slot_damaged(r->slots[k]))) {
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
            r->corrupt[k] = false;
        }
        if (!get_version(r->slots[k], &held))
            continue;
        if (committed && dlr_version_eq(held, a->committed))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_COMMITTED);
        else if (r->reading[k] || is_kept(a, r, held))
            continue;
        else if (committed && dlr_version_cmp(held, a->committed) < 0)
            dlr_slot_set_state(r->slots[k], DLR_SLOT_FREE);
        else if (is_void(a, held))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
    }
}

static void tell_data(struct dlr_agent *a, enum dlr_local_type type,
                      struct dlr_version v)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = a->round.round;
    m.arg[0] = v.round;
    m.step = v.step;
    if (type == DLR_LOCAL_D_COMMIT && a->has_kept) {
        m.arg[1] = 1;
        m.arg[2] = a->kept.round;
        m.arg[3] = a->kept.step;
    }
    dlr_agent_data_send(a->data, &m);
}

/* A node that was away for a round has such versions in all of its slots. */
static void free_older(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->own)
            dlr_agent_save_settle(a, a->ranks[i]);
    tell_data(a, DLR_LOCAL_D_COMMIT, a->committed);
}

void dlr_agent_save_at(struct dlr_agent *a, uint64_t step)
{
    bool first = a->save_step == 0;

    open_version(a, step);
    if (first && a->has_committed)
        free_older(a);
    for (unsigned i = 0; i < a->nranks; i++) {
        const char *why = a->ranks[i]->own ? post(a, a->ranks[i], step) : NULL;

        if (why)
            dlr_agent_save_missed(a, a->ranks[i]->rank, step, why);
    }
}

void dlr_agent_save_commit(struct dlr_agent *a, uint64_t step)
{
    struct dlr_version v = here(a, step);

    if (a->has_committed && dlr_version_cmp(v, a->committed) <= 0)
        return; /* said again */
    a->has_committed = true;
    a->committed = v;
    for (unsigned i = a->nopen; i-- > 0;)
        if (a->open[i] <= step)
            close_version(a, i); /* those before it were aborted */
    for (unsigned i = 0; i < a->nranks; i++) {
        if (!a->ranks[i]->own)
            continue;
        dlr_agent_save_settle(a, a->ranks[i]);
        if (a->ranks[i]->page)
            a->ranks[i]->page->committed_step = step;
    }
    tell_data(a, DLR_LOCAL_D_COMMIT, v);
}

void dlr_agent_save_abort(struct dlr_agent *a, uint64_t step)
{
    struct dlr_version v = here(a, step);

    if (a->has_committed && dlr_version_cmp(v, a->committed) <= 0)
        return; /* a decision is irrevocable */
    for (unsigned i = a->nopen; i-- > 0;)
        if (a->open[i] == step)
            close_version(a, i);
    memmove(a->aborted, a->aborted + 1, sizeof(a->aborted) - sizeof(a->aborted[0]));
    a->aborted[DLR_AGENT_ABORTS - 1] = step;
    for (unsigned i = 0; i < a->nranks; i++) {
        if (!a->ranks[i]->own)
            continue;
        withdraw(a->ranks[i], step);
        dlr_agent_save_settle(a, a->ranks[i]);
    }
    tell_data(a, DLR_LOCAL_D_ABORT, v);
}

void dlr_agent_save_retell(struct dlr_agent *a)
{
    if (a->has_committed && knows_newest(a))
        tell_data(a, DLR_LOCAL_D_COMMIT, a->committed);
    for (unsigned i = 0; i < DLR_AGENT_ABORTS; i++)
        if (a->aborted[i])
            tell_data(a, DLR_LOCAL_D_ABORT, here(a, a->aborted[i]));
}

static void copied(struct dlr_agent *a, const struct dlr_agent_request *q,
                   const struct dlr_agent_origin *from, int rc, const char *why)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(a, q->rank, false);

    dlr_agent_pace_end(a, rc, r ? r->bytes : 0);
    if (rc < 0)
        dlr_agent_save_lost(a, q->rank, q->version, why);
}

static void copy_to(struct dlr_agent *a, const struct dlr_agent_node *to, int32_t rank,
                    struct dlr_version v)
{
    static const struct dlr_agent_origin self = {.from = DLR_AGENT_SELF};
    const struct dlr_agent_request q = {.type = DLR_LOCAL_D_SEND,
                                        .rank = rank,
                                        .version = v,
                                        .text = to->data,
                                        .node = to->name,
                                        .save = true};

    dlr_agent_helpers_round(a);
    dlr_agent_pace_begin(a);
    dlr_agent_request(a, &q, &self, copied);
}

static void copy_to_partners(struct dlr_agent *a, int32_t rank, struct dlr_version v)
{
    for (unsigned i = 0; i < a->round.npartners; i++) {
        const struct dlr_agent_node *to =
            dlr_agent_round_node(&a->round, a->round.partners[i]);

        if (to && to->data[0])
            copy_to(a, to, rank, v);
        else
            dlr_agent_save_missed(a, rank, v.step, "a partner has no data process");
    }
}

/* Counts beside "sealed": those since the last such message, of saves that were ended by now; and what
 * the rank knows of a save's cost.
 */
static json_t *cost_since(const struct dlr_agent *a, struct dlr_agent_rank *r)
{
    struct dlr_page_cost *told = &r->cost, now;
    json_t *row;

    if (!r->page)
        return NULL;
    if (!dlr_page_cost_get(r->page, told, dlr_now_ns() - r->page_ns, &now)) {
        if (!r->page_bad)
            dlr_warn(
                "%s: rank %d's progress page holds numbers that cannot be: ignoring "
                "what it says of the cost of saves",
                a->self.node, r->rank);
        r->page_bad = true;
        return NULL;
    }
    row = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "saves",
                    (json_int_t)(now.saves - told->saves), "blocked_ns",
                    (json_int_t)(now.blocked_ns - told->blocked_ns), "plain_steps",
                    (json_int_t)(now.plain_steps - told->plain_steps), "plain_ns",
                    (json_int_t)(now.plain_ns - told->plain_ns), "saved_steps",
                    (json_int_t)(now.saved_steps - told->saved_steps), "saved_ns",
                    (json_int_t)(now.saved_ns - told->saved_ns), "extra_ns",
                    (json_int_t)now.extra_ns, "extra_saves",
                    (json_int_t)now.extra_saves, "step_ns", (json_int_t)now.step_ns);
    *told = now;
    return row;
}

static void kill_version(struct dlr_agent_rank *r, struct dlr_version v)
{
    int k = dlr_agent_rank_holding(r, v);

    if (k >= 0 && !r->reading[k])
        dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
}

/* Ranks that keep a region between them but do not name the same ones leave holes in it. */
static bool fits_others(const struct dlr_agent *a, struct dlr_agent_rank *r,
                        uint64_t step, uint64_t hash)
{
    unsigned at = step % DLR_PAGE_RING;

    r->shared[at].known = true;
    r->shared[at].step = step;
    r->shared[at].hash = hash;
    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->shared[at].known && a->ranks[i]->shared[at].step == step &&
            a->ranks[i]->shared[at].hash != hash)
            return false;
    return true;
}

void dlr_agent_save_sealed(struct dlr_agent *a, const struct dlr_local_msg *msg)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, msg->rank, false);
    struct dlr_version v = here(a, msg->step);
    json_t *row, *cost;

    if (!r || !r->own || msg->step > INT64_MAX || msg->arg[1] > INT64_MAX)
        return;
    if (!is_open(a, msg->step)) {
        kill_version(r, v); /* decided without it: nobody reads it */
        return;
    }
    if (!fits_others(a, r, msg->step, msg->arg[2])) {
        kill_version(r, v);
        dlr_agent_save_missed(
            a, r->rank, msg->step,
            "the ranks of its node name different REPLICATED regions");
        return;
    }
    row = json_pack("{s:i, s:s, s:I, s:i, s:I, s:I}", "v", DLR_MSG_VERSION, "t",
                    "sealed", "round", (json_int_t)a->round.round, "rank", r->rank,
                    "step", (json_int_t)msg->step, "at", (json_int_t)msg->arg[1]);
    cost = cost_since(a, r);
    json_object_update(row, cost);
    json_decref(cost);
    dlr_agent_say(a->base, row);
    copy_to_partners(a, r->rank, v);
}
