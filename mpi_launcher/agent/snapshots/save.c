/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and decisions of saves. The slots are marked by slot_marks.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/page_commit.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static struct dlr_version here(const struct dlr_agent_snapshots *s, uint64_t step)
{
    return (struct dlr_version){s->round->round, step};
}

static void close_version(struct dlr_agent_snapshots *s, unsigned i)
{
    memmove(s->open + i, s->open + i + 1, (--s->nopen - i) * sizeof(s->open[0]));
}

static void open_version(struct dlr_agent_snapshots *s, uint64_t step)
{
    if (step > s->save_step)
        s->save_step = step;
    if (dlr_agent_save_is_open(s, step))
        return;
    if (s->nopen == DLR_AGENT_OPEN) /* decided long ago, and the word was lost */
        close_version(s, 0);
    s->open[s->nopen++] = step;
}

/* --- orders ----------------------------------------------------------------------- */

/* An order that the page has no place for any more. The supervisor avoids that while
 * both are open. before: the rank's step when the other one had not taken its place
 * yet.
 */
static void overtaken(struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r,
                      uint64_t was, uint64_t before)
{
    bool passed = before != DLR_PAGE_NEVER && before > was;

    if (!passed && dlr_agent_save_is_open(s, was))
        dlr_agent_save_missed(s, r->rank, was, "a later order took its place");
}

/* The order of the accesses is the handshake of ckpt/base/page.h. */
static const char *post(struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r,
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
        overtaken(s, r, was, before);
    return begun != DLR_PAGE_NEVER && begun >= step ? "late" : NULL;
}

/* Nobody need begin what is decided. */
static void withdraw(const struct dlr_agent_rank *r, uint64_t step)
{
    if (r->page && dlr_page_ordered(r->page, step))
        atomic_store(dlr_page_order(r->page, step), DLR_PAGE_NEVER);
}

/* --- decisions -------------------------------------------------------------------- */

void dlr_agent_save_vetted(struct dlr_agent_snapshots *s, const json_t *version)
{
    uint64_t round, step;

    s->has_vetted = dlr_msg_uint(version, "vround", UINT32_MAX, &round) == 0 &&
                    dlr_msg_uint(version, "step", INT64_MAX, &step) == 0;
    if (s->has_vetted)
        s->vetted = (struct dlr_version){(uint32_t)round, step};
}

static void tell_data(struct dlr_agent_snapshots *s, enum dlr_local_type type,
                      struct dlr_version v)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = s->round->round;
    m.arg[0] = v.round;
    m.step = v.step;
    if (type == DLR_LOCAL_D_COMMIT && s->has_vetted) {
        m.arg[1] = 1;
        m.arg[2] = s->vetted.round;
        m.arg[3] = s->vetted.step;
    }
    dlr_agent_data_send(s->data, &m);
}

/* A node that was away for a round has such versions in all of its slots. */
static void free_older(struct dlr_agent_snapshots *s)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->own)
            dlr_agent_save_settle(s, s->ranks[i]);
    tell_data(s, DLR_LOCAL_D_COMMIT, s->committed);
}

void dlr_agent_save_at(struct dlr_agent_snapshots *s, uint64_t step)
{
    bool first = s->save_step == 0;

    open_version(s, step);
    if (first && s->has_committed)
        free_older(s);
    for (unsigned i = 0; i < s->nranks; i++) {
        const char *why = s->ranks[i]->own ? post(s, s->ranks[i], step) : NULL;

        if (why)
            dlr_agent_save_missed(s, s->ranks[i]->rank, step, why);
    }
}

