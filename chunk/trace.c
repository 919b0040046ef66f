/* SPDX-License-Identifier: Apache-2.0 */
/* Two records: the trace in force, and the iteration that runs. */
#include "chunk/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    struct dlr_chunk_moment *moments;
    struct dlr_chunk_use *uses;
    uint32_t n, nuses, room, uses_room;
    uint64_t shapes;
};

struct dlr_chunk_trace {
    uint64_t *bytes;
    uint32_t chunks;
    bool known; /* there is a trace in force */
    struct record force, now;
    uint64_t
        *most; /* of others, in each moment, of iterations like force; may be NULL */
    bool running, recording, broken; /* this iteration */
    bool taking; /* this moment goes on with the one before, nothing used in it yet */
    unsigned surprises; /* of this iteration */
    unsigned misses;    /* iterations in a row that had some */
};

int dlr_chunk_trace_new(const uint64_t *bytes, uint32_t chunks,
                        struct dlr_chunk_trace **ret)
{
    struct dlr_chunk_trace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return -ENOMEM;
    trace->chunks = chunks;
    trace->bytes = calloc(chunks + 1, sizeof(*bytes));
    if (!trace->bytes) {
        dlr_chunk_trace_free(trace);
        return -ENOMEM;
    }
    memcpy(trace->bytes, bytes, chunks * sizeof(*bytes));
    *ret = trace;
    return 0;
}

static void record_done(struct record *r)
{
    free(r->moments);
    free(r->uses);
}

struct dlr_chunk_trace *dlr_chunk_trace_free(struct dlr_chunk_trace *trace)
{
    if (trace) {
        record_done(&trace->force);
        record_done(&trace->now);
        free(trace->most);
        free(trace->bytes);
    }
    free(trace);
    return NULL;
}

bool dlr_chunk_trace_begin(struct dlr_chunk_trace *trace, uint64_t shapes)
{
    trace->running = true;
    trace->recording = !trace->known || trace->force.shapes != shapes ||
                       trace->misses >= DLR_CHUNK_TRACE_MISSES;
    trace->broken = false;
    trace->surprises = 0;
    trace->now.n = trace->now.nuses = 0;
    trace->now.shapes = shapes;
    return trace->recording;
}

static int grow(void **array, uint32_t n, uint32_t *room, size_t size)
{
    const uint32_t more = *room ? 2 * *room : 256;
    void *bigger;

    if (n < *room)
        return 0;
    bigger = more > n ? realloc(*array, more * size) : NULL;
    if (!bigger)
        return -ENOMEM;
    *array = bigger;
    *room = more;
    return 0;
}

int dlr_chunk_trace_tick(struct dlr_chunk_trace *trace, const char *name)
{
    struct record *r = &trace->now;
    int rc = r->n < DLR_CHUNK_TRACE_MOMENTS ? 0 : -E2BIG;

    if (rc == 0)
        rc = grow((void **)&r->moments, r->n, &r->room, sizeof(*r->moments));
    if (rc < 0) {
        trace->broken = true;
        return rc;
    }
    trace->taking = false;
    r->moments[r->n] = (struct dlr_chunk_moment){.first = r->nuses};
    snprintf(r->moments[r->n].name, sizeof(r->moments[r->n].name), "%s", name);
    r->n++;
    return 0;
}

/* The moment of the trace in force that this one is, or NULL. */
static const struct dlr_chunk_moment *foreseen(const struct dlr_chunk_trace *trace)
{
    const uint32_t n = trace->now.n;

    return n <= trace->force.n ? &trace->force.moments[n - 1] : NULL;
}

static struct dlr_chunk_use *find(const struct record *r,
                                  const struct dlr_chunk_moment *m, uint32_t chunk)
{
    for (uint32_t i = m->first; i < m->first + m->count; i++)
        if (r->uses[i].chunk == chunk)
            return &r->uses[i];
    return NULL;
}

static int surprise(struct dlr_chunk_trace *trace, bool is)
{
    if (trace->recording || !is)
        return 0;
    trace->surprises++;
    return 1;
}

static int add(struct dlr_chunk_trace *trace, uint32_t chunk,
               enum dlr_chunk_intent intent)
{
    struct record *r = &trace->now;

    if (grow((void **)&r->uses, r->nuses, &r->uses_room, sizeof(*r->uses)) < 0) {
        trace->broken = true;
        return -ENOMEM;
    }
    r->uses[r->nuses++] = (struct dlr_chunk_use){chunk, intent};
    r->moments[r->n - 1].count++;
    return 0;
}

/* The operator goes on in a moment more, in which the chunk is used otherwise. What else
 * it uses may be in use still.
 */
