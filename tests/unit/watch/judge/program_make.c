/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/watch/judge/program_model.h"

#include <string.h>

#define COMPUTE_TICKS 4
#define FLIGHT_TICKS 48 /* longer than between two looks */

const uint8_t model_calls[MODEL_CALLS] = {
    [MODEL_SEND] = DLR_CALL_SENDS,
    [MODEL_RECV] = DLR_CALL_RECEIVES,
    [MODEL_SENDRECV] = DLR_CALL_SENDS | DLR_CALL_RECEIVES,
    [MODEL_RECV_ONE_OF] = DLR_CALL_RECEIVES | DLR_CALL_ONE_OF,
};

uint32_t model_random(struct model *m, uint32_t below)
{
    uint64_t z = m->random += 0x9e3779b97f4a7c15; /* SplitMix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ (z >> 31)) % below);
}

static void add(struct model *m, uint32_t rank, enum model_kind kind, uint32_t event)
{
    struct model_rank *r = &m->ranks[rank];

    r->items[r->nitems++] = (struct model_item){.kind = kind, .event = event};
}

static void make_comms(struct model *m)
{
    m->ncomms = 1 + model_random(m, MODEL_COMMS);
    m->sizes[0] = m->n;
    for (uint32_t r = 0; r < m->n; r++)
        m->members[0][r] = r;
    for (uint32_t c = 1; c < m->ncomms; c++) {
        const uint32_t least = model_random(m, m->n - 1), other = least + 1;

        for (uint32_t r = 0; r < m->n; r++) /* two at least, in the world's order */
            if (r == least || r == other || model_random(m, 2))
                m->members[c][m->sizes[c]++] = r;
    }
}

static bool computes(const struct model_rank *r)
{
    return r->nitems && r->items[r->nitems - 1].kind == MODEL_COMPUTE;
}

static void make_computing(struct model *m)
{
    for (uint32_t r = 0; r < m->n; r++)
        if (model_random(m, 4) == 0 && !computes(&m->ranks[r]))
            add(m, r, MODEL_COMPUTE, 1 + model_random(m, COMPUTE_TICKS));
    if (model_random(m, 24) == 0)
        add(m, model_random(m, m->n), MODEL_PHASE, MODEL_PHASE_TICKS);
    if (model_random(m, 6) == 0)
        for (uint32_t r = 0; r < m->n; r++)
            add(m, r, MODEL_STEP, 0);
}

static void make_message(struct model *m, uint32_t at, struct model_event *e)
{
    const uint32_t size = m->sizes[e->comm], from = model_random(m, size),
                   to = (from + 1 + model_random(m, size - 1)) % size;

    e->a = m->members[e->comm][from];
    e->b = m->members[e->comm][to];
    switch (model_random(m, 4)) {
    case 0:
        add(m, e->a, MODEL_SENDS_EARLY, at);
        add(m, e->b, MODEL_RECEIVES, at);
        break;
    case 1:
        add(m, e->a, MODEL_SENDS, at);
        add(m, e->b, MODEL_RECEIVES_ANY, at);
        break;
    case 2:
        add(m, e->a, MODEL_EXCHANGES, at);
        add(m, e->b, MODEL_EXCHANGES, at);
        break;
    default:
        add(m, e->a, MODEL_SENDS, at);
        add(m, e->b, MODEL_RECEIVES, at);
    }
}

static void make_one_of(struct model *m, uint32_t at, struct model_event *e)
{
    const uint32_t size = m->sizes[e->comm], to = model_random(m, size);

    e->b = m->members[e->comm][to];
    e->a = m->members[e->comm][(to + 1) % size];
    e->c = m->members[e->comm][(to + 2) % size];
    add(m, e->a, MODEL_SENDS_EARLY, at);
    add(m, e->c, MODEL_SENDS_EARLY, at);
    add(m, e->b, MODEL_ONE_OF, at);
}

static void make_halo(struct model *m, uint32_t at, struct model_event *e)
{
    const uint32_t size = m->sizes[e->comm], a = model_random(m, size);

    e->a = m->members[e->comm][a];
    e->b = m->members[e->comm][(a + 1) % size];
    e->flight = 1 + model_random(m, FLIGHT_TICKS);
    for (enum model_kind kind = MODEL_POSTS; kind <= MODEL_HALO_WAITS; kind++) {
        add(m, e->a, kind, at);
        add(m, e->b, kind, at);
    }
}

