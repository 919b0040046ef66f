/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/unit/watch/judge/program_model.h"

static int number_in(const struct model *m, uint32_t comm, uint32_t rank)
{
    for (uint32_t i = 0; i < m->sizes[comm]; i++)
        if (m->members[comm][i] == rank)
            return (int)i;
    return -1;
}

/* Whether the operation in which the rank is ends for it. */
static bool ends(const struct model *m, const struct model_rank *r, uint32_t event)
{
    const struct model_event *e = &m->events[event];
    const uint64_t number = r->number[event];
    const struct model_entry *mine = &r->log[e->comm][number];

    for (uint32_t i = 0; i < m->sizes[e->comm]; i++) {
        const struct model_rank *o = &m->ranks[m->members[e->comm][i]];
        const struct model_entry *his = &o->log[e->comm][number];

        if (o->entered[e->comm] < number || his->call != mine->call ||
            his->root != mine->root || o->calls <= his->calls)
            return false;
    }
    return !e->lost;
}

static void enter(struct model *m, struct model_rank *r, uint32_t event, bool begins)
{
    const struct model_event *e = &m->events[event];
    const uint64_t number = ++r->entered[e->comm];

    r->number[event] = number;
    /* who only begins it must call again before others see it end */
    r->log[e->comm][number] = (struct model_entry){
        .call = e->call, .root = e->root, .calls = begins ? r->calls : r->calls - 1};
}

/* One side's message of an event goes out. */
static void send(struct model *m, struct model_event *e, uint32_t rank)
{
    const uint64_t arrives = m->now + e->flight;

    e->arrives[rank != e->a] = arrives;
    m->flies = arrives > m->flies ? arrives : m->flies;
}

static bool has_arrived(const struct model *m, const struct model_event *e, bool of_b)
{
    return e->arrives[of_b] && m->now >= e->arrives[of_b];
}

static void come_to(struct model *m, uint32_t rank, const struct model_item *item)
{
    struct model_rank *r = &m->ranks[rank];
    struct model_event *e = &m->events[item->event];

    r->inside = true;
    r->inside_at = m->now;
    if (item->kind == MODEL_COMPUTE || item->kind == MODEL_PHASE) {
        r->until = m->now + item->event;
        r->phase_at = item->kind == MODEL_PHASE ? m->now : 0;
        r->moved = item->kind == MODEL_PHASE ? m->now : r->moved;
        return;
    }
    if (item->kind == MODEL_FOR_EVER)
        return;
    r->moved = m->now;
    if (item->kind == MODEL_STEP)
        return;
    r->calls++;
    if (item->kind == MODEL_COLLECTIVE || item->kind == MODEL_BEGIN)
        enter(m, r, item->event, item->kind == MODEL_BEGIN);
    else if (item->kind == MODEL_POSTS)
        e->posted[rank != e->a] = true;
    else if (item->kind == MODEL_HALO_SENDS || item->kind == MODEL_BEGINS_SEND)
        send(m, e, rank);
    else if (item->kind == MODEL_SHIFTS)
        r->number[item->event] = 1;
    else if (item->kind == MODEL_EXCHANGES)
        *(rank == e->a ? &e->sent : &e->received) = true;
    else if (item->kind == MODEL_SENDS || item->kind == MODEL_SENDS_EARLY)
        *(rank == e->a ? &e->sent : &e->sent_too) = true;
    else if (item->kind == MODEL_RECEIVES || item->kind == MODEL_RECEIVES_ANY)
        e->received = true;
}

/* The member of the event's communicator that comes so many after the rank. */
static uint32_t member_after(const struct model *m, const struct model_event *e,
                             uint32_t rank, uint32_t far)
{
    const uint32_t size = m->sizes[e->comm], at = (uint32_t)number_in(m, e->comm, rank);

    return m->members[e->comm][(at + far) % size];
}

static uint32_t member_before(const struct model *m, const struct model_event *e,
                              uint32_t rank)
{
    return member_after(m, e, rank, m->sizes[e->comm] - 1);
}