void dlr_agent_save_commit(struct dlr_agent_snapshots *s, uint64_t step)
{
    struct dlr_version v = here(s, step);

    if (s->has_committed && dlr_version_cmp(v, s->committed) <= 0)
        return; /* said again */
    s->has_committed = true;
    s->committed = v;
    for (unsigned i = s->nopen; i-- > 0;)
        if (s->open[i] <= step)
            close_version(s, i); /* those before it were aborted */
    for (unsigned i = 0; i < s->nranks; i++) {
        if (!s->ranks[i]->own)
            continue;
        dlr_agent_save_settle(s, s->ranks[i]);
        if (s->ranks[i]->page)
            dlr_page_commit(s->ranks[i]->page, step);
    }
    tell_data(s, DLR_LOCAL_D_COMMIT, v);
}

void dlr_agent_save_abort(struct dlr_agent_snapshots *s, uint64_t step)
{
    struct dlr_version v = here(s, step);

    if (s->has_committed && dlr_version_cmp(v, s->committed) <= 0)
        return; /* a decision is irrevocable */
    for (unsigned i = s->nopen; i-- > 0;)
        if (s->open[i] == step)
            close_version(s, i);
    memmove(s->aborted, s->aborted + 1, sizeof(s->aborted) - sizeof(s->aborted[0]));
    s->aborted[DLR_AGENT_ABORTS - 1] = step;
    for (unsigned i = 0; i < s->nranks; i++) {
        if (!s->ranks[i]->own)
            continue;
        withdraw(s->ranks[i], step);
        dlr_agent_save_settle(s, s->ranks[i]);
    }
    tell_data(s, DLR_LOCAL_D_ABORT, v);
}

void dlr_agent_save_resend(struct dlr_agent_snapshots *s)
{
    if (s->has_committed && dlr_agent_save_knows_newest(s))
        tell_data(s, DLR_LOCAL_D_COMMIT, s->committed);
    for (unsigned i = 0; i < DLR_AGENT_ABORTS; i++)
        if (s->aborted[i])
            tell_data(s, DLR_LOCAL_D_ABORT, here(s, s->aborted[i]));
}

static void copied(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                   const struct dlr_agent_origin *from, int rc, const char *why)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(s, q->rank, false);

    dlr_agent_pace_end(s, rc, r ? r->bytes : 0);
    if (rc < 0)
        dlr_agent_save_lost(s, q->rank, q->version, why);
}

static void copy_to(struct dlr_agent_snapshots *s, const struct dlr_agent_node *to,
                    int32_t rank, struct dlr_version v)
{
    static const struct dlr_agent_origin self = {.from = DLR_AGENT_SELF};
    const struct dlr_agent_request q = {.type = DLR_LOCAL_D_SEND,
                                        .rank = rank,
                                        .version = v,
                                        .text = to->data,
                                        .node = to->name,
                                        .save = true};

    dlr_agent_helpers_round(s);
    dlr_agent_pace_begin(s);
    dlr_agent_request(s, &q, &self, copied);
}

static void copy_to_partners(struct dlr_agent_snapshots *s, int32_t rank,
                             struct dlr_version v)
{
    for (unsigned i = 0; i < s->round->npartners; i++) {
        const struct dlr_agent_node *to =
            dlr_agent_round_node(s->round, s->round->partners[i]);

        if (to && to->data[0])
            copy_to(s, to, rank, v);
        else
            dlr_agent_save_missed(s, rank, v.step, "a partner has no data process");
    }
}

/* Counts beside "sealed": those since the last such message, of saves that were ended
 * by now; and what the rank knows of a save's cost.
 */
static json_t *cost_since(const struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
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
                s->self->node, r->rank);
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

/* Ranks that keep a region between them but do not name the same ones leave holes in
 * it.
 */
static bool fits_others(const struct dlr_agent_snapshots *s, struct dlr_agent_rank *r,
                        uint64_t step, uint64_t hash)
{
    unsigned at = step % DLR_PAGE_RING;

    r->shared[at].known = true;
    r->shared[at].step = step;
    r->shared[at].hash = hash;
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->shared[at].known && s->ranks[i]->shared[at].step == step &&
            s->ranks[i]->shared[at].hash != hash)
            return false;
    return true;
}