static void for_all(struct model *m, const struct model_event *e, enum model_kind kind,
                    uint32_t at)
{
    for (uint32_t i = 0; i < m->sizes[e->comm]; i++)
        add(m, m->members[e->comm][i], kind, at);
}

/* A message that is under way while its sender is in a collective. */
static void make_pending(struct model *m, uint32_t at, struct model_event *e)
{
    const uint32_t size = m->sizes[e->comm], a = model_random(m, size),
                   next = m->nevents++;

    m->events[next].comm = e->comm;
    m->events[next].call = MODEL_ALLREDUCE;
    e->a = m->members[e->comm][a];
    e->b = m->members[e->comm][(a + 1) % size];
    e->flight = 1 + model_random(m, FLIGHT_TICKS);
    add(m, e->a, MODEL_BEGINS_SEND, at);
    add(m, e->b, MODEL_RECEIVES_SLOWLY, at);
    for_all(m, &m->events[next], MODEL_COLLECTIVE, next);
    add(m, e->a, MODEL_ENDS_SEND, at);
}

static void make_unproven(struct model *m, uint32_t at, struct model_event *e)
{
    switch (model_random(m, 3)) {
    case 0:
        make_halo(m, at, e);
        break;
    case 1:
        make_pending(m, at, e);
        break;
    default:
        for_all(m, e, MODEL_SHIFTS, at);
    }
}

/* All ranks do their part of the events in one order: no such program can hang. */
static void make_event(struct model *m, uint32_t *open)
{
    const uint32_t at = m->nevents++;
    struct model_event *e = &m->events[at];

    e->comm = model_random(m, m->ncomms);
    e->call = MODEL_ALLREDUCE + model_random(m, 4);
    e->root = e->call >= MODEL_BCAST ? model_random(m, m->sizes[e->comm]) : 0;
    switch (model_random(m, 9)) {
    case 0:
    case 1:
    case 2:
        make_message(m, at, e);
        break;
    case 3:
        if (m->sizes[e->comm] >= 3)
            make_one_of(m, at, e);
        break;
    case 4:
        e->call += MODEL_NONBLOCKING;
        if (*open < MODEL_EVENTS)
            for_all(m, &m->events[*open], MODEL_END, *open);
        for_all(m, e, MODEL_BEGIN, at);
        *open = at;
        break;
    case 5: /* of what is not all on the page nothing is proven */
        if (m->fault <= MODEL_STOP)
            make_unproven(m, at, e);
        break;
    default:
        for_all(m, e, MODEL_COLLECTIVE, at);
    }
    make_computing(m);
}

static void insert(struct model_rank *r, uint32_t at, struct model_item item)
{
    memmove(&r->items[at + 1], &r->items[at], (r->nitems - at) * sizeof(item));
    r->items[at] = item;
    r->nitems++;
}

static bool is_collective(const struct model_item *item)
{
    return item->kind == MODEL_COLLECTIVE;
}

/* Some item of the rank from one by chance on that is a collective. */
static bool find_collective(struct model *m, const struct model_rank *r, uint32_t *ret)
{
    const uint32_t from = r->nitems ? model_random(m, r->nitems) : 0;

    for (uint32_t i = from; i < r->nitems; i++)
        if (is_collective(&r->items[i])) {
            *ret = i;
            return true;
        }
    return false;
}

static bool plant_other_call(struct model *m, struct model_rank *r)
{
    struct model_event *mine = &m->events[m->nevents];
    uint32_t at;

    if (!find_collective(m, r, &at))
        return false;
    *mine = m->events[r->items[at].event];
    m->fault_event = r->items[at].event;
    if (mine->call >= MODEL_BCAST && m->sizes[mine->comm] > 1 && model_random(m, 2))
        mine->root = (mine->root + 1) % m->sizes[mine->comm];
    else
        mine->call = mine->call == MODEL_BARRIER ? MODEL_ALLREDUCE : MODEL_BARRIER;
    r->items[at].event = m->nevents++;
    return true;
}

/* Where the rank's next operation of the communicator is, also one that it only begins. */
static uint32_t next_of_comm(const struct model *m, const struct model_rank *r,
                             uint32_t from, uint32_t comm)
{
    while (from < r->nitems && ((r->items[from].kind != MODEL_COLLECTIVE &&
                                 r->items[from].kind != MODEL_BEGIN) ||
                                m->events[r->items[from].event].comm != comm))
        from++;
    return from;
}