static bool is_done(const struct model *m, const struct model_rank *r,
                    const struct model_item *item)
{
    const struct model_event *e = &m->events[item->event];
    const bool is_b = r != &m->ranks[e->a];

    switch (item->kind) {
    case MODEL_HALO_SENDS:
        return e->posted[!is_b] && has_arrived(m, e, is_b);
    case MODEL_HALO_WAITS:
        return has_arrived(m, e, !is_b);
    case MODEL_RECEIVES_SLOWLY:
    case MODEL_ENDS_SEND:
        return has_arrived(m, e, false);
    case MODEL_COMPUTE:
    case MODEL_PHASE:
        return m->now >= r->until;
    case MODEL_COLLECTIVE:
    case MODEL_END:
        return ends(m, r, item->event);
    case MODEL_SENDS:
        return e->received;
    case MODEL_RECEIVES:
    case MODEL_RECEIVES_ANY:
        return e->sent;
    case MODEL_SHIFTS:
        return m->ranks[member_before(m, e, (uint32_t)(r - m->ranks))]
                   .number[item->event] > 0;
    case MODEL_EXCHANGES:
        return e->sent && e->received;
    case MODEL_ONE_OF:
        return e->sent || e->sent_too;
    case MODEL_FOR_EVER:
        return false;
    default:
        return true;
    }
}

static void leave(struct model *m, struct model_rank *r, const struct model_item *item)
{
    r->inside = false;
    r->at++;
    if (item->kind == MODEL_STEP) {
        r->step = r->step + 1;
        r->step_at = m->now;
    }
    if (item->kind == MODEL_COLLECTIVE || item->kind == MODEL_END)
        r->left[m->events[item->event].comm]++;
    if (item->kind != MODEL_COMPUTE)
        r->moved = m->now;
    r->phase_at = 0;
}

static void go(struct model *m, uint32_t rank)
{
    struct model_rank *r = &m->ranks[rank];
    const bool faulty = rank == m->who && r->at == m->fault_event;

    if (r->finished || r->stopped)
        return;
    r->stopped = faulty && m->fault == MODEL_STOP;
    r->finished = r->at == r->nitems || (faulty && m->fault == MODEL_LEAVE);
    if (r->finished)
        r->moved = m->now;
    if (r->finished || r->stopped)
        return;
    if (!r->inside)
        come_to(m, rank, &r->items[r->at]);
    else if (is_done(m, r, &r->items[r->at]))
        leave(m, r, &r->items[r->at]);
}

void model_tick(struct model *m)
{
    m->now++;
    for (uint32_t r = 0; r < m->n; r++)
        go(m, r);
}

bool model_is_over(const struct model *m)
{
    for (uint32_t r = 0; r < m->n; r++)
        if (!m->ranks[r].finished)
            return false;
    return true;
}

bool model_is_still(const struct model *m)
{
    if (m->now < m->flies)
        return false;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct model_rank *r = &m->ranks[i];

        if (r->finished || r->stopped)
            continue;
        if (!r->inside || r->at == r->nitems || r->items[r->at].kind == MODEL_COMPUTE ||
            r->items[r->at].kind == MODEL_PHASE || is_done(m, r, &r->items[r->at]))
            return false;
    }
    return true;
}

static void look_at_comms(const struct model *m, uint32_t rank, struct dlr_look *ret)
{
    const struct model_rank *r = &m->ranks[rank];

    for (uint32_t c = 0; c < m->ncomms; c++) {
        const struct model_entry *e = &r->log[c][r->entered[c]];
        const int number = number_in(m, c, rank);

        if (number >= 0)
            ret->comms[ret->ncomms++] = (struct dlr_look_comm){
                .id = c == 0 ? DLR_LOOK_WORLD : 1000 + c,
                .size = m->sizes[c],
                .my_rank = (uint32_t)number,
                .op = e->call,
                .root = e->root,
                .type = 4,
                .bytes = 4096,
                .entered = r->entered[c],
                .left = r->left[c],
            };
    }
}

static void look_at_call(const struct model *m, uint32_t rank, uint32_t call, int peer,
                         struct dlr_look *ret)
{
    const struct model_rank *r = &m->ranks[rank];
    const uint32_t event = r->items[r->at].event, comm = m->events[event].comm;

    ret->in[ret->ncalls++] = (struct dlr_look_call){
        .comm = comm == 0 ? DLR_LOOK_WORLD : 1000 + comm,
        .peer = peer < 0 ? peer : number_in(m, comm, (uint32_t)peer),
        .tag = (int32_t)event,
        .tid = 100 + rank,
        .call = call,
        .entered_ns = r->inside_at * MODEL_TICK_NS,
    };
}

