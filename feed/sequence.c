/* SPDX-License-Identifier: Apache-2.0 */
/* Each change opens a segment, which says where every source stood when it began.
 * Positions of a source count its samples over all epochs.
 */
#include "feed/sequence.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define FOREVER UINT64_MAX
#define KEY_MIXTURE UINT64_C(0x6d69787475726573)

struct segment {
    uint64_t from, position; /* step, and of its first sample */
    uint32_t batch, micro;
    struct dlr_mixture *mixture; /* NULL: one source. The last segment's, or its own */
    uint64_t mixed;              /* where in that it begins */
    uint64_t at[DLR_MIXTURE_SOURCES]; /* where sources stand; where mixture begins */
};

/* From this position of the one source on it is so long; begins with an epoch. */
struct extent {
    uint64_t from, epoch, length;
};

struct dlr_sequence {
    struct dlr_sequence_conf conf;
    struct dlr_source source[DLR_MIXTURE_SOURCES]; /* after all changes */
    uint64_t base[DLR_MIXTURE_SOURCES]; /* records of the sources before it */
    uint32_t parts[DLR_MIXTURE_SOURCES];
    unsigned segments, extents, changes;
    struct segment segment[DLR_SEQUENCE_CHANGES + 1];
    struct extent extent[DLR_SEQUENCE_CHANGES + 1];
    struct dlr_change change[DLR_SEQUENCE_CHANGES];
};

/* A step as positions: of the source, or of the mixture. */
struct span {
    uint64_t from;
    uint32_t samples;
};

static const struct segment *segment_of(const struct dlr_sequence *s, uint64_t step)
{
    unsigned i = s->segments - 1;

    while (i > 0 && s->segment[i].from > step)
        i--;
    return &s->segment[i];
}

static unsigned extent_of(const struct dlr_sequence *s, uint64_t position)
{
    unsigned i = s->extents - 1;

    while (i > 0 && s->extent[i].from > position)
        i--;
    return i;
}

/* The position at which the epoch ends that this one is in. */
static uint64_t epoch_end(const struct extent *x, uint64_t position)
{
    return position + x->length - (position - x->from) % x->length;
}

/* Steps that so many records give. */
static uint64_t steps_in(const struct dlr_sequence *s, uint64_t records, uint32_t batch)
{
    return records / batch + (s->conf.ends == DLR_ENDS_KEEP && records % batch > 0);
}

/* The k-th step of a segment whose steps do not span epochs. */
static struct span span_in_epochs(const struct dlr_sequence *s,
                                  const struct segment *seg, uint64_t k)
{
    uint64_t at = seg->at[0];

    for (;;) {
        const unsigned i = extent_of(s, at);
        const struct extent *x = &s->extent[i];
        const uint64_t next = i + 1 < s->extents ? s->extent[i + 1].from : FOREVER,
                       end = epoch_end(x, at), here = steps_in(s, end - at, seg->batch);
        uint64_t epochs;

        if (k < here) {
            const uint64_t from = at + k * seg->batch, left = end - from;

            return (struct span){from, left < seg->batch ? (uint32_t)left : seg->batch};
        }
        k -= here;
        at = end;
        epochs = k / steps_in(s, x->length, seg->batch);
        if (epochs > (next - at) / x->length)
            epochs = (next - at) / x->length;
        k -= epochs * steps_in(s, x->length, seg->batch);
        at += epochs * x->length;
    }
}

static struct span span_of(const struct dlr_sequence *s, const struct segment *seg,
                           uint64_t k)
{
    if (seg->mixture || s->conf.ends == DLR_ENDS_SPAN)
        return (struct span){(seg->mixture ? seg->mixed : seg->at[0]) + k * seg->batch,
                             seg->batch};
    return span_in_epochs(s, seg, k);
}

int dlr_sequence_step(const struct dlr_sequence *s, uint64_t step,
                      struct dlr_sequence_step *ret)
{
    const struct segment *seg = segment_of(s, step);
    struct span span;

    if (step >= DLR_SEQUENCE_STEP_MAX ||
        step - seg->from > (DLR_PERMUTE_MAX - seg->position) / seg->batch / 2)
        return -ERANGE;
    span = span_of(s, seg, step - seg->from);
    *ret = (struct dlr_sequence_step){
        .position =
            seg->position + span.from - (seg->mixture ? seg->mixed : seg->at[0]),
        .samples = span.samples,
        .batch = seg->batch,
        .micro = seg->micro,
        .micro_batches = (span.samples - 1) / seg->micro + 1,
    };
    if (!seg->mixture) {
        const struct extent *x = &s->extent[extent_of(s, span.from)];

        ret->epoch = x->epoch + (span.from - x->from) / x->length;
        ret->record = (span.from - x->from) % x->length;
    }
    return 0;
}

