/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a step has, beside a slow model that goes from step to step and keeps a
 * cursor for each source.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/sequence.h"

#define STEPS 120
#define BATCH 64
#define CHANGES 5

static uint64_t seed; /* of what is drawn */

static uint64_t draw(uint64_t below)
{
    return dlr_permute_mix(20261129, seed++) % below;
}

/* --- the model --- */

struct model {
    struct dlr_sequence_conf conf;
    const struct dlr_change *change;
    unsigned n, done, nlengths;
    uint64_t cursor[DLR_MIXTURE_SOURCES], epoch, place, mixed, position;
    uint64_t length[CHANGES + 1]; /* of what is to come from the next epochs on */
    struct dlr_mixture *mixture;
};

static uint64_t record_of(const struct model *m, unsigned source, uint64_t epoch,
                          uint64_t length, uint64_t place)
{
    struct dlr_epoch e;

    dlr_epoch_init(&e, &m->conf.order, length,
                   dlr_permute_mix(dlr_permute_mix(m->conf.seed, source), epoch));
    return dlr_epoch_at(&e, place);
}

static void model_mix(struct model *m)
{
    dlr_mixture_free(m->mixture);
    m->mixture = NULL;
    m->mixed = 0;
    if (m->conf.sources > 1)
        assert_int_equal(
            dlr_mixture_new(m->conf.parts, m->conf.sources,
                            dlr_permute_mix(m->conf.seed ^ UINT64_C(0x6d69787475726573),
                                            m->position),
                            &m->mixture),
            0);
}

static void next_epoch(struct model *m)
{
    m->epoch++;
    m->place = 0;
    if (m->nlengths)
        m->conf.source[0].length = m->length[m->nlengths - 1];
    m->nlengths = 0;
}

static uint64_t next_sample(struct model *m)
{
    uint64_t record, before, base = 0;
    unsigned source;

    m->position++;
    if (!m->mixture) {
        record = record_of(m, 0, m->epoch, m->conf.source[0].length, m->place);
        if (++m->place == m->conf.source[0].length)
            next_epoch(m);
        return record;
    }
    source = dlr_mixture_at(m->mixture, m->mixed++, &before);
    const uint64_t length = m->conf.source[source].length, at = m->cursor[source]++;

    for (unsigned i = 0; i < source; i++)
        base += m->conf.source[i].length;
    return base + record_of(m, source, at / length, length, at % length);
}

static uint32_t model_step(struct model *m, uint64_t *ret)
{
    const uint64_t left = m->conf.source[0].length - m->place, epoch = m->epoch;
    uint32_t n = m->conf.batch;

    if (m->conf.ends == DLR_ENDS_KEEP && n > left)
        n = (uint32_t)left;
    if (m->conf.ends == DLR_ENDS_DROP && n > left) {
        m->position += left;
        next_epoch(m);
        assert_int_equal(m->epoch, epoch + 1);
    }
    for (uint32_t i = 0; i < n; i++)
        ret[i] = next_sample(m);
    return n;
}

static void model_change(struct model *m, uint64_t step)
{
    uint64_t gone[BATCH];

    for (; m->done < m->n && m->change[m->done].step == step; m->done++) {
        const struct dlr_change *c = &m->change[m->done];

        for (uint64_t i = 0; i < c->skip; i++)
            model_step(m, gone);
        if (c->kind == DLR_CHANGE_BATCH) {
            m->conf.batch = c->batch;
            m->conf.micro = c->micro;
        }
        if (c->kind == DLR_CHANGE_PARTS &&
            memcmp(m->conf.parts, c->parts, sizeof(c->parts)) != 0) {
            memcpy(m->conf.parts, c->parts, sizeof(c->parts));
            model_mix(m);
        }
        if (c->kind == DLR_CHANGE_EXTEND && m->place == 0)
            m->conf.source[0].length = c->source.length;
        else if (c->kind == DLR_CHANGE_EXTEND)
            m->length[m->nlengths++] = c->source.length;
    }
}

