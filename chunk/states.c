/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's state follows from its counters; a chunk has a count of its tensors in each
 * state, and of complete ones. Only set_state() and set_complete() change either.
 */
#include "chunk/states.h"

#include <errno.h>
#include <stdlib.h>

struct tensor {
    struct dlr_chunk_span span;
    enum dlr_chunk_state state;
    uint32_t uses[2];           /* by pass, not ended */
    uint32_t forward, backward; /* passes that have ended since FWD began */
    bool complete;              /* its gradient, since then; also once it is dropped */
};

struct chunk {
    uint32_t of[DLR_CHUNK_STATES]; /* tensors in each state */
    uint32_t trained, complete;    /* tensors that get a gradient, and have it */
};

struct dlr_chunk_states {
    enum dlr_chunk_stage stage;
    uint32_t n, chunks, in_use;
    struct tensor *tensors;
    struct chunk *per_chunk;
};

static const char *const stage_names[] = {"idle", "forward", "backward", "Adam"};

int dlr_chunk_states_new(const struct dlr_chunk_span *spans, uint32_t n,
                         uint32_t chunks, struct dlr_chunk_states **ret)
{
    struct dlr_chunk_states *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->n = n;
    s->chunks = chunks;
    s->tensors = calloc(n + 1, sizeof(*s->tensors));
    s->per_chunk = calloc(chunks + 1, sizeof(*s->per_chunk));
    if (!s->tensors || !s->per_chunk) {
        dlr_chunk_states_free(s);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        s->tensors[i].span = spans[i];
        for (uint32_t c = spans[i].chunk; c < spans[i].chunk + spans[i].chunks; c++) {
            s->per_chunk[c].of[DLR_CHUNK_FREE]++;
            s->per_chunk[c].trained += !spans[i].frozen;
        }
    }
    *ret = s;
    return 0;
}

struct dlr_chunk_states *dlr_chunk_states_free(struct dlr_chunk_states *s)
{
    if (s) {
        free(s->tensors);
        free(s->per_chunk);
    }
    free(s);
    return NULL;
}

static void set_state(struct dlr_chunk_states *s, struct tensor *t,
                      enum dlr_chunk_state state)
{
    for (uint32_t c = t->span.chunk; c < t->span.chunk + t->span.chunks; c++) {
        s->per_chunk[c].of[t->state]--;
        s->per_chunk[c].of[state]++;
    }
    s->in_use += (state == DLR_CHUNK_COMPUTE) - (t->state == DLR_CHUNK_COMPUTE);
    t->state = state;
}

static void set_complete(struct dlr_chunk_states *s, struct tensor *t, bool complete)
{
    for (uint32_t c = t->span.chunk; c < t->span.chunk + t->span.chunks; c++)
        s->per_chunk[c].complete += complete - t->complete;
    t->complete = complete;
}

static void set_all(struct dlr_chunk_states *s, enum dlr_chunk_state from,
                    enum dlr_chunk_state to)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->tensors[i].state == from)
            set_state(s, &s->tensors[i], to);
}

/* Adam has made parameters where gradients were. Without it there are none. */
static void begin_fwd(struct dlr_chunk_states *s)
{
    set_all(s, DLR_CHUNK_HOLD_AFTER_BWD,
            s->stage == DLR_CHUNK_ADAM ? DLR_CHUNK_HOLD : DLR_CHUNK_FREE);
    for (uint32_t i = 0; i < s->n; i++) {
        set_complete(s, &s->tensors[i], false);
        s->tensors[i].forward = s->tensors[i].backward = 0;
    }
}

/* No backward pass is still to come: what any has given is the gradient. */
static void begin_adam(struct dlr_chunk_states *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct tensor *t = &s->tensors[i];

        if (t->backward == 0 || t->span.frozen)
            continue;
        set_complete(s, t, true);
        if (t->state == DLR_CHUNK_HOLD)
            set_state(s, t, DLR_CHUNK_HOLD_AFTER_BWD);
    }
}

static bool may_follow(enum dlr_chunk_stage from, enum dlr_chunk_stage to)
{
    return to == DLR_CHUNK_FWD || (to == DLR_CHUNK_BWD && from == DLR_CHUNK_FWD) ||
           (to == DLR_CHUNK_ADAM && from == DLR_CHUNK_BWD);
}

int dlr_chunk_states_stage(struct dlr_chunk_states *s, enum dlr_chunk_stage stage,
                           struct dlr_err *err)
{
    if (!may_follow(s->stage, stage))
        return dlr_fail(err, -EINVAL, "the stage after %s is not %s",
                        stage_names[s->stage],
                        stage <= DLR_CHUNK_ADAM ? stage_names[stage] : "known");
    if (s->in_use)
        return dlr_fail(err, -EBUSY, "%u tensor(s) in use at the end of %s", s->in_use,
                        stage_names[s->stage]);
    set_all(s, DLR_CHUNK_HOLD_AFTER_FWD, DLR_CHUNK_HOLD);
    if (stage == DLR_CHUNK_FWD)
        begin_fwd(s);
    else if (stage == DLR_CHUNK_ADAM)
        begin_adam(s);
    s->stage = stage;
    return 0;
}