/* --- indices --- */

/* The epoch that each source is in, made when it is asked for. */
struct epochs {
    uint64_t from[DLR_MIXTURE_SOURCES], end[DLR_MIXTURE_SOURCES]; /* positions */
    struct dlr_epoch epoch[DLR_MIXTURE_SOURCES];
};

static void enter_epoch(const struct dlr_sequence *s, unsigned source,
                        uint64_t position, struct epochs *e)
{
    const uint64_t key = dlr_permute_mix(s->conf.seed, source);
    const struct extent whole = {0, 0, s->source[source].length},
                        *x = s->conf.sources > 1 ? &whole
                                                 : &s->extent[extent_of(s, position)];
    const uint64_t n = (position - x->from) / x->length;

    e->from[source] = x->from + n * x->length;
    e->end[source] = e->from[source] + x->length;
    dlr_epoch_init(&e->epoch[source], &s->conf.order, x->length,
                   dlr_permute_mix(key, x->epoch + n));
}

uint32_t dlr_sequence_indices(const struct dlr_sequence *s, uint64_t step,
                              uint32_t first, uint32_t n, uint64_t *ret)
{
    const struct segment *seg = segment_of(s, step);
    const struct span span = span_of(s, seg, step - seg->from);
    struct epochs e;

    if (first >= span.samples)
        return 0;
    n = n < span.samples - first ? n : span.samples - first;
    for (unsigned i = 0; i < s->conf.sources; i++)
        e.from[i] = e.end[i] = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t position = span.from + first + i;
        unsigned source = 0;

        if (seg->mixture) {
            source = dlr_mixture_at(seg->mixture, position, &position);
            position += seg->at[source];
        }
        if (position >= e.end[source] || position < e.from[source])
            enter_epoch(s, source, position, &e);
        ret[i] =
            s->base[source] + dlr_epoch_at(&e.epoch[source], position - e.from[source]);
    }
    return n;
}

/* --- making and changing --- */

static int check_batch(const struct dlr_sequence *s, uint32_t batch, uint32_t micro,
                       struct dlr_err *err)
{
    if (batch == 0 || batch > DLR_SEQUENCE_BATCH_MAX)
        return dlr_fail(err, -EINVAL, "global_batch %u is not 1 to %u", batch,
                        DLR_SEQUENCE_BATCH_MAX);
    if (micro == 0 || batch % micro != 0)
        return dlr_fail(err, -EINVAL, "micro_batch %u does not divide global_batch %u",
                        micro, batch);
    if (s->conf.ends == DLR_ENDS_DROP && batch > s->conf.source[0].length)
        return dlr_fail(err, -EINVAL,
                        "global_batch %u is more than the %" PRIu64
                        " records of an epoch, and drop leaves short batches out",
                        batch, s->conf.source[0].length);
    return 0;
}

static int check_parts(const uint32_t *parts, unsigned n, struct dlr_err *err)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += parts[i];
    if (sum != DLR_MIXTURE_PARTS)
        return dlr_fail(err, -EINVAL, "parts of the mixture add up to %" PRIu64, sum);
    return 0;
}

static int check_conf(const struct dlr_sequence_conf *conf, struct dlr_err *err)
{
    uint64_t sum = 0;

    if (conf->sources == 0 || conf->sources > DLR_MIXTURE_SOURCES)
        return dlr_fail(err, -EINVAL, "%u sources: 1 to %d can be", conf->sources,
                        DLR_MIXTURE_SOURCES);
    for (unsigned i = 0; i < conf->sources; i++) {
        const uint64_t length = conf->source[i].length;

        if (length == 0)
            return dlr_fail(err, -EINVAL, "source %u has no records", i);
        if (length > DLR_PERMUTE_MAX / 4 - sum)
            return dlr_fail(err, -EINVAL, "source %u has %" PRIu64 " records: too many",
                            i, length);
        sum += length;
    }
    if (conf->order.kind >= DLR_ORDER_KINDS || conf->order.block == 0 ||
        conf->order.window == 0 || conf->ends >= DLR_ENDS_KINDS)
        return dlr_fail(err, -EINVAL, "no such order or end of an epoch");
    if (conf->sources > 1 && conf->ends != DLR_ENDS_SPAN)
        return dlr_fail(err, -EINVAL,
                        "ends must be span: a mixture has no epochs to keep or drop "
                        "the rest of");
    return conf->sources > 1 ? check_parts(conf->parts, conf->sources, err) : 0;
}