static int go_on(struct dlr_chunk_trace *trace, uint32_t chunk,
                 enum dlr_chunk_intent intent)
{
    struct record *r = &trace->now;
    const struct dlr_chunk_moment m = r->moments[r->n - 1];
    int rc = dlr_chunk_trace_tick(trace, m.name);

    if (rc < 0)
        return rc;
    r->moments[r->n - 1].others = m.others;
    for (uint32_t i = m.first; i < m.first + m.count && rc == 0; i++)
        if (r->uses[i].chunk != chunk && r->uses[i].intent != DLR_CHUNK_TAKE)
            rc = add(trace, r->uses[i].chunk, DLR_CHUNK_READ);
    if (rc == 0)
        rc = add(trace, chunk, intent);
    trace->taking = intent == DLR_CHUNK_TAKE;
    return rc;
}

/* Of two uses on the device in one moment the one that costs more counts: they are in
 * that order. What the host takes is not on the device in the same moment; of several
 * that it takes one after the other all go in one.
 */
static int note(struct dlr_chunk_trace *trace, uint32_t chunk,
                enum dlr_chunk_intent intent)
{
    const bool takes = intent == DLR_CHUNK_TAKE;
    struct dlr_chunk_use *use =
        find(&trace->now, &trace->now.moments[trace->now.n - 1], chunk);

    if (use && takes != (use->intent == DLR_CHUNK_TAKE) && !(takes && trace->taking))
        return go_on(trace, chunk, intent);
    trace->taking &= takes;
    if (!use)
        return add(trace, chunk, intent);
    if (use->intent < intent)
        use->intent = intent;
    return 0;
}

int dlr_chunk_trace_use(struct dlr_chunk_trace *trace, uint32_t chunk,
                        enum dlr_chunk_intent intent)
{
    const struct dlr_chunk_moment *m;
    const struct dlr_chunk_use *expected;
    int rc;

    if (trace->now.n == 0)
        return 0;
    if ((rc = note(trace, chunk, intent)) < 0)
        return rc;
    m = foreseen(trace);
    expected = m ? find(&trace->force, m, chunk) : NULL;
    return surprise(trace, !expected || expected->intent < intent);
}

int dlr_chunk_trace_others(struct dlr_chunk_trace *trace, uint64_t bytes)
{
    struct record *r = &trace->now;
    const struct dlr_chunk_moment *m;

    if (r->n == 0)
        return 0;
    if (bytes > r->moments[r->n - 1].others)
        r->moments[r->n - 1].others = bytes;
    m = foreseen(trace);
    return surprise(trace, !m || bytes > m->others);
}

static bool is_like(const struct record *a, const struct record *b)
{
    bool like = a->shapes == b->shapes && a->n == b->n;

    for (uint32_t t = 0; t < a->n && like; t++)
        like = strcmp(a->moments[t].name, b->moments[t].name) == 0;
    return like;
}

/* What others take differs by a little from one iteration to the next. */
static void keep_most(struct dlr_chunk_trace *trace)
{
    for (uint32_t t = 0; trace->most && t < trace->now.n; t++)
        if (trace->now.moments[t].others > trace->most[t])
            trace->most[t] = trace->now.moments[t].others;
}

/* What is recorded becomes the trace in force. Without memory only that most is lost. */
static void install(struct dlr_chunk_trace *trace, bool like)
{
    const struct record old = trace->force;

    if (!like) {
        free(trace->most);
        trace->most = calloc(trace->now.n, sizeof(*trace->most));
        keep_most(trace);
    }
    for (uint32_t t = 0; trace->most && t < trace->now.n; t++)
        trace->now.moments[t].others = trace->most[t];
    trace->force = trace->now;
    trace->now = old;
    trace->known = true;
    trace->misses = 0;
}

int dlr_chunk_trace_end(struct dlr_chunk_trace *trace, bool overflowed)
{
    bool like;

    if (!trace->running || overflowed || trace->broken || trace->now.n == 0) {
        trace->running = false;
        return 0;
    }
    trace->running = false;
    like = trace->known && is_like(&trace->force, &trace->now);
    if (like)
        keep_most(trace);
    if (!trace->recording) {
        const bool other = trace->surprises > 0 || trace->now.n != trace->force.n;

        trace->misses = other ? trace->misses + 1 : 0;
        return 0;
    }
    install(trace, like);
    return 1;
}

bool dlr_chunk_trace_get(const struct dlr_chunk_trace *trace,
                         struct dlr_chunk_iteration *ret)
{
    if (!trace->known)
        return false;
    *ret = (struct dlr_chunk_iteration){trace->force.moments, trace->force.uses,
                                        trace->bytes, trace->force.n, trace->chunks};
    return true;
}