/* --- what is drawn --- */

static void draw_parts(uint32_t *parts, unsigned n)
{
    double weights[DLR_MIXTURE_SOURCES];

    for (unsigned i = 0; i < n; i++)
        weights[i] = (double)draw(10) + (i == 0);
    memset(parts, 0, DLR_MIXTURE_SOURCES * sizeof(*parts));
    assert_int_equal(dlr_mixture_parts(weights, n, parts, NULL), 0);
}

static void draw_batch(uint32_t *batch, uint32_t *micro)
{
    *micro = 1 + (uint32_t)draw(4);
    *batch = *micro * (1 + (uint32_t)draw(BATCH / 4));
}

static void draw_conf(struct dlr_sequence_conf *conf)
{
    static const char *const orders[] = {"full", "none", "blocks:5", "blocks:3x4"};

    memset(conf, 0, sizeof(*conf));
    conf->seed = draw(UINT64_MAX);
    assert_int_equal(dlr_order_parse(orders[draw(4)], &conf->order, NULL), 0);
    conf->sources = draw(4) ? 1 : 2 + (uint32_t)draw(4);
    conf->ends = conf->sources > 1 ? DLR_ENDS_SPAN : (enum dlr_ends)draw(3);
    draw_batch(&conf->batch, &conf->micro);
    for (unsigned i = 0; i < conf->sources; i++)
        conf->source[i].length = 1 + draw(400) + (conf->ends == DLR_ENDS_DROP) * BATCH;
    draw_parts(conf->parts, conf->sources);
}

static unsigned draw_changes(const struct dlr_sequence_conf *conf,
                             struct dlr_change *change)
{
    const unsigned n = (unsigned)draw(CHANGES + 1);
    uint64_t step = 0, length = conf->source[0].length;

    for (unsigned i = 0; i < n; i++) {
        struct dlr_change *c = &change[i];

        memset(c, 0, sizeof(*c));
        c->step = step += draw(STEPS / CHANGES);
        c->kind = (enum dlr_change_kind)(1 + draw(4));
        if (c->kind == DLR_CHANGE_EXTEND && conf->sources > 1)
            c->kind = DLR_CHANGE_SKIP;
        if (c->kind == DLR_CHANGE_PARTS && conf->sources == 1)
            c->kind = DLR_CHANGE_BATCH;
        if (c->kind == DLR_CHANGE_BATCH)
            draw_batch(&c->batch, &c->micro);
        if (c->kind == DLR_CHANGE_PARTS)
            draw_parts(c->parts, conf->sources);
        if (c->kind == DLR_CHANGE_SKIP)
            c->skip = 1 + draw(30);
        if (c->kind == DLR_CHANGE_EXTEND)
            c->source.length = length += 1 + draw(100);
    }
    return n;
}

/* A life that begins at this step: it knows what was changed up to then, and makes the
 * later changes when their time comes.
 */
static struct dlr_sequence *begin_at(const struct dlr_sequence_conf *conf,
                                     const struct dlr_change *change, unsigned n,
                                     uint64_t step)
{
    struct dlr_sequence *s = NULL;
    struct dlr_err err;

    if (dlr_sequence_new(conf, &s, &err) < 0)
        fail_msg("%s", err.text);
    for (unsigned i = 0; i < n && change[i].step < step; i++)
        if (dlr_sequence_change(s, &change[i], &err) < 0)
            fail_msg("%s", err.text);
    return s;
}

/* All ranks' shares of a step, one after the other. */
static uint32_t read_step(const struct dlr_sequence *s, uint64_t step, unsigned world,
                          uint64_t *ret, struct dlr_sequence_step *now)
{
    uint32_t got = 0;

    assert_int_equal(dlr_sequence_step(s, step, now), 0);
    for (unsigned rank = 0; rank < world; rank++) {
        const uint32_t from = rank * now->micro_batches / world,
                       to = (rank + 1) * now->micro_batches / world;

        for (uint32_t m = from; m < to; m++)
            got += dlr_sequence_indices(s, step, m * now->micro, now->micro, ret + got);
    }
    return got;
}