/* Where everything stands when the first steps of the newest segment are over. */
static void open_segment(struct dlr_sequence *s, uint64_t step, uint64_t over)
{
    const struct segment *old = &s->segment[s->segments - 1];
    struct segment *seg = &s->segment[s->segments];
    const uint64_t begin = old->mixture ? old->mixed : old->at[0];
    struct span span = {begin, 0};

    if (over > 0)
        span = span_of(s, old, over - 1);
    span.from += span.samples;
    *seg = *old;
    seg->from = step;
    seg->position = old->position + span.from - begin;
    if (old->mixture)
        seg->mixed = span.from;
    else
        seg->at[0] = span.from;
}

/* Begins a mixture in this segment, whose sources go on where they are. */
static int mix(struct dlr_sequence *s, struct segment *seg)
{
    const uint64_t key = dlr_permute_mix(s->conf.seed ^ KEY_MIXTURE, seg->position);

    for (unsigned i = 0; seg->mixture && i < s->conf.sources; i++)
        seg->at[i] += dlr_mixture_before(seg->mixture, seg->mixed, i);
    seg->mixed = 0;
    return dlr_mixture_new(s->parts, s->conf.sources, key, &seg->mixture);
}

int dlr_sequence_new(const struct dlr_sequence_conf *conf, struct dlr_sequence **ret,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_sequence *s = calloc(1, sizeof(*s));
    int rc = check_conf(conf, err);

    if (!s)
        return dlr_fail(err, -ENOMEM, "no memory for a feed");
    if (rc < 0)
        return rc;
    s->conf = *conf;
    memcpy(s->source, conf->source, sizeof(s->source));
    memcpy(s->parts, conf->parts, sizeof(s->parts));
    for (unsigned i = 1; i < conf->sources; i++)
        s->base[i] = s->base[i - 1] + conf->source[i - 1].length;
    s->extent[0] = (struct extent){.length = conf->source[0].length};
    s->segment[0] = (struct segment){.batch = conf->batch, .micro = conf->micro};
    s->segments = s->extents = 1;
    rc = check_batch(s, conf->batch, conf->micro, err);
    if (rc < 0)
        return rc;
    if (conf->sources > 1 && mix(s, &s->segment[0]) < 0)
        return dlr_fail(err, -ENOMEM, "no memory for a mixture");
    *ret = DLR_STEAL(s);
    return 0;
}

struct dlr_sequence *dlr_sequence_free(struct dlr_sequence *s)
{
    for (unsigned i = 0; s && i < s->segments; i++)
        if (i == 0 || s->segment[i].mixture != s->segment[i - 1].mixture)
            dlr_mixture_free(s->segment[i].mixture);
    free(s);
    return NULL;
}

const struct dlr_sequence_conf *dlr_sequence_conf(const struct dlr_sequence *s)
{
    return &s->conf;
}

const struct dlr_change *dlr_sequence_changes(const struct dlr_sequence *s,
                                              unsigned *ret_n)
{
    *ret_n = s->changes;
    return s->change;
}

const struct dlr_source *dlr_sequence_source(const struct dlr_sequence *s, unsigned i)
{
    return &s->source[i];
}

static bool same_change(const struct dlr_change *a, const struct dlr_change *b)
{
    return a->kind == b->kind && a->step == b->step && a->batch == b->batch &&
           a->micro == b->micro && a->skip == b->skip &&
           a->source.length == b->source.length && a->source.id == b->source.id &&
           a->source.files == b->source.files &&
           memcmp(a->parts, b->parts, sizeof(a->parts)) == 0;
}