void dlr_agent_save_sealed(struct dlr_agent_snapshots *s,
                           const struct dlr_local_msg *msg)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, msg->rank, false);
    struct dlr_version v = here(s, msg->step);
    json_t *row, *cost;

    if (!r || !r->own || msg->step > INT64_MAX || msg->arg[1] > INT64_MAX)
        return;
    if (!dlr_agent_save_is_open(s, msg->step)) {
        kill_version(r, v); /* decided without it: nobody reads it */
        return;
    }
    if (!fits_others(s, r, msg->step, msg->arg[2])) {
        kill_version(r, v);
        dlr_agent_save_missed(
            s, r->rank, msg->step,
            "the ranks of its node name different REPLICATED regions");
        return;
    }
    row = json_pack("{s:i, s:s, s:I, s:i, s:I, s:I}", "v", DLR_MSG_VERSION, "t",
                    "sealed", "round", (json_int_t)s->round->round, "rank", r->rank,
                    "step", (json_int_t)msg->step, "at", (json_int_t)msg->arg[1]);
    cost = cost_since(s, r);
    json_object_update(row, cost);
    json_decref(cost);
    dlr_agent_send_supervisor(s->base, row);
    copy_to_partners(s, r->rank, v);
}

/* --- what programs ask for -------------------------------------------------------- */

/* The newest step that a rank here wants a version of. The page is memory of the
 * program: what it cannot ask for is not asked for.
 */
static uint64_t newest_wanted(const struct dlr_agent_snapshots *s)
{
    uint64_t newest = 0;

    for (unsigned i = 0; i < s->nranks; i++) {
        struct dlr_page *page = s->ranks[i]->own ? s->ranks[i]->page : NULL;
        uint64_t wanted = page ? atomic_load(&page->wanted) : 0;

        if (wanted > newest && wanted <= INT64_MAX && wanted <= dlr_page_next(page))
            newest = wanted;
    }
    return newest;
}

void dlr_agent_save_wanted_look(struct dlr_agent_snapshots *s)
{
    uint64_t wanted = newest_wanted(s);

    if (wanted <= s->wanted)
        return;
    s->wanted = wanted;
    if (!s->has_committed || s->committed.round != s->round->round ||
        s->committed.step < wanted)
        dlr_agent_send_supervisor(
            s->base, json_pack("{s:i, s:s, s:I, s:I}", "v", DLR_MSG_VERSION, "t",
                               "wanted", "round", (json_int_t)s->round->round, "step",
                               (json_int_t)wanted));
}

void dlr_agent_save_wanted_resend(struct dlr_agent_snapshots *s)
{
    s->wanted = 0;
    dlr_agent_save_wanted_look(s);
}

void dlr_agent_save_forget(struct dlr_agent_snapshots *s)
{
    s->nopen = 0;
    s->save_step = 0;
    s->wanted = 0;
    memset(s->aborted, 0, sizeof(s->aborted));
}

uint64_t dlr_agent_save_ordered(const struct dlr_agent_snapshots *s)
{
    return s->save_step;
}

bool dlr_agent_save_has_commit(const struct dlr_agent_snapshots *s)
{
    return s->has_committed;
}

void dlr_agent_save_round_state(const struct dlr_agent_snapshots *s, json_t *msg)
{
    json_t *open = json_array();

    for (unsigned i = 0; i < s->nopen; i++)
        json_array_append_new(open, json_integer((json_int_t)s->open[i]));
    json_object_set_new(msg, "committed",
                        s->has_committed
                            ? json_pack("{s:I,s:I}", "vround",
                                        (json_int_t)s->committed.round, "step",
                                        (json_int_t)s->committed.step)
                            : json_null());
    json_object_set_new(msg, "ordered", json_integer((json_int_t)s->save_step));
    json_object_set_new(msg, "open", open);
}