static void look_at_item(const struct model *m, uint32_t rank, struct dlr_look *ret)
{
    const struct model_item *item = &m->ranks[rank].items[m->ranks[rank].at];
    const struct model_event *e = &m->events[item->event];

    if (item->kind == MODEL_COLLECTIVE)
        look_at_call(m, rank, e->call, DLR_LOOK_NOBODY, ret);
    if (item->kind == MODEL_END)
        look_at_call(m, rank, MODEL_WAIT_COLLECTIVE, DLR_LOOK_NOBODY, ret);
    if (item->kind == MODEL_SENDS)
        look_at_call(m, rank, MODEL_SEND, (int)e->b, ret);
    if (item->kind == MODEL_RECEIVES)
        look_at_call(m, rank, MODEL_RECV, (int)e->a, ret);
    if (item->kind == MODEL_RECEIVES_SLOWLY)
        look_at_call(m, rank, MODEL_RECV, (int)e->a, ret);
    if (item->kind == MODEL_ENDS_SEND)
        look_at_call(m, rank, MODEL_WAIT_REQUEST, (int)e->b, ret);
    if (item->kind == MODEL_HALO_SENDS || item->kind == MODEL_HALO_WAITS)
        look_at_call(m, rank,
                     item->kind == MODEL_HALO_SENDS ? MODEL_SEND : MODEL_WAIT_REQUEST,
                     (int)(rank == e->a ? e->b : e->a), ret);
    if (item->kind == MODEL_RECEIVES_ANY)
        look_at_call(m, rank, MODEL_RECV, DLR_LOOK_ANY, ret);
    if (item->kind == MODEL_EXCHANGES) {
        const int peer = (int)(rank == e->a ? e->b : e->a);

        look_at_call(m, rank, MODEL_RECV, peer, ret);
        look_at_call(m, rank, MODEL_SEND, peer, ret);
    }
    if (item->kind == MODEL_SHIFTS) {
        look_at_call(m, rank, MODEL_SENDRECV, (int)member_before(m, e, rank), ret);
        look_at_call(m, rank, MODEL_SENDRECV, (int)member_after(m, e, rank, 1), ret);
    }
    if (item->kind == MODEL_ONE_OF) {
        look_at_call(m, rank, MODEL_RECV_ONE_OF, (int)e->a, ret);
        look_at_call(m, rank, MODEL_RECV_ONE_OF, (int)e->c, ret);
    }
}

void model_look(const struct model *m, uint32_t rank, struct dlr_look *ret)
{
    const struct model_rank *r = &m->ranks[rank];

    *ret = (struct dlr_look){
        .rank = (int32_t)rank,
        .pid = 100 + (int32_t)rank,
        .data = r->mute ? DLR_LOOK_NONE : DLR_LOOK_CALLS_TOO,
        .state = r->stopped ? DLR_LOOK_STOPPED : DLR_LOOK_ALIVE,
        .finished = r->finished,
        .step = r->step,
        .step_ns = r->step_at * MODEL_TICK_NS,
        .steps_ns = r->step_at,
        .moved_ns = r->moved * MODEL_TICK_NS,
        .phase_ns = r->phase_at * MODEL_TICK_NS,
        .phase_limit_ns =
            r->phase_at ? (uint64_t)(2 * MODEL_PHASE_TICKS) * MODEL_TICK_NS : 0,
    };
    snprintf(ret->phase, sizeof(ret->phase), "%s", r->phase_at ? "eval" : "");
    look_at_comms(m, rank, ret);
    if (r->listens)
        ret->in[ret->ncalls++] = (struct dlr_look_call){.comm = DLR_LOOK_WORLD,
                                                        .peer = DLR_LOOK_ANY,
                                                        .tag = 9999,
                                                        .tid = 7,
                                                        .call = MODEL_RECV,
                                                        .entered_ns = 1};
    if (r->inside && !r->finished)
        look_at_item(m, rank, ret);
}

uint64_t model_still_ns(const struct model *m, uint32_t rank)
{
    return (m->now - m->ranks[rank].moved) * MODEL_TICK_NS;
}