/* Whether it is so already at its step, whatever was changed later. */
static bool in_force(const struct dlr_sequence *s, const struct dlr_change *c)
{
    const struct segment *seg = segment_of(s, c->step);
    const struct dlr_source *source = &s->conf.source[0];
    const uint32_t *parts = s->conf.parts;

    for (unsigned i = 0; i < s->changes && s->change[i].step <= c->step; i++) {
        if (s->change[i].kind == DLR_CHANGE_PARTS)
            parts = s->change[i].parts;
        if (s->change[i].kind == DLR_CHANGE_EXTEND)
            source = &s->change[i].source;
    }
    if (c->kind == DLR_CHANGE_BATCH)
        return c->batch == seg->batch && c->micro == seg->micro;
    if (c->kind == DLR_CHANGE_PARTS)
        return seg->mixture && memcmp(c->parts, parts, sizeof(s->parts)) == 0;
    return c->kind == DLR_CHANGE_EXTEND && !seg->mixture &&
           c->source.length == source->length && c->source.files == source->files &&
           c->source.id == source->id;
}

bool dlr_sequence_has(const struct dlr_sequence *s, const struct dlr_change *c)
{
    for (unsigned i = 0; i < s->changes; i++)
        if (same_change(&s->change[i], c))
            return true;
    return in_force(s, c);
}

static int check_change(const struct dlr_sequence *s, const struct dlr_change *c,
                        struct dlr_err *err)
{
    const struct segment *last = &s->segment[s->segments - 1];
    struct dlr_sequence_step step;

    if (s->changes == DLR_SEQUENCE_CHANGES)
        return dlr_fail(err, -ENOSPC, "more than %d changes of a feed",
                        DLR_SEQUENCE_CHANGES);
    if (c->step < last->from)
        return dlr_fail(err, -EINVAL,
                        "a change at step %" PRIu64 " after one at step %" PRIu64,
                        c->step, last->from);
    if (c->skip > DLR_SEQUENCE_STEP_MAX ||
        dlr_sequence_step(s, c->step + c->skip, &step) < 0)
        return dlr_fail(err, -EINVAL, "step %" PRIu64 " is beyond what a feed has",
                        c->step + c->skip);
    switch (c->kind) {
    case DLR_CHANGE_BATCH:
        return check_batch(s, c->batch, c->micro, err);
    case DLR_CHANGE_PARTS:
        if (s->conf.sources == 1)
            return dlr_fail(err, -ENOTSUP, "one source has no weights");
        return check_parts(c->parts, s->conf.sources, err);
    case DLR_CHANGE_EXTEND:
        if (s->conf.sources > 1)
            return dlr_fail(err, -ENOTSUP, "a source of a mixture cannot grow");
        if (c->source.length < s->source[0].length ||
            c->source.length > DLR_PERMUTE_MAX / 4)
            return dlr_fail(err, -EINVAL,
                            "%" PRIu64 " records after %" PRIu64 ": it may only grow",
                            c->source.length, s->source[0].length);
        return 0;
    case DLR_CHANGE_SKIP:
        return 0;
    default:
        return dlr_fail(err, -EINVAL, "no such change of a feed");
    }
}

/* From the next epoch on; from this one, where the segment begins with one. */
static void extend(struct dlr_sequence *s, const struct dlr_source *source)
{
    const uint64_t at = s->segment[s->segments].at[0];
    const struct extent *x = &s->extent[s->extents - 1];
    uint64_t from = x->from;

    if (at > x->from)
        from = (at - x->from) % x->length ? epoch_end(x, at) : at;
    s->extent[s->extents] =
        (struct extent){from, x->epoch + (from - x->from) / x->length, source->length};
    s->extents++;
    s->source[0] = *source;
}

int dlr_sequence_change(struct dlr_sequence *s, const struct dlr_change *c,
                        struct dlr_err *err)
{
    struct segment *seg = &s->segment[s->segments];
    int rc;

    if (dlr_sequence_has(s, c))
        return 0;
    rc = check_change(s, c, err);
    if (rc < 0)
        return rc;
    open_segment(s, c->step, c->step - s->segment[s->segments - 1].from + c->skip);
    if (c->kind == DLR_CHANGE_BATCH) {
        seg->batch = c->batch;
        seg->micro = c->micro;
    }
    if (c->kind == DLR_CHANGE_PARTS) {
        memcpy(s->parts, c->parts, sizeof(s->parts));
        if (mix(s, seg) < 0)
            return dlr_fail(err, -ENOMEM, "no memory for a mixture");
    }
    if (c->kind == DLR_CHANGE_EXTEND)
        extend(s, &c->source);
    s->segments++;
    s->change[s->changes++] = *c;
    return 0;
}