static void compare(const struct dlr_sequence_conf *conf,
                    const struct dlr_change *change, unsigned n)
{
    struct model model = {.conf = *conf, .change = change, .n = n};
    struct dlr_sequence *s = begin_at(conf, change, n, 0);

    model_mix(&model);
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t want[BATCH], got[BATCH];
        struct dlr_sequence_step now;
        uint32_t size;

        if (draw(conf->sources > 1 ? 60 : 10) ==
            0) { /* killed, and begun again on what was saved */
            dlr_sequence_free(s);
            s = begin_at(conf, change, n, step);
        }
        for (unsigned i = 0; i < n; i++)
            if (change[i].step == step)
                assert_int_equal(dlr_sequence_change(s, &change[i], NULL), 0);
        model_change(&model, step);
        size = model_step(&model, want);
        assert_int_equal(read_step(s, step, 1 + (unsigned)draw(64), got, &now), size);
        assert_int_equal(now.samples, size);
        assert_int_equal(now.position + size, model.position);
        if (memcmp(got, want, size * sizeof(*got)) != 0)
            fail_msg("step %d: other samples: %u sources, ends %d, %u changes",
                     (int)step, conf->sources, (int)conf->ends, n);
    }
    dlr_sequence_free(s);
    dlr_mixture_free(model.mixture);
}

static void steps_are_those_of_the_model_at_any_size_over_any_restarts(void **state)
{
    for (unsigned i = 0; i < 200; i++) {
        struct dlr_change change[CHANGES];
        struct dlr_sequence_conf conf;
        unsigned n;

        seed = i * 1000003;
        draw_conf(&conf);
        n = draw_changes(&conf, change);
        compare(&conf, change, n);
    }
}

static struct dlr_sequence_conf plain(uint64_t length, uint32_t batch, uint32_t micro)
{
    return (struct dlr_sequence_conf){.seed = 1,
                                      .order = {DLR_ORDER_FULL, 1, 1},
                                      .batch = batch,
                                      .micro = micro,
                                      .sources = 1,
                                      .source[0].length = length};
}

static void the_same_samples_for_every_number_of_ranks(void **state)
{
    const struct dlr_sequence_conf conf = plain(1000, 64, 1);
    struct dlr_sequence *s = begin_at(&conf, NULL, 0, 0);
    uint64_t want[BATCH], got[BATCH];
    struct dlr_sequence_step now;

    for (uint64_t step = 0; step < 40; step++) {
        assert_int_equal(dlr_sequence_indices(s, step, 0, 64, want), 64);
        for (unsigned world = 1; world <= 64; world++) {
            assert_int_equal(read_step(s, step, world, got, &now), 64);
            assert_memory_equal(got, want, sizeof(got));
        }
    }
    dlr_sequence_free(s);
}

static void each_epoch_has_every_record_once(void **state)
{
    const struct dlr_sequence_conf conf = plain(1000, 30, 3);
    struct dlr_sequence *s = begin_at(&conf, NULL, 0, 0);
    unsigned char count[1000] = {0};
    uint64_t got[BATCH], read = 0, first[2][10];

    for (uint64_t step = 0; read < 3000; step++) {
        assert_int_equal(dlr_sequence_indices(s, step, 0, BATCH, got), 30);
        for (unsigned i = 0; i < 30 && read < 3000; i++, read++) {
            if (read % 1000 < 10 && read < 2000)
                first[read / 1000][read % 1000] = got[i];
            assert_int_equal(count[got[i]]++, read / 1000);
        }
    }
    assert_memory_not_equal(first[0], first[1], sizeof(first[0]));
    dlr_sequence_free(s);
}