static bool has_pass(const struct dlr_chunk_states *s, enum dlr_chunk_pass pass)
{
    return s->stage == DLR_CHUNK_BWD ||
           (s->stage == DLR_CHUNK_FWD && pass == DLR_CHUNK_FORWARD);
}

int dlr_chunk_states_access(struct dlr_chunk_states *s, uint32_t tensor,
                            enum dlr_chunk_pass pass, struct dlr_err *err)
{
    struct tensor *t = &s->tensors[tensor];
    const bool empty = t->state == DLR_CHUNK_FREE;

    if (!has_pass(s, pass))
        return dlr_fail(err, -EINVAL, "tensor %u is used in a %s pass, in the stage %s",
                        tensor, pass == DLR_CHUNK_FORWARD ? "forward" : "backward",
                        stage_names[s->stage]);
    if (t->complete)
        return dlr_fail(err, -ESTALE,
                        "tensor %u is used after its gradient was complete", tensor);
    t->uses[pass]++;
    set_state(s, t, DLR_CHUNK_COMPUTE);
    return empty;
}

/* Of a tensor whose last use has ended: in BWD it may be a forward pass that was made
 * again and outlasts the backward one.
 */
static enum dlr_chunk_state state_after(const struct dlr_chunk_states *s,
                                        const struct tensor *t)
{
    if (s->stage == DLR_CHUNK_FWD)
        return DLR_CHUNK_HOLD_AFTER_FWD;
    if (t->backward == 0 || t->backward < t->forward || t->span.frozen)
        return DLR_CHUNK_HOLD;
    return DLR_CHUNK_HOLD_AFTER_BWD;
}

int dlr_chunk_states_release(struct dlr_chunk_states *s, uint32_t tensor,
                             enum dlr_chunk_pass pass, struct dlr_err *err)
{
    struct tensor *t = &s->tensors[tensor];

    if (t->uses[pass] == 0)
        return dlr_fail(err, -EINVAL, "tensor %u is released, and is not in use",
                        tensor);
    t->uses[pass]--;
    if (s->stage == DLR_CHUNK_FWD)
        t->forward++;
    else if (pass == DLR_CHUNK_BACKWARD)
        t->backward++;
    if (t->uses[0] + t->uses[1] > 0)
        return 0;
    set_state(s, t, state_after(s, t));
    set_complete(s, t, t->state == DLR_CHUNK_HOLD_AFTER_BWD);
    return t->complete;
}

int dlr_chunk_states_drop(struct dlr_chunk_states *s, uint32_t tensor)
{
    if (s->tensors[tensor].state == DLR_CHUNK_COMPUTE)
        return -EBUSY;
    set_state(s, &s->tensors[tensor], DLR_CHUNK_FREE);
    return 0;
}

uint32_t dlr_chunk_states_reset(struct dlr_chunk_states *s)
{
    uint32_t gone = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        struct tensor *t = &s->tensors[i];

        t->uses[0] = t->uses[1] = 0;
        set_complete(s, t, false);
        gone += t->state == DLR_CHUNK_HOLD_AFTER_BWD;
        if (t->state == DLR_CHUNK_HOLD_AFTER_BWD)
            set_state(s, t, DLR_CHUNK_FREE);
        else if (t->state != DLR_CHUNK_FREE)
            set_state(s, t, DLR_CHUNK_HOLD);
    }
    s->stage = DLR_CHUNK_IDLE;
    return gone;
}

enum dlr_chunk_stage dlr_chunk_states_now(const struct dlr_chunk_states *s)
{
    return s->stage;
}

enum dlr_chunk_state dlr_chunk_states_tensor(const struct dlr_chunk_states *s,
                                             uint32_t tensor)
{
    return s->tensors[tensor].state;
}

bool dlr_chunk_states_pinned(const struct dlr_chunk_states *s, uint32_t chunk)
{
    return s->per_chunk[chunk].of[DLR_CHUNK_COMPUTE] > 0;
}

static uint32_t tensors_of(const struct chunk *c)
{
    uint32_t sum = 0;

    for (unsigned state = 0; state < DLR_CHUNK_STATES; state++)
        sum += c->of[state];
    return sum;
}

bool dlr_chunk_states_empty(const struct dlr_chunk_states *s, uint32_t chunk)
{
    return s->per_chunk[chunk].of[DLR_CHUNK_FREE] == tensors_of(&s->per_chunk[chunk]);
}

bool dlr_chunk_states_reducible(const struct dlr_chunk_states *s, uint32_t chunk)
{
    const struct chunk *c = &s->per_chunk[chunk];

    if (c->trained == 0)
        return false;
    return c->complete == c->trained || s->stage == DLR_CHUNK_ADAM;
}