/* Of each communicator a look has the last operation only. What the rank does in the place
 * of the one that it leaves out must stand, then: it is another one, and none that is only
 * begun.
 */
static bool plant_skip(struct model *m, struct model_rank *r)
{
    const struct model_event *a, *b;
    uint32_t at, next;

    if (!find_collective(m, r, &at))
        return false;
    next = next_of_comm(m, r, at + 1, m->events[r->items[at].event].comm);
    if (next == r->nitems || r->items[next].kind == MODEL_BEGIN)
        return false;
    a = &m->events[r->items[at].event];
    b = &m->events[r->items[next].event];
    if (a->call == b->call && a->root == b->root)
        return false;
    r->items[at] = (struct model_item){.kind = MODEL_COMPUTE};
    return true;
}

static bool plant_swap(struct model *m, struct model_rank *r)
{
    uint32_t first, second, comm, other;

    if (!find_collective(m, r, &first))
        return false;
    comm = m->events[r->items[first].event].comm;
    for (second = first + 1; second < r->nitems; second++) {
        other = m->events[r->items[second].event].comm;
        if (is_collective(&r->items[second]) && other != comm)
            break;
    }
    if (second >= r->nitems || next_of_comm(m, r, first + 1, comm) < second ||
        next_of_comm(m, r, first + 1, other) < second)
        return false;
    r->items[first].event ^= r->items[second].event;
    r->items[second].event ^= r->items[first].event;
    r->items[first].event ^= r->items[second].event;
    return true;
}

/* Both at the same place of the order: before a collective of both. */
static bool plant_cross(struct model *m, struct model_rank *r)
{
    const uint32_t a = m->nevents, b = a + 1;
    struct model_rank *other = &m->ranks[m->other];
    uint32_t at;

    if (!find_collective(m, r, &at))
        return false;
    for (uint32_t i = 0; i < other->nitems; i++) {
        if (!is_collective(&other->items[i]) ||
            other->items[i].event != r->items[at].event)
            continue;
        m->events[a] = (struct model_event){.a = m->other, .b = m->who};
        m->events[b] = (struct model_event){.a = m->who, .b = m->other};
        m->nevents += 2;
        insert(r, at, (struct model_item){.kind = MODEL_RECEIVES, .event = a});
        insert(other, i, (struct model_item){.kind = MODEL_RECEIVES, .event = b});
        return true;
    }
    return false;
}

static bool plant_lost(struct model *m, struct model_rank *r)
{
    uint32_t at;

    if (!find_collective(m, r, &at))
        return false;
    m->fault_event = r->items[at].event;
    m->events[m->fault_event].lost = true;
    return true;
}

static bool plant(struct model *m)
{
    struct model_rank *r = &m->ranks[m->who];
    const uint32_t at = model_random(m, r->nitems + 1);

    switch (m->fault) {
    case MODEL_LOOP:
        insert(r, at, (struct model_item){.kind = MODEL_FOR_EVER});
        return true;
    case MODEL_STOP:
    case MODEL_LEAVE:
        m->fault_event = at;
        return at < r->nitems;
    case MODEL_SKIP:
        return plant_skip(m, r);
    case MODEL_MISMATCH:
        return plant_other_call(m, r);
    case MODEL_CROSS:
        return plant_cross(m, r);
    case MODEL_SWAP:
        return plant_swap(m, r);
    case MODEL_LOST:
        return plant_lost(m, r);
    default:
        return true;
    }
}

bool model_make(struct model *m, uint64_t seed, enum model_fault fault)
{
    uint32_t open = MODEL_EVENTS, events;

    memset(m, 0, sizeof(*m));
    m->seed = m->random = seed;
    m->fault = fault;
    m->now = 10;
    m->n = 2 + model_random(m, MODEL_RANKS - 1);
    make_comms(m);
    for (uint32_t r = 0; r < m->n; r++) {
        m->ranks[r].step = UINT64_MAX;
        add(m, r, MODEL_STEP, 0);
    }
    if (model_random(m, 4) == 0)
        m->ranks[model_random(m, m->n)].listens = true;
    events = 8 + model_random(m, MODEL_EVENTS - 12);
    while (m->nevents < events)
        make_event(m, &open);
    if (open < MODEL_EVENTS)
        for_all(m, &m->events[open], MODEL_END, open);
    m->who = model_random(m, m->n);
    m->other = (m->who + 1 + model_random(m, m->n - 1)) % m->n;
    return plant(m);
}