static void the_rest_of_an_epoch_is_kept_or_left_out(void **state)
{
    static const struct {
        enum dlr_ends ends;
        uint64_t step;
        uint32_t samples, micro_batches;
        uint64_t epoch, record;
    } rows[] = {
        {DLR_ENDS_SPAN, 2, 40, 10, 0, 80}, {DLR_ENDS_SPAN, 3, 40, 10, 1, 20},
        {DLR_ENDS_KEEP, 2, 20, 5, 0, 80},  {DLR_ENDS_KEEP, 3, 40, 10, 1, 0},
        {DLR_ENDS_DROP, 1, 40, 10, 0, 40}, {DLR_ENDS_DROP, 2, 40, 10, 1, 0},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_sequence_conf conf = plain(100, 40, 4);
        struct dlr_sequence_step step;

        conf.ends = rows[i].ends;
        struct dlr_sequence *s = begin_at(&conf, NULL, 0, 0);

        assert_int_equal(dlr_sequence_step(s, rows[i].step, &step), 0);
        assert_int_equal(step.samples, rows[i].samples);
        assert_int_equal(step.micro_batches, rows[i].micro_batches);
        assert_int_equal(step.epoch, rows[i].epoch);
        assert_int_equal(step.record, rows[i].record);
        dlr_sequence_free(s);
    }
}

/* A trillion records, a million steps ahead: as far as a run may come. */
static void far_steps_are_as_near_as_the_first(void **state)
{
    const struct dlr_sequence_conf conf = plain(UINT64_C(1000000000000), 1 << 20, 1);
    struct dlr_sequence *s = begin_at(&conf, NULL, 0, 0);
    struct dlr_sequence_step step;
    uint64_t index;

    assert_int_equal(dlr_sequence_step(s, 123456789, &step), 0);
    assert_int_equal(step.epoch, 129);
    assert_int_equal(dlr_sequence_indices(s, 123456789, 1 << 19, 1, &index), 1);
    assert_true(index < conf.source[0].length);
    assert_int_equal(dlr_sequence_step(s, UINT64_MAX, &step), -ERANGE);
    assert_int_equal(dlr_sequence_step(s, DLR_SEQUENCE_STEP_MAX - 1, &step), -ERANGE);
    dlr_sequence_free(s);
}

static void what_cannot_be_read_is_refused_by_name(void **state)
{
    static const struct {
        uint64_t length;
        uint32_t batch, micro, sources;
        enum dlr_ends ends;
        const char *said;
    } rows[] = {
        {0, 8, 1, 1, DLR_ENDS_SPAN, "source 0 has no records"},
        {UINT64_MAX, 8, 1, 1, DLR_ENDS_SPAN,
         "source 0 has 18446744073709551615 records: too many"},
        {9, 0, 1, 1, DLR_ENDS_SPAN, "global_batch 0 is not 1 to 1073741824"},
        {9, 8, 3, 1, DLR_ENDS_SPAN, "micro_batch 3 does not divide global_batch 8"},
        {9, 8, 0, 1, DLR_ENDS_SPAN, "micro_batch 0 does not divide global_batch 8"},
        {9, 10, 1, 1, DLR_ENDS_DROP,
         "global_batch 10 is more than the 9 records of an epoch, and drop leaves "
         "short "
         "batches out"},
        {9, 8, 1, 0, DLR_ENDS_SPAN, "0 sources: 1 to 64 can be"},
        {9, 8, 1, 65, DLR_ENDS_SPAN, "65 sources: 1 to 64 can be"},
        {9, 8, 1, 2, DLR_ENDS_SPAN, "parts of the mixture add up to 0"},
        {9, 8, 1, 2, DLR_ENDS_KEEP,
         "ends must be span: a mixture has no epochs to keep or drop the rest of"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_sequence_conf conf =
            plain(rows[i].length, rows[i].batch, rows[i].micro);
        struct dlr_sequence *s = NULL;
        struct dlr_err err;

        conf.source[1].length = 1;
        conf.sources = rows[i].sources;
        conf.ends = rows[i].ends;
        assert_int_equal(dlr_sequence_new(&conf, &s, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].said);
    }
}

static void a_change_that_cannot_be_is_refused_and_changes_nothing(void **state)
{
    static const struct {
        struct dlr_change change;
        int rc;
        const char *said;
    } rows[] = {
        {{.kind = DLR_CHANGE_BATCH, .step = 9, .batch = 4, .micro = 4},
         -EINVAL,
         "a change at step 9 after one at step 10"},
        {{.kind = DLR_CHANGE_BATCH, .step = 11, .batch = 4, .micro = 3},
         -EINVAL,
         "micro_batch 3 does not divide global_batch 4"},
        {{.kind = DLR_CHANGE_PARTS, .step = 11}, -ENOTSUP, "one source has no weights"},
        {{.kind = DLR_CHANGE_EXTEND, .step = 11, .source.length = 99},
         -EINVAL,
         "99 records after 100: it may only grow"},
        {{.kind = DLR_CHANGE_SKIP, .step = 11, .skip = DLR_SEQUENCE_STEP_MAX},
         -EINVAL,
         "step 281474976710667 is beyond what a feed has"},
        {{.step = 11}, -EINVAL, "no such change of a feed"},
    };
    static const struct dlr_change first = {
        .kind = DLR_CHANGE_BATCH, .step = 10, .batch = 20, .micro = 4};
    const struct dlr_sequence_conf conf = plain(100, 40, 4);
    struct dlr_sequence *s = begin_at(&conf, &first, 1, 11);
    struct dlr_err err;
    unsigned n;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(dlr_sequence_change(s, &rows[i].change, &err), rows[i].rc);
        assert_string_equal(err.text, rows[i].said);
        dlr_sequence_changes(s, &n);
        assert_int_equal(n, 1);
    }
    dlr_sequence_free(s);
}

/* Programs say at each start, or in each step, how they want it. */
static void a_change_that_is_said_again_is_made_once(void **state)
{
    static const struct dlr_change skip = {
        .kind = DLR_CHANGE_SKIP, .step = 10, .skip = 5};
    const struct dlr_sequence_conf conf = plain(100, 40, 4);
    struct dlr_sequence *s = begin_at(&conf, &skip, 1, 11);
    struct dlr_change same = {.kind = DLR_CHANGE_BATCH, .batch = 40, .micro = 4};
    unsigned n;

    for (same.step = 11; same.step < 1000; same.step++)
        assert_int_equal(dlr_sequence_change(s, &same, NULL), 0);
    assert_int_equal(dlr_sequence_change(s, &skip, NULL), 0);
    same.step = 0; /* what held there, before a change that came later */
    assert_int_equal(dlr_sequence_change(s, &same, NULL), 0);
    dlr_sequence_changes(s, &n);
    assert_int_equal(n, 1);
    for (same.step = 1000; n < DLR_SEQUENCE_CHANGES; same.step++, n++) {
        same.batch = 60 - same.batch;
        assert_int_equal(dlr_sequence_change(s, &same, NULL), 0);
    }
    same.batch = 60 - same.batch;
    assert_int_equal(dlr_sequence_change(s, &same, NULL), -ENOSPC);
    dlr_sequence_free(s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_model_at_any_size_over_any_restarts),
        cmocka_unit_test(the_same_samples_for_every_number_of_ranks),
        cmocka_unit_test(each_epoch_has_every_record_once),
        cmocka_unit_test(the_rest_of_an_epoch_is_kept_or_left_out),
        cmocka_unit_test(far_steps_are_as_near_as_the_first),
        cmocka_unit_test(what_cannot_be_read_is_refused_by_name),
        cmocka_unit_test(a_change_that_cannot_be_is_refused_and_changes_nothing),
        cmocka_unit_test(a_change_that_is_said_again_is_made_once),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
